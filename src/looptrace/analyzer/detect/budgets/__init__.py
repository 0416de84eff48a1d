"""Budgets of several tasks together: a session's, a service's of a day, and one of a day."""
