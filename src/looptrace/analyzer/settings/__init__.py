"""`looptrace.toml`: read, checked, written, described."""
