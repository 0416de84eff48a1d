"""What runs in the agent's process: it needs OpenTelemetry, and nothing else until it judges."""
