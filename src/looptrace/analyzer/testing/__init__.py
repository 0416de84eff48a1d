"""The notation of rule cases, for authors of rules."""
