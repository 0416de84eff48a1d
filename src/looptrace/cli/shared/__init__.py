"""What the commands share: how traces are read, and the options of several commands."""
