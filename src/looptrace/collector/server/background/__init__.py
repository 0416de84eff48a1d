"""Threads of a server that look at the store now and then."""
