"""The paths of the gates API, which the server serves and its clients ask."""

from __future__ import annotations

STREAM_PATH = "/v1/gates/stream"

# Beside OTLP's own `/v1/metrics`.
GATE_METRICS_PATH = "/v1/gates/metrics"

RESOLVE_PATH = "/v1/gates/{id}/resolve"
WARMING_PATH = "/v1/warming"
