"""Limits of a task, whether it repeats anything or not."""
