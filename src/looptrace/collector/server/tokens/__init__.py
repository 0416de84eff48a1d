"""Tokens: whose they are, what they allow, until when, and the file that holds them."""
