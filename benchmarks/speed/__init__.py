"""`make bench`: how fast everything is, beside a plain reader and loop."""
