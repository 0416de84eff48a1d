"""GenAI events in log records are events of the spans that they name, from any source."""

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.distinct_spans import distinct_spans
from looptrace.collector.coding_agents.otlp_logs import decode_json, decode_proto
from looptrace.collector.content.policy import Content, with_content
from looptrace.collector.files.reader import SpansRead, read_spans
from looptrace.collector.otlp.json import decode_request
from looptrace.collector.otlp.json_request import json_request
from looptrace.collector.otlp.span_rows import DecodingBounds
from looptrace.collector.otlp.span_table import span_table
from tests.collector.coding_agents.logs import shown
from tests.collector.conftest import Write
from tests.logged import (
    DETAILS,
    FORMS,
    LOOP,
    OK,
    SCOPE,
    Form,
    Record,
    Request,
    Step,
    call,
    logs,
    record,
    session,
    span,
    spans,
)
from tests.otlp import decoded_rows, spans_in

# Recorded from an agent of our own, whose model was scripted.
DATA = Path(__file__).parent / "data"
FOUND = {"repeated_call", "repeated_failure", "signature_repeat"}


def encoded(*requests: Request) -> bytes:
    """Return requests as JSON lines."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in requests)


def proto(request: Request) -> bytes:
    """Return a request in protobuf, where ids are bytes and no hex."""

    def mend(value: Any) -> Any:
        if isinstance(value, list):
            return [mend(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {k: _base64(v) if k in ("traceId", "spanId") else mend(v) for k, v in value.items()}

    message = TracesData() if "resourceSpans" in request else LogsData()
    return bytes(ParseDict(mend(request), message).SerializeToString())


def _base64(text: str) -> str:
    return b64encode(bytes.fromhex(text)).decode()


def rules(found: SpansRead) -> set[str]:
    """Return the rules that fire on what was read."""
    return {finding.rule for finding in analyse(found.spans, found.skipped).findings}


@pytest.mark.parametrize("is_loop", [True, False])
@pytest.mark.parametrize("producer", ["openai_v2", "genai_openai"])
def test_what_producers_wrote_is_read(producer: str, *, is_loop: bool) -> None:
    """OpenTelemetry's instrumentations of OpenAI, 2.4b0 and 1.3b0, with content in events."""
    name = f"{producer}-{'loop' if is_loop else 'ok'}.jsonl.gz"
    found = read_spans([str(DATA / name)])
    turns = turns_of(found.spans)[0]

    assert (found.skipped, found.spans.height) == ((), 8)
    kinds = dict(turns["kind"].value_counts().iter_rows())
    assert kinds == {"user": 1, "model": 7, "tool": 6}
    calls = turns.filter(pl.col("kind") == "tool")
    assert calls["arguments"].null_count() == calls["result"].null_count() == 0
    assert turns["text"].to_list()[-1] == "All done."
    assert rules(found) == (FOUND if is_loop else set())


@pytest.mark.parametrize("form", FORMS)
def test_spans_without_content_get_it_from_log_records(form: Form, write: Write) -> None:
    """A loop is found where the content is in logs alone, and an agent at work is none."""
    for name, steps, wanted in (("loop", LOOP, FOUND), ("ok", OK, set())):
        bare, said = session(name, steps, form)
        paths = (
            write(f"{name}-a.json", encoded(spans(*bare))),
            write(f"{name}-b.json", encoded(logs(*said))),
        )
        found = read_spans(paths)

        assert found.skipped == ()
        assert found.spans.height == len(steps)
        turns = turns_of(found.spans)[0]
        calls = turns.filter(pl.col("kind") == "tool")
        assert calls["result"].to_list() == [step.result for step in steps[:-1]] + [None]
        assert calls["arguments"].to_list() == [f'{{"path":"{step.path}"}}' for step in steps]
        assert rules(found) == wanted
        assert rules(read_spans(paths[:1])) == set()


Arrange = Callable[[list[dict[str, Any]], list[Record]], list[Request]]


def names(events: str) -> list[str]:
    """Return the names of events in their order."""
    return [event["name"].removeprefix("gen_ai.") for event in json.loads(events)]


def _each_alone(bare: list[dict[str, Any]], said: list[Record]) -> list[Request]:
    clocked = [{**each, "timeUnixNano": str(10**18 + n)} for n, each in enumerate(said)]
    every = [*(spans(each) for each in bare), *(logs(each) for each in clocked)]
    Random(3).shuffle(every)
    return every


ARRANGED: dict[str, Arrange] = {
    "logs first": lambda bare, said: [logs(*said), spans(*bare)],
    "each alone, in any order": _each_alone,
    "logs twice": lambda bare, said: [logs(*said), spans(*bare), logs(*said)],
    "twice in a request": lambda bare, said: [spans(*bare), logs(*said, *said)],
    "spans twice": lambda bare, said: [spans(*bare), logs(*said), spans(*bare)],
    "in one document": lambda bare, said: [{**spans(*bare), **logs(*said)}],
    "logs before spans in one": lambda bare, said: [{**logs(*said), **spans(*bare)}],
}


@pytest.mark.parametrize("arranged", ARRANGED)
def test_order_and_copies_make_no_difference(arranged: str, write: Write) -> None:
    """Files are read in any order, and exporters try again."""
    bare, said = session()
    plain = read_spans([write("plain.jsonl", encoded(spans(*bare), logs(*said)))])
    found = read_spans([write("other.jsonl", encoded(*ARRANGED[arranged](bare, said)))])

    assert found.skipped == ()
    assert shown(turns_of(found.spans)[0]) == shown(turns_of(plain.spans)[0])
    assert [names(text) for text in found.spans.sort("span_id")["events"]] == [
        names(text) for text in plain.spans.sort("span_id")["events"]
    ]


@pytest.mark.parametrize("pause", [0, 1, 20])
@pytest.mark.parametrize("arranged", ARRANGED)
def test_live_is_batch(arranged: str, pause: int, write: Write) -> None:
    """A record may come before its span or after it; after long pauses the task is mended."""
    bare, said = session()
    for each in bare:
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            each[key] = str(int(each[key]) + pause * 10**10 * int(each["spanId"], 16))
    requests = ARRANGED[arranged](bare, said)
    read = [read_spans([write(f"{n}.json", encoded(r))]).spans for n, r in enumerate(requests)]
    whole = read_spans([f"{n}.json" for n in range(len(requests))])
    live = LiveSpans()
    for part in read:
        live.take(part)
        live.mend()
    live.rest()
    live.mend()

    assert {f.rule for f in live.engine.findings()} == rules(whole) == FOUND
    assert live.log_events.lost == 0


def test_protobuf_is_read_as_json(write: Write) -> None:
    """The collector writes files of messages, of spans and of logs alike."""
    bare, said = session()
    request = logs(*said)

    assert decode_proto(proto(request)) == decode_json(json.dumps(request).encode())
    paths = [write("a.binpb", proto(spans(*bare))), write("b.binpb", proto(request))]
    assert rules(read_spans(paths)) == FOUND
    frames = b"".join(len(m).to_bytes(4, "big") + m for m in map(proto, (spans(*bare), request)))
    assert rules(read_spans([write("c.binpb", frames)])) == FOUND


def test_requests_in_an_array_are_read(write: Write) -> None:
    """An array may hold requests of any signal."""
    bare, said = session()
    data = json.dumps([logs(*said), {"resourceMetrics": []}, spans(*bare)]).encode()

    found = read_spans([write("array.json", data)])
    assert (found.skipped, rules(found)) == ((), FOUND)


def test_records_that_name_no_span_are_counted_once(write: Write) -> None:
    """Without a provider of traces the ids are zero; one line says so, and other logs are none."""
    bare, said = session()
    for number, each in enumerate(said):
        each.update(traceId="0" * 32 * (number % 2), spanId="0" * 16 * (number % 2))
    plain = {"traceId": "", "body": {"stringValue": "started"}, "eventName": "exception"}
    found = read_spans([write("both.jsonl", encoded(spans(*bare), logs(*said, plain)))])

    ((where, why),) = [(part.where, part.why) for part in found.skipped]
    assert where == "both.jsonl"
    assert why.startswith(f"GenAI events in log records that name no span: {len(said)}, ")
    assert rules(found) == set()


def test_records_whose_span_is_not_there_are_counted_once(write: Write) -> None:
    """A sampler may have dropped the spans, or they are in another file."""
    bare, said = session()
    found = read_spans([write("both.jsonl", encoded(spans(*bare[:2]), logs(*said)))])
    analysis = analyse(found.spans, found.skipped)

    (part,) = analysis.skipped
    missing = sum(int(each["spanId"], 16) > 2 for each in said)
    assert part.where == "log records"
    assert part.why.startswith(f"their spans are not here: {missing} GenAI events, ")
    assert analysis.summary.spans == 2


def test_a_message_that_a_span_has_itself_counts_once(write: Write) -> None:
    """An instrumentation may write events on the span and in logs, or attributes and logs."""
    bare, said = session()
    for each in bare:
        own = [r for r in said if r["spanId"] == each["spanId"]]
        each["events"] = [
            {
                "name": r["eventName"],
                "timeUnixNano": r["observedTimeUnixNano"],
                "attributes": r["body"]["kvlistValue"]["values"],
            }
            for r in own
        ]
    alone = read_spans([write("alone.json", encoded(spans(*bare)))])
    found = read_spans([write("both.jsonl", encoded(spans(*bare), logs(*said)))])

    assert found.spans.sort("span_id").equals(alone.spans.sort("span_id"))
    assert rules(found) == FOUND


def test_content_that_was_not_captured_is_unknown(write: Write) -> None:
    """By default events have no content, and calls with unknown arguments are not equal."""
    said = []
    for number in range(6):
        said.append(record("s", number, "gen_ai.user.message"))
        said.append(record("s", number, "gen_ai.tool.message", {"id": f"c{number - 1}"}))
        bare_call = {**call(number, ""), "function": {"name": "run_tests"}}
        message = {"role": "assistant", "tool_calls": [bare_call]}
        said.append(
            record(
                "s", number, "gen_ai.choice", {"finish_reason": "tool_calls", "message": message}
            )
        )
    bare, _ = session()
    found = read_spans([write("both.jsonl", encoded(spans(*bare), logs(*said)))])

    turns = turns_of(found.spans)[0]
    calls = turns.filter(pl.col("kind") == "tool")
    assert calls["name"].to_list() == ["run_tests"] * 6
    assert calls["arguments"].null_count() == calls["result"].null_count() == 6
    assert turns.filter(pl.col("kind") == "model")["arguments"].null_count() == 6
    assert rules(found) == set()


def test_tools_get_their_arguments_results_and_errors(write: Write) -> None:
    """AgentCore's records have a tool's input and output; newer conventions have its exception."""
    tools, said = [], []
    for number in range(6):
        tools.append(span("t", number, "execute_tool", **{"gen_ai.tool.name": "build"}))
        given, gave = ({"role": "user", "content": '{"target":"all"}'}, {"content": "2 errors"})
        body = {"input": {"messages": [given]}, "output": {"messages": [gave]}}
        said.append(record("t", number, SCOPE, body, named=True))
    found = read_spans([write("both.jsonl", encoded(spans(*tools), logs(*said)))])

    turns = turns_of(found.spans)[0]
    assert set(turns["arguments"]) == {'{"target":"all"}'}
    assert set(turns["result"]) == {"2 errors"}
    assert "repeated_call" in rules(found)

    raised = {"exception.type": "OSError", "exception.message": "disk full"}
    for number, each in enumerate(tools):
        each["status"] = {"code": 2}
        said[number] = record("t", number, "gen_ai.execute_tool.exception", None, raised)
    found = read_spans([write("raised.jsonl", encoded(spans(*tools), logs(*said)))])
    assert set(turns_of(found.spans)[0]["error"]) == {"disk full"}
    assert rules(found) >= {"repeated_failure"}


def test_some_spans_have_content_and_others_have_none(write: Write) -> None:
    """What is known of some calls says nothing of the others."""
    bare, said = session()
    few = [each for each in said if int(each["spanId"], 16) in (1, 6)]
    found = read_spans([write("both.jsonl", encoded(spans(*bare), logs(*few)))])

    calls = turns_of(found.spans)[0].filter(pl.col("kind") == "tool")
    assert calls["call_id"].to_list() == ["c0", "c5"]
    assert calls["result"].to_list() == ["1 failed", None]
    assert found.skipped == ()


def deep(levels: int) -> dict[str, Any]:
    """Return an any-value with so many levels."""
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(levels):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
    return value


HOSTILE: dict[str, dict[str, Any]] = {
    "no map": {"body": {"arrayValue": {"values": [{"intValue": "1"}]}}},
    "a number": {"body": {"doubleValue": 1.5}},
    "a text that is no JSON": {"body": {"stringValue": '{"content": '}},
    "messages of no kind": {"body": {"kvlistValue": {"values": [
        {"key": "input", "value": {"kvlistValue": {"values": [
            {"key": "messages", "value": {"arrayValue": {"values": [{"intValue": "3"}, {}]}}}]}}},
        {"key": "output", "value": {"stringValue": '{"messages": {}}'}},
        {"key": "message", "value": {"intValue": "3"}},
        {"key": "tool_calls", "value": {"stringValue": "[[[[1]]]]"}},
        {"key": "content", "value": {"boolValue": True}},
    ]}}},
    "a large text": {"body": {"stringValue": "x" * 1_000_000}},
    "deep": {"body": deep(150)},
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["gen_ai.choice", "gen_ai.tool.message", DETAILS, SCOPE, "gen_ai."]
)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_bodies_of_no_form_do_no_harm(hostile: str, name: str, write: Write) -> None:
    """The span counts as if nothing was said of it, and all others are read."""
    bare, said = session()
    odd = {**record("s", 6, name), **HOSTILE[hostile]}
    requests = spans(*bare, span("s", 6)), logs(*said, odd)
    found = read_spans([write("both.jsonl", encoded(*requests))])

    assert rules(found) >= {"repeated_failure"}
    live = LiveSpans()
    live.take(found.spans)


def test_bad_records_cost_only_themselves(write: Write) -> None:
    """A bad id, a bad time and a body that is nested too deep are reported, each for itself."""
    bare, said = session()
    bad = [
        {**said[0], "traceId": "abc"},
        {**said[0], "spanId": "xyz"},
        {**said[0], "timeUnixNano": str(1 << 64)},
        {**said[0], "body": deep(220)},
    ]
    found = read_spans([write("both.jsonl", encoded(spans(*bare), logs(*bad[:3], *said)))])

    assert [part.why.partition(":")[0] for part in found.skipped] == [
        f"log record {number} was left out" for number in (1, 2, 3)
    ]
    assert rules(found) == FOUND
    found = read_spans([write("deep.jsonl", encoded(logs(bad[3]), spans(*bare), logs(*said)))])
    assert [part.where for part in found.skipped] == ["deep.jsonl:1"]
    assert "nested too deep" in found.skipped[0].why
    assert rules(found) == FOUND


def test_what_log_records_may_add_to_a_span_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a client could let one span grow for ever."""
    monkeypatch.setattr("looptrace.analyzer.schema.distinct_spans.LOGGED_CHARS_MAX", 20_000)
    monkeypatch.setattr("looptrace.analyzer.engine.live_log_events.WAITING_CHARS_MAX", 200_000)
    bare, _ = session()
    live = LiveSpans()
    for number in range(1_000):
        event = record("s", 0, "gen_ai.user.message", {"content": f"{number} " + "x" * 1_000})
        event["timeUnixNano"] = str(number)
        live.take(span_table(decode_json(json.dumps(logs(event)).encode()).rows))
    live.take(spans_in(spans(*bare)))

    assert 0 < live.log_events.lost < 1_000
    assert max(len(kept.row[11]) for kept in live.log_events._kept.values()) < 25_000


def test_records_that_wait_are_forgotten() -> None:
    """A span that was sampled out never comes."""
    _, said = session()
    live = LiveSpans()
    live.take(span_table(decode_json(json.dumps(logs(*said)).encode()).rows))
    live.log_events.forget()
    assert live.log_events.lost == 0
    live.log_events.forget()
    assert live.log_events.lost == len(said)


def test_a_step_of_its_own_is_healthy(write: Write) -> None:
    """The same call with news each time is work, and so are two sessions with the same steps."""
    steps = [Step("a", f"{10 - number} failed") for number in range(6)]
    both = [*session("one", steps), *session("two", steps)]
    requests = [spans(*both[0], *both[2]), logs(*both[1], *both[3])]

    assert rules(read_spans([write("both.jsonl", encoded(*requests))])) == set()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("content", ["redacted", "hashes"])
def test_content_policies_hold_for_log_records(content: Content, form: Form, write: Write) -> None:
    """Secrets stay out and long texts are cut, and the findings are the same."""
    secret = "sk-ant-api03-" + "0a1b" * 8 + "AA"
    said_twice = f"Error: no access with {secret} " + "zebra " * 600
    for steps, wanted in (([Step("a", said_twice)] * 6, FOUND), (OK, set())):
        bare, said = session("s", steps, form)
        read = [
            with_content(
                read_spans([write(f"{n}.json", encoded(request))]).spans, content, b"k" * 32
            )
            for n, request in enumerate((logs(*said), spans(*bare)))
        ]
        assert secret not in "".join(read[0]["events"])
        assert max(read[0]["events"].str.len_bytes()) < 60_000
        assert content == "redacted" or "zebra" not in "".join(read[0]["events"])
        joined, clashes = distinct_spans(pl.concat(read))
        assert (joined.height, clashes) == (6, [])
        assert {f.rule for f in analyse(joined).findings} == wanted


def test_a_tool_of_agentcore_is_hashed_too() -> None:
    """What it was called with and what it returned are compared as hashes."""
    given, gave = {"role": "user", "content": '{"target":"zebra"}'}, {"content": "2 zebras"}
    body = {"input": {"messages": [given]}, "output": {"messages": [gave]}}
    raised = {"exception.type": "OSError", "exception.message": "zebra is full"}
    records = [record("t", n, SCOPE, body, named=True) for n in range(6)]
    failed = "gen_ai.execute_tool.exception"
    records += [record("t", n, failed, None, raised) for n in range(6)]
    tools = [span("t", n, "execute_tool", **{"gen_ai.tool.name": "build"}) for n in range(6)]
    for each in tools:
        each["status"] = {"code": 2}
    rows = decode_json(json.dumps(logs(*records)).encode()).rows
    table = pl.concat([span_table(rows), spans_in(spans(*tools))])
    hashed, _ = distinct_spans(with_content(table, "hashes", b"k" * 32))

    turns = turns_of(hashed)[0]
    assert "zebra" not in str(hashed.to_dicts())
    assert turns["arguments"].null_count() == turns["result"].null_count() == 0
    assert set(turns["error_type"]) == {"OSError"}
    assert {f.rule for f in analyse(hashed).findings} >= {"repeated_failure"}


def test_events_are_forwarded_to_other_servers_as_they_are() -> None:
    """One of several servers may get the records of another one's spans."""
    rows = decode_json(json.dumps(logs(*session()[1])).encode()).rows

    assert decoded_rows(decode_request(json_request(span_table(rows)), DecodingBounds())) == rows


def test_events_of_one_moment_stay_in_their_order() -> None:
    """Some clocks tell milliseconds, and a history is an order."""
    bare, said = session()
    rows = decode_json(json.dumps(logs(*said)).encode()).rows
    joined, _ = distinct_spans(pl.concat([spans_in(spans(*bare)), span_table(rows)]))

    history = ["user.message", *["assistant.message", "tool.message"] * 5, "choice"]
    assert names(joined.sort("span_id")["events"][-1]) == history


def test_a_copy_that_says_more_keeps_the_events() -> None:
    """A process may send a span again, with what it inherits from spans above it."""
    bare, said = session()
    live = LiveSpans()
    live.take(spans_in(spans(*bare)))
    live.take(_rows_of(logs(*said)))
    more = [{**each, "attributes": each["attributes"] + _agent()} for each in bare]
    live.take(spans_in(spans(*more)))

    assert {finding.rule for finding in live.engine.findings()} == FOUND
    table = pl.concat([spans_in(spans(*bare)), _rows_of(logs(*said))])
    joined, _ = distinct_spans(table)
    again, clashes = distinct_spans(pl.concat([joined, spans_in(spans(*more))]))
    assert len(clashes) == len(bare)
    ordered = [table.sort("span_id")["events"] for table in (again, joined)]
    assert list(map(names, ordered[0])) == list(map(names, ordered[1]))
    assert again["attributes"].str.contains("mender").all()


def _rows_of(request: Request) -> pl.DataFrame:
    return span_table(decode_json(json.dumps(request).encode()).rows)


def _agent() -> list[dict[str, Any]]:
    long = {"key": "gen_ai.agent.description", "value": {"stringValue": "x" * 10_000}}
    return [{"key": "gen_ai.agent.name", "value": {"stringValue": "mender"}}, long]
