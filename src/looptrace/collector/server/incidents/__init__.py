"""The routes of incidents, and of what people say about many gates at once.

A method raises `GateError` where there is no such incident or silence, what is said is refused, or
the store cannot be written.
"""
