"""The figures of the overview: in a period, and in the time before it."""
