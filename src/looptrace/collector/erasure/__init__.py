"""Erasure of what a store has of a session, a task, a user or a service."""
