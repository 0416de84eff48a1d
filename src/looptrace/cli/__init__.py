"""The command line, one file for each command, and the exit codes."""

from collections.abc import Callable
from typing import Any, TypeVar

Command = TypeVar("Command", bound=Callable[..., Any])  # what a command's options decorate
EXIT_FOUND = 1
EXIT_UNREADABLE = 2
EXIT_CRASHED = 3
# A shell reports a process that a signal ended as 128 plus the signal's number.
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141
