"""What the detector reads, counts and records beside the engine."""
