"""Agents of real frameworks that loop, are told so while they run, and stop."""
