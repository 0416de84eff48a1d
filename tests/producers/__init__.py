"""Agents of frameworks in other languages, and how their spans are recorded."""
