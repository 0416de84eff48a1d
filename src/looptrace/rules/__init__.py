"""Rules: one file each, pure functions over columns."""
