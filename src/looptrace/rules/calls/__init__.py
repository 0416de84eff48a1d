"""Rules over tool calls: the same call, result or failure repeats."""
