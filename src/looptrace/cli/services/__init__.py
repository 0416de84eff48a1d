"""The commands that run until they are ended."""
