"""Rules: pure functions over columns, one file each in the folder of its family."""
