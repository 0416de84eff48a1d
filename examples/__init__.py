"""Example traces, and the script that makes them."""
