"""Spans of any dialect to turns."""
