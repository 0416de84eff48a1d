"""OTLP as JSON and protobuf, decoded into the span table."""
