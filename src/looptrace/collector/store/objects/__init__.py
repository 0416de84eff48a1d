"""A store on object storage: objects, and a manifest that conditional puts replace."""
