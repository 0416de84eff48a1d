"""Session logs and log events of coding agents, as spans."""
