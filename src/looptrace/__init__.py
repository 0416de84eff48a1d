"""looptrace finds LLM agents that are stuck in loops, from their OpenTelemetry traces."""

__version__ = "0.1.0"
