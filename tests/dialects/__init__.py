"""Recorded examples of the producers in the table of dialects, and what writes them."""
