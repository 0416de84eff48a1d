"""A bucket of a store: its turns in parts, and the settings that its findings come from."""
