"""Builds the smallest export requests, and the files that hold them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

if sys.version_info >= (3, 14):
    from compression.zstd import compress as pack_zstd
else:
    from backports.zstd import compress as pack_zstd

__all__ = ["Json", "Write", "attributes", "line", "pack_zstd", "prefixed", "request", "span"]

Json: TypeAlias = dict[str, Any]
Write: TypeAlias = Callable[[str, bytes], str]

TRACE_ID = "5b8efff798038103d269b633813fc60c"


def span(number: int = 1, **fields: Any) -> Json:
    """Return a span with the given number as its id; `fields` replace its fields."""
    return {
        "traceId": TRACE_ID,
        "spanId": f"{number:016x}",
        "name": f"call {number}",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        **fields,
    }


def attributes(**values: Json) -> list[Json]:
    """Return attributes whose any-values are the given ones."""
    return [{"key": key, "value": value} for key, value in values.items()]


def request(*spans: Any) -> Json:
    """Return an export request of one resource and one scope."""
    resource = {"attributes": attributes(**{"service.name": {"stringValue": "shop"}})}
    scope_spans = {"scope": {"name": "tests"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans]}]}


def line(*spans: Any) -> bytes:
    """Return an export request as one line, as the collector's file exporter writes it."""
    return json.dumps(request(*spans), separators=(",", ":")).encode() + b"\n"


def prefixed(*messages: bytes) -> bytes:
    """Return messages as the collector's file exporter writes them."""
    return b"".join(len(message).to_bytes(4, "big") + message for message in messages)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file into an empty working folder; return its name."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, data: bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return name

    return write_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Name a store."""
    return tmp_path / "gates.db"
