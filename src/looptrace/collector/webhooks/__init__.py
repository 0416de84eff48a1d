"""Delivery of the outbox's events to webhooks, over HTTP.

What reads secrets raises `SecretError` where one cannot be read, and what uses the store
`StoreError`.
"""
