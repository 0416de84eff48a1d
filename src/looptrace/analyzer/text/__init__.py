"""Texts in the form of spans, and in the form for people."""
