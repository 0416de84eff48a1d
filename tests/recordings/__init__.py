"""What looptrace says of the project's own data, written down, so that a rewrite says the same."""
