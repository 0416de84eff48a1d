"""Spans of agents as platforms for logs, metrics and traces keep and export them."""
