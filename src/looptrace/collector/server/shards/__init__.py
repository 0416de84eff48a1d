"""Several servers as one: which server has a span, and how it gets there."""
