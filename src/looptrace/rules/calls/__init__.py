"""Rules over tool calls: the same call, result or failure comes again."""
