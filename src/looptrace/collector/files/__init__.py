"""Files, folders and standard input, as spans."""
