"""The list of gates: a line each, by incident, filtered and sorted."""
