"""A server and a store say of every example and framework's trace what batch says of its spans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import distinct_spans, span_rows
from looptrace.cli.main import main
from looptrace.collector.files.reader import read_spans
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json import decode_document
from tests.analyzer.engine.test_arrivals import EARLY, FILES
from tests.otlp import key_values
from tests.reliability.serving import OK, served, until
from tests.reliability.test_restart import events_of

# What a live engine cannot know is left out, as in the tests of the engine.
PATHS = [str(path) for path in FILES if path.name.partition(".")[0] not in EARLY]


def spans_of_all() -> pl.DataFrame:
    """Return the spans of all files, each once, in the order of their ends."""
    return distinct_spans(read_spans(PATHS).spans)[0].sort("end_ns", maintain_order=True)


def request_of(spans: pl.DataFrame) -> dict[str, Any]:
    """Return spans as an export request in OTLP/JSON."""
    return {"resourceSpans": [_resource_spans(*row) for row in span_rows(spans)]}


def _resource_spans(*row: Any) -> dict[str, Any]:
    trace_id, span_id, parent, name, start_ns, end_ns, status, message, service, scope = row[:10]
    attributes, events, links = map(json.loads, row[10:])
    span = {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent or "",
        "name": name,
        "startTimeUnixNano": start_ns,
        "endTimeUnixNano": end_ns,
        "status": {"code": status, "message": message or ""},
        "attributes": key_values(attributes),
        "events": [
            {
                "name": event["name"],
                "timeUnixNano": event["time_ns"],
                "attributes": key_values(event["attributes"]),
            }
            for event in events
        ],
        "links": [{"traceId": link["trace_id"], "spanId": link["span_id"]} for link in links],
    }
    resource = {"attributes": key_values({"service.name": service} if service else {})}
    return {
        "resource": resource,
        "scopeSpans": [{"scope": {"name": scope or ""}, "spans": [span]}],
    }


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 512])
def test_a_server_says_of_every_trace_what_batch_says(
    tmp_path: Path, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Events as they come, and the findings of what it has stored."""
    spans = spans_of_all()
    sent = [request_of(part) for part in spans.iter_slices(size)]
    document = {"resourceSpans": [each for one in sent for each in one["resourceSpans"]]}
    rows = decode_document("sent", Frame(1, json.dumps(document).encode())).rows
    whole = detect(turns_of(pl.DataFrame(rows, spans.schema, orient="row"))[0])
    assert whole.events
    store = tmp_path / "store"
    settings = tmp_path / "looptrace.toml"
    settings.write_text("[server]\nstore_every_s = 1\n", encoding="utf-8")
    with served(store, "--content", "full", "--config", str(settings)) as server:
        assert {server.send(request) for request in sent} == {OK}
        until(lambda: server.number("looptrace_detection_spans_total") >= spans.height)
        until(lambda: server.number("looptrace_log_spans") == 0)
    assert events_of(store) == sorted((event.id, event.type) for event in whole.events)
    with pytest.raises(SystemExit):
        main(["analyze", str(store), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert {each["id"] for each in report["findings"]} == {each.id for each in whole.findings}
    assert {each["id"] for each in report["events"]} == {each.id for each in whole.events}
