"""The tables that steps pass on: spans and turns."""
