"""Consequences of findings: gate events, the state of a task, and directives."""
