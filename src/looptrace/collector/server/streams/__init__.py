"""Streams of gate events: the names that a stream follows, and its events."""
