"""What tests of rules need: turns, written in a line."""

from looptrace.analyzer.testing.notation import NotationError, turns_in

__all__ = ["NotationError", "turns_in"]
