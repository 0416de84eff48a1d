"""Taking requests of OTLP over HTTP and gRPC, within limits."""
