"""Reception of OTLP requests over HTTP and gRPC, within limits."""
