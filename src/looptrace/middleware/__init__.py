"""Middleware of agent frameworks: what looptrace says reaches the model, and a gate ends the run.

Each module uses the extension point of one framework, and imports that framework. Nothing of them
is imported before.
"""
