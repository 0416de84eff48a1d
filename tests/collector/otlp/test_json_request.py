"""Spans written as a request again: whatever they hold, they decode to what they were."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from looptrace.collector.files.reader import read_spans
from looptrace.collector.otlp.json import decode_request
from looptrace.collector.otlp.json_request import json_request
from looptrace.collector.otlp.span_rows import DecodingBounds
from looptrace.collector.otlp.span_table import span_table
from tests.otlp import Trace, decoded_rows

EXAMPLES = sorted(map(str, Path("examples/traces").iterdir()))
KEY = ["trace_id", "span_id"]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | TEXTS
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def again(request: bytes) -> None:
    """Check that a request and the request made from it have the same content."""
    spans = span_table(decoded_rows(decode_request(request, DecodingBounds())))
    decoded = decode_request(json_request(spans), DecodingBounds())
    assert decoded.problems == []
    assert span_table(decoded_rows(decoded)).sort(KEY).equals(spans.sort(KEY))


def test_the_examples_come_through() -> None:
    """Spans of several services and scopes, in one request."""
    spans = read_spans(EXAMPLES).spans
    rows = decoded_rows(decode_request(json_request(spans), DecodingBounds()))
    assert spans.height > 50
    assert span_table(rows).sort(KEY).equals(spans.sort(KEY))


@given(st.dictionaries(TEXTS, VALUES, max_size=4), VALUES, st.none() | TEXTS)
def test_any_values_come_through(
    attributes: dict[str, object], value: object, service: str | None
) -> None:
    """Attributes of spans and of their events, with and without a service."""
    trace = Trace("s", service=service or "")
    root = trace.span("root", attributes=attributes, status="error", message="no")  # type: ignore[arg-type]
    linked = [("ab" * 16, "cd" * 8)]
    trace.span("child", root, {"v": value}, [("told", {"v": value})], links=linked)  # type: ignore[dict-item]
    request = trace.request()
    if service is None:
        del request["resourceSpans"][0]["resource"]
    again(json.dumps(request).encode())
