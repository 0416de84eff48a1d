"""Chats and steps that frameworks and agents save, read as messages of a model's API."""
