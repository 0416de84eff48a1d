"""What the detector reads at a start: spans of the log, and stored tasks."""
