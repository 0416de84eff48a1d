"""The paths of the gates API, which the server serves and its clients ask."""

from __future__ import annotations

STREAM_PATH = "/v1/gates/stream"


RESOLVE_PATH = "/v1/gates/{id}/resolve"
