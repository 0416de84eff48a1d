"""The commands about many gates at once."""
