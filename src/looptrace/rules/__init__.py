"""Rules: one file each in the folder of its family, pure functions over columns."""
