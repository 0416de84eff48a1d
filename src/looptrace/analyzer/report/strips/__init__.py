"""The strip of a task where there is no page: in a notebook, and in text."""
