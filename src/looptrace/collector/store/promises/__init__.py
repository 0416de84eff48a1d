"""What a store knows of the promises of learned limits."""
