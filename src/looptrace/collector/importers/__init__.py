"""Exports of tracing systems, as spans: what each of them writes, read as it is."""
