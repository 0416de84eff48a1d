"""A store on object storage: its folder is published there, and copied."""
