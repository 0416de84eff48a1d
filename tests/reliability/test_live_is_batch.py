"""Server, store and `local()` say of all examples and frameworks what batch says of their spans."""

import json
from pathlib import Path

import polars as pl
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.distinct_spans import distinct_spans
from looptrace.analyzer.schema.spans import SpanRow, span_rows
from looptrace.cli.main import main
from looptrace.collector.files.reader import read_spans
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json import decode_document
from looptrace.collector.otlp.json_request import json_request
from looptrace.collector.otlp.sdk_spans import sdk_spans
from looptrace.collector.sdk.local_engine import LocalEngine
from tests.analyzer.engine.test_arrivals import EARLY, FILES
from tests.otlp import decoded_rows
from tests.reliability.serving import OK, served, until
from tests.reliability.test_restart import events_of
from tests.seeds import seeds, turn_of

# What a live engine cannot know is left out, as in the tests of the engine.
PATHS = [str(path) for path in FILES if path.name.partition(".")[0] not in EARLY]


def spans_at(size: int) -> pl.DataFrame:
    """Return the spans of files, each once, in the order of their ends.

    Few spans at once take a minute for all files, so that each day has other files then.
    """
    paths = PATHS if size > len(PATHS) else [PATHS[number] for number in seeds(len(PATHS))]
    return distinct_spans(read_spans(paths).spans)[0].sort("end_ns", maintain_order=True)


@pytest.mark.parametrize("size", turn_of(0, [1, 7, 512]))
def test_a_server_says_of_every_trace_what_batch_says(
    tmp_path: Path, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """P5: events as they come, and the findings of what it has stored."""
    spans = spans_at(size)
    sent = [json_request(part) for part in spans.iter_slices(size)]
    rows = [row for each in sent for row in decoded_rows(decode_document("", Frame(1, each)))]
    whole = detect(turns_of(pl.DataFrame(rows, spans.schema, orient="row"))[0])
    assert whole.events
    store = tmp_path / "store"
    with served(store, "--content", "full") as server:
        assert {server.send(request) for request in sent} == {OK}
        until(lambda: server.number("looptrace_detection_spans_total") >= spans.height)
        until(server.has_stored)
    # Batch knows the names from the start.
    told = [event for event in events_of(store) if event[1] != "gate_renamed"]
    assert told == sorted((event.id, event.type) for event in whole.events)
    with pytest.raises(SystemExit):
        main(["analyze", str(store), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert {each["id"] for each in report["findings"]} == {each.id for each in whole.findings}
    assert {each["id"] for each in report["events"]} == {each.id for each in whole.events}


def sdk_span(row: SpanRow) -> ReadableSpan:
    """Return a span as the SDK hands it to a processor at its end."""
    trace_id, span_id, parent, name, start_ns, end_ns, status, message, service, scope = row[:10]
    attributes, events, links = map(json.loads, row[10:])
    return ReadableSpan(
        name,
        _context(trace_id, span_id),
        _context(trace_id, parent) if parent else None,
        Resource({"service.name": service} if service else {}),
        attributes,
        [Event(each["name"], each["attributes"], each["time_ns"]) for each in events],
        [Link(_context(each["trace_id"], each["span_id"])) for each in links],
        status=Status(StatusCode(status), message if status == StatusCode.ERROR.value else None),
        start_time=start_ns,
        end_time=end_ns,
        instrumentation_scope=InstrumentationScope(scope) if scope else None,
    )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False)


@pytest.mark.parametrize("size", turn_of(0, [1, 7, 512]))
def test_local_says_of_every_trace_what_batch_says(size: int) -> None:
    """P5: an agent's own process, which takes spans of the SDK as they end."""
    spans = list(map(sdk_span, span_rows(spans_at(size))))
    whole = detect(turns_of(sdk_spans(spans))[0])
    engine, told = LocalEngine(), list[GateNotice]()
    engine.start(told.extend)
    for begin in range(0, len(spans), size):
        engine.take(spans[begin : begin + size], [])
    engine.close(1)
    assert sorted({each.id for each in told}) == sorted(event.id for event in whole.events)
