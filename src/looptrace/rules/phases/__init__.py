"""Rules over the declared phases of a task."""
