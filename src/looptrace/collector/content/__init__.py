"""The policy for the content of stored spans."""
