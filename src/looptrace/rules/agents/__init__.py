"""Rules over requests between agents."""
