"""Reading traces from files, folders and standard input."""

from looptrace.collector.files.reader import SpansRead, read_spans

__all__ = ["SpansRead", "read_spans"]
