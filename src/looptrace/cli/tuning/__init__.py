"""The commands that fit settings to traces."""
