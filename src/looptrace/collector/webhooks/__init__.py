"""Delivery of the outbox's events to webhooks, over HTTP."""
