"""Spans to canonical fields, in any dialect: what each span is, and what it says."""
