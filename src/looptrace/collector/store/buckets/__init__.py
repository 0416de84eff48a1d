"""A bucket of a store: its turns in parts, and by what they were judged."""
