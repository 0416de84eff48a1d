"""Reads what agents' SDKs write without OpenTelemetry, and what services export."""
