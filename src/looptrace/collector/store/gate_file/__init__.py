"""The file of a store's gates: its tables, and what its events, tasks and agents are known as."""
