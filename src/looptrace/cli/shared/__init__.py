"""Code that commands share: how traces are read, and common options."""
