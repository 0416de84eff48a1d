"""The paths of the gates API, for the server and its clients."""

STREAM_PATH = "/v1/gates/stream"
# One stream, by the id that its answer has in this header.
OWN_STREAM_PATH = STREAM_PATH + "/{stream}"
STREAM_HEADER = "Looptrace-Stream"
# Tasks, and traces, that a stream may follow at once.
STREAM_NAMES_MAX = 1_000

# Beside OTLP's own `/v1/metrics`.
GATE_METRICS_PATH = "/v1/gates/metrics"

RESOLVE_PATH = "/v1/gates/{id}/resolve"
WARMING_PATH = "/v1/warming"

INCIDENTS_PATH = "/v1/incidents"
SILENCES_PATH = "/v1/silences"
ERASURES_PATH = "/v1/erasures"
