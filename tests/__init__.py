"""The tests. What they share lies here; each folder mirrors one of the package."""
