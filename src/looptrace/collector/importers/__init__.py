"""Exports of tracing systems as spans; each export is read as it is."""
