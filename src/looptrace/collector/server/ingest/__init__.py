"""Spans between their request and the store: the log that acknowledges them, and what waits."""
