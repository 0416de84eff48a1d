"""The errors of looptrace, by what a user does about them; this module imports nothing."""

from __future__ import annotations


class LooptraceError(Exception):
    """The base of every error that looptrace raises; its message says why and what to do."""


class InputError(LooptraceError, ValueError):
    """Mend the input: a setting, an option, a file or a request has what it cannot have."""


class InstallError(LooptraceError):
    """Install a package, or uninstall one: what is installed does not do what was asked."""


class UnavailableError(LooptraceError):
    """Try again later: the other side does not answer, or there is no room now."""
