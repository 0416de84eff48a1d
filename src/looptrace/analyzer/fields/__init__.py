"""Spans to canonical fields, in any dialect: the kind of each span, and its contents."""
