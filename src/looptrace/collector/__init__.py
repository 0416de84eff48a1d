"""The edge: everything that touches files, sockets, clocks or the OpenTelemetry SDK."""
