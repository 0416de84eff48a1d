"""Reads records whose fields are a row of a table each: what a field means is data."""
