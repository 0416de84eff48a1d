"""Rules over attempts at tasks, and the figures that show whether they get on."""
