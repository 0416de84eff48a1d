"""Agents of real frameworks that loop, get an event while they run, and stop."""
