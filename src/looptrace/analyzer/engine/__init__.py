"""The drivers: the same rules and gates in batch and live."""
