"""Texts as spans carry them, and as people read them."""
