"""A store on object storage: objects, and a manifest of them that is replaced under a condition."""
