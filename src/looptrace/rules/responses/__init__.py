"""Rules over what an agent puts out: the same response, or words without work."""
