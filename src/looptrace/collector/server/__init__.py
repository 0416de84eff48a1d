"""The server: OTLP in, nothing lost, gates out."""
