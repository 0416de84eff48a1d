"""The routes of incidents, and of what people say about many gates at once."""
