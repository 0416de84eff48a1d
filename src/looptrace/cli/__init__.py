"""The command line, one file a command, and how a command ends."""

EXIT_FOUND = 1
EXIT_UNREADABLE = 2
EXIT_CRASHED = 3
# What a shell reports of a process that a signal ended: 128 and its number.
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141
