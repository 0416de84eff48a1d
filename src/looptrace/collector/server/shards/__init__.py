"""Several servers as one: whose a span is, and how it gets there."""
