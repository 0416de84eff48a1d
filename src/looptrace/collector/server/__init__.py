"""The server: takes telemetry over HTTP and gRPC, and answers for what it has taken."""
