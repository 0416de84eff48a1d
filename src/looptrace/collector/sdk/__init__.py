"""Code for the agent's process; only `local_engine` needs more than OpenTelemetry."""
