"""Rules over the responses of an agent: the same response, or words without work."""
