"""Spans as the SDKs of OpenTelemetry print them: on a console, in a log, one a line."""
