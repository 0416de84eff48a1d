"""A task on a real time axis: agents as lanes, with their waits, calls of each other, and loops."""
