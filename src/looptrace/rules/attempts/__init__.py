"""Rules over attempts at tasks, and the figures that show their progress."""
