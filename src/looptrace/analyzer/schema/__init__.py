"""The tables that steps hand on: spans and turns."""
