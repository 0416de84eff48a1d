"""Gate events that are followed: what a stream asks for, and what it is sent."""
