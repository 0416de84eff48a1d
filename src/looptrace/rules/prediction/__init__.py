"""A run is likely to fail, by a model of runs whose outcome is known."""
