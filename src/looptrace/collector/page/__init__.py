"""The page of a server, for people: gates to decide on, tasks, figures, settings, health."""
