"""Tools for tests of rules: turns in one line of text."""

from looptrace.analyzer.testing.notation import NotationError, turns_in

__all__ = ["NotationError", "turns_in"]
