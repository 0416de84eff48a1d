"""Bounds for any task, whether it repeats anything or not."""
