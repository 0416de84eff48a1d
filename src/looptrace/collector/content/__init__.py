"""How much of a span's content is stored."""
