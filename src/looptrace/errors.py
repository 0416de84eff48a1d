"""The errors of looptrace, by what a user does about them; this module imports nothing."""


class LooptraceError(Exception):
    """The base of every error that looptrace raises; its message says why and what to do."""


class InputError(LooptraceError, ValueError):
    """Correct the input: a setting, an option, a file or a request is wrong."""


class InstallError(LooptraceError):
    """Install or uninstall a package: the installed ones cannot do what was asked."""


class UnavailableError(LooptraceError):
    """Try again later: the other side does not answer, or there is no space now."""
