import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import (
    InMemoryLogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.resources import Resource

from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.coding_agents.otlp_logs import decode_json, decode_proto
from looptrace.collector.otlp.span_rows import DecodedSpans
from tests.collector.coding_agents.logs import rules, shown, turns
from tests.collector.conftest import Write, line, span
from tests.otlp import any_value, key_values
from tests.reliability.receivers import running

Attributes = Mapping[str, Any]
Event = tuple[int, Attributes]  # when, in milliseconds, and what
START_NS = 1_777_883_400_000_000_000
NS_PER_MS = 1_000_000


def claude(at_ms: int, name: str, number: int, **said: Any) -> Event:
    """Return an event as Claude Code sends it: the full name is in the body."""
    named = {"event.name": name, "event.sequence": number, "body": f"claude_code.{name}"}
    return at_ms, {**named, "session.id": "s-claude", "prompt.id": "p1", **said}


def codex(at_ms: int, name: str, **said: Any) -> Event:
    """Return an event as Codex sends it: with its full name, and numbers as text."""
    return at_ms, {"event.name": f"codex.{name}", "conversation.id": "s-codex", **said}


def gemini(at_ms: int, name: str, **said: Any) -> Event:
    """Return an event as Gemini CLI sends it."""
    return at_ms, {"event.name": f"gemini_cli.{name}", "session.id": "s-gemini", **said}


# What a failed call, the tokens of a response and a refusal are in the words of each agent.
CLAUDE_TOKENS = {"input_tokens": 5, "cache_read_tokens": 90, "output_tokens": 8}
CLAUDE_CALL = {"tool_name": "Bash", "success": "false", "duration_ms": "1500"}
CLAUDE_CALL |= {"tool_use_id": "toolu_1", "tool_parameters": '{"full_command":"make"}'}
CODEX_TOKENS = {"input_token_count": "95", "output_token_count": "8", "cached_token_count": "90"}
CODEX_TOKENS |= {"reasoning_token_count": "3", "event.kind": "response.completed"}
CODEX_CALL = {"tool_name": "shell", "success": "false", "duration_ms": "1500"}
CODEX_CALL |= {"call_id": "call_1", "arguments": '{"command":"make"}'}
CODEX_CALL["output"] = "Exit code: 2\nWall time: 1.5 seconds\nOutput:\nmake: no rule"
CODEX_ERROR = {"http.response.status_code": 529, "error.message": "Overloaded"}
GEMINI_TOKENS = {"input_token_count": 95, "cached_content_token_count": 90}
GEMINI_TOKENS |= {"output_token_count": 5, "thoughts_token_count": 3}
GEMINI_CALL: dict[str, Any] = {"success": False, "duration_ms": 1500, "prompt_id": "p1"}
GEMINI_CALL |= {"function_name": "run_shell_command", "function_args": '{"command":"make"}'}
GEMINI_REFUSED = {"function_name": "edit", "function_args": "{}", "decision": "reject"}
EVENTS: dict[str, list[Event]] = {
    "claude_code": [
        claude(0, "user_prompt", 1, prompt="Build it.", prompt_length=9),
        claude(4000, "api_request", 2, model="m", **CLAUDE_TOKENS),
        claude(6000, "tool_result", 3, error="make: no rule", **CLAUDE_CALL),
        claude(8000, "api_error", 4, model="m", error="Overloaded", status_code="529"),
        claude(9000, "tool_decision", 5, tool_name="Bash", decision="accept", source="config"),
        claude(9100, "tool_decision", 6, tool_name="Bash", decision="reject", source="hook"),
        claude(9500, "tool_decision", 7, tool_name="Bash", decision="reject", source="user_reject"),
        claude(9900, "compaction", 8),
    ],
    "codex": [
        codex(0, "conversation_starts"),
        codex(0, "user_prompt", prompt="Build it.", prompt_length="9"),
        codex(3000, "sse_event", **{"event.kind": "response.output_item.done"}),
        codex(4000, "sse_event", model="m", **CODEX_TOKENS),
        codex(6000, "tool_result", **CODEX_CALL),
        codex(7000, "api_request", **{"http.response.status_code": 200}),
        codex(8000, "api_request", **CODEX_ERROR),
        codex(9000, "tool_decision", decision="approved", source="Config"),
        codex(9500, "tool_decision", decision="denied", source="User"),
    ],
    "gemini_cli": [
        gemini(0, "config", model="m"),
        gemini(0, "user_prompt", prompt="Build it.", prompt_id="p1"),
        gemini(4000, "api_response", model="m", **GEMINI_TOKENS),
        gemini(6000, "tool_call", error="make: no rule", **GEMINI_CALL),
        gemini(8000, "api_error", model="m", error="Overloaded", status_code=529),
        gemini(9500, "tool_call", **GEMINI_REFUSED, success=False, duration_ms=0),
    ],
}


def in_proto(events: list[Event], *, named: bool = False) -> bytes:
    """Return a request as the SDK's exporter sends it."""
    return bytes(encode_logs(logged(events, named=named)).SerializeToString())


def logged(events: list[Event], *, named: bool = False) -> Sequence[ReadableLogRecord]:
    """Log events with the SDK; `named` puts names in their own field."""
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider(Resource({"service.name": "agent"}), shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("events")
    for at_ms, said in events:
        own = dict(said)
        name = str(own.pop("event.name")) if named else None
        body = own.pop("body", None)
        time_ns = START_NS + at_ms * NS_PER_MS
        logger.emit(LogRecord(timestamp=time_ns, body=body, attributes=own, event_name=name))
    logs = exporter.get_finished_logs()
    provider.shutdown()
    return logs


def in_json(events: list[Event]) -> bytes:
    """Return a request as the collector's file exporter writes it."""
    records = []
    for at_ms, said in events:
        own = dict(said)
        record: dict[str, Any] = {"timeUnixNano": str(START_NS + at_ms * NS_PER_MS)}
        if "body" in own:
            record["body"] = any_value(own.pop("body"))
        records.append({**record, "attributes": key_values(own)})
    logs = {"resource": {}, "scopeLogs": [{"scope": {"name": "x"}, "logRecords": records}]}
    return json.dumps({"resourceLogs": [logs]}).encode() + b"\n"


def table_of(decoded: DecodedSpans) -> pl.DataFrame:
    """Return the turns of decoded records without problems."""
    return turns_of(rows_of(decoded))[0]


def rows_of(decoded: DecodedSpans) -> pl.DataFrame:
    """Return decoded records without problems."""
    assert decoded.problems == []
    return pl.DataFrame(decoded.rows, schema=SPAN_SCHEMA, orient="row")


@pytest.mark.parametrize("agent", EVENTS)
def test_events_of_every_agent_become_turns(agent: str) -> None:
    """A prompt, a response with its tokens, a failed call, a failed request, and a person's no."""
    table = table_of(decode_proto(in_proto(EVENTS[agent])))

    kinds = ["user", "model", "tool", "model", *(["tool"] if agent == "gemini_cli" else []), "user"]
    assert table["kind"].to_list() == kinds
    assert table["text"].to_list()[0] == "Build it."
    assert table["name"].to_list()[-1] == "rejected"
    response, call, refused = table.filter(pl.col("kind") != "user").head(3).iter_rows(named=True)
    assert (response["input_tokens"], response["output_tokens"]) == (95, 8)
    assert response["cached_tokens"] == 90
    assert response["reasoning_tokens"] == (None if agent == "claude_code" else 3)
    assert "make" in call["arguments"]
    assert call["failed"]
    assert call["error"] == "make: no rule"
    assert call["call_id"] == {"claude_code": "toolu_1", "codex": "call_1"}.get(agent)
    assert call["end_ns"] - call["start_ns"] == 1500 * NS_PER_MS
    assert (refused["failed"], refused["error"]) == (True, "529 Overloaded")
    assert table["failed"].to_list().count(True) == 2
    assert table["task"].unique().to_list() == [
        f"s-{agent.partition('_')[0]}@{agent.replace('_', '-')}"
    ]


def test_events_of_qwen_code_are_those_of_gemini_cli() -> None:
    """It has its own name, and its output holds the thoughts."""
    events: list[tuple[int, Mapping[str, Any]]] = [
        (at, {**said, "event.name": str(said["event.name"]).replace("gemini_cli", "qwen-code")})
        for at, said in EVENTS["gemini_cli"]
    ]
    table = table_of(decode_proto(in_proto(events)))
    assert table["kind"].to_list() == ["user", "model", "tool", "model", "tool", "user"]
    assert table["output_tokens"].to_list()[1] == 5
    assert table["task"].unique().to_list() == ["s-gemini@qwen-code"]


@pytest.mark.parametrize("agent", EVENTS)
def test_protobuf_and_json_are_read_the_same(agent: str, write: Write) -> None:
    """The collector and a file come to the same rows."""
    events = EVENTS[agent]
    proto = decode_proto(in_proto(events))

    assert proto == decode_json(in_json(events))
    lines = b"".join(in_json([event]) for event in events)
    assert shown(turns(write("logs.jsonl", lines))) == shown(table_of(proto))


def test_names_are_found_in_the_field_of_their_own() -> None:
    """Newer SDKs send the name of an event beside its attributes."""
    events = EVENTS["codex"]

    assert decode_proto(in_proto(events, named=True)).rows == decode_proto(in_proto(events)).rows


def test_a_command_of_codex_that_fails_was_run_with_success() -> None:
    """Since 0.171 the call has success, its output the exit code, and its agent a path."""
    said = {"tool_name": "exec_command", "success": "true", "agent_name": "/root"}
    output = "Chunk ID: 18177c\nWall time: 0.2 seconds\nProcess exited with code {}\nOutput:\nno"
    events = [codex(n, "tool_result", **said, output=output.format(n)) for n in (0, 1)]
    table = table_of(decode_proto(in_proto(events)))

    assert table.select("agent", "failed").rows() == [("codex", False), ("codex", True)]


def test_tools_of_servers_have_names_of_their_own() -> None:
    """Claude Code names them in the parameters; calls of two tools are no repeats of one."""
    names = [{"mcp_server_name": "shop", "mcp_tool_name": tool} for tool in ("get", "set")]
    said = [{}, {"tool_input": '{"id": 7}'}]
    events = [
        claude(n, "tool_result", n, tool_name="mcp_tool", tool_parameters=json.dumps(name), **more)
        for n, (name, more) in enumerate(zip(names, said, strict=True))
    ]
    table = table_of(decode_proto(in_proto(events)))
    assert table.select("name", "arguments").rows() == [
        ("mcp__shop__get", None),
        ("mcp__shop__set", '{"id":7}'),
    ]


def test_numbers_give_the_order_of_events_in_one_millisecond() -> None:
    """Clocks of agents tell milliseconds, and a batch may come in any order."""
    events = [claude(0, "tool_result", n, tool_name=f"t{n}", success="true") for n in (3, 1, 4, 2)]

    assert table_of(decode_proto(in_proto(events)))["name"].to_list() == ["t1", "t2", "t3", "t4"]


def test_a_loop_in_logs_is_found(write: Write) -> None:
    """Without results, the errors tell it; and an event that is sent again is one event."""
    loop = [
        claude(n * 1000, "tool_result", n, tool_name="Bash", success="false", error="no rule")
        for n in range(4)
    ]
    path = write("logs.jsonl", in_json(loop) + line(span(1)))

    assert rules([path]) == {"repeated_failure", "signature_repeat"}
    vague: list[Event] = [
        (at_ms, {**said, "error": None, "error_type": "ShellError"}) for at_ms, said in loop
    ]
    assert rules([write("vague.jsonl", in_json(vague))]) == set()  # Any command fails so.
    again = write("again.jsonl", in_json(loop[:2]) * 5)
    assert rules([again]) == set()


@pytest.mark.parametrize("first", ["tokens", "text"])
def test_the_text_of_a_response_has_an_event_of_its_own(first: str, write: Write) -> None:
    """Claude Code tells it beside the tokens, in any order; one that was redacted is unknown."""

    def response(number: int, text: str) -> list[Event]:
        named = {"model": "m", "request_id": f"req_{number}"}
        tokens = claude(4000 * number, "api_request", number, **named, **CLAUDE_TOKENS)
        told = claude(4000 * number + 1, "assistant_response", number, **named, response=text)
        return [tokens, told] if first == "tokens" else [told, tokens]

    texts = ["Done.", "<REDACTED>"]
    each = [event for number, text in enumerate(texts) for event in response(number, text)]
    path = write("texts.jsonl", in_json(each))
    table = turns(path)
    assert table["kind"].to_list() == ["model"] * 2
    assert table["text"].to_list() == ["Done.", None]
    assert table["output_tokens"].to_list() == [8, 8]

    chant = response(1, "I read the log again. " * 40)
    requests = [in_json([event]) for event in chant]
    assert rules([write("chant.jsonl", b"".join(requests))]) == {"chant"}
    live = LiveSpans()
    for request in requests:
        live.take(rows_of(decode_json(request)))
        live.mend()
    live.rest()
    live.mend()
    assert {finding.rule for finding in live.engine.findings()} == {"chant"}
    assert live.log_events.lost == 0
    nameless = claude(0, "assistant_response", 1, model="m", response="Done.")
    assert not decode_proto(in_proto([nameless])).rows


def test_other_records_are_passed_over() -> None:
    """A service logs much else, and an event without a session belongs to nothing."""
    events: list[Event] = [
        (0, {"body": "GET /", "session.id": "s"}),
        (0, {"event.name": "claude_code.unheard_of", "session.id": "s"}),
        (0, {"event.name": "codex.tool_result", "tool_name": "shell"}),
    ]

    assert decode_proto(in_proto(events)) == decode_json(in_json(events)) == DecodedSpans()


def test_what_is_wrong_is_told_and_the_rest_is_read() -> None:
    """A receiver refuses an invalid request, and a bad record costs only itself."""
    good = in_json([codex(0, "user_prompt", prompt="Go.")])
    bad = good.replace(str(START_NS).encode(), b"soon")
    late = in_json([codex(10**13, "user_prompt", prompt="Go.")])

    assert decode_json(good).problems == []
    assert decode_json(good[:-9]).problems[0].where == "the request"
    assert "whole number, found 'soon'" in decode_json(bad).problems[0].why
    assert "log record 1 was left out" in decode_json(late, "logs.jsonl:3").problems[0].why
    assert decode_proto(b"\x0a\xff").problems[0].why.startswith("it is not a protobuf of logs")
    snake = good.replace(b"resourceLogs", b"resource_logs").replace(b"logRecords", b"log_records")
    assert decode_json(snake.replace(b"scopeLogs", b"scope_logs")) == decode_json(good)


def test_absurd_numbers_are_unknown() -> None:
    """Python refuses to read thousands of digits, and no number of an agent has so many."""
    absurd = "9" * 5000
    said = {"event.sequence": absurd, "duration_ms": absurd}
    said["output"] = f"Exit code: {absurd}\nOutput:\n"
    events = [
        codex(0, "tool_result", tool_name="shell", **said),
        claude(0, "tool_result", 1, tool_name="Bash", duration_ms="1" * 19),
    ]

    for decoded in (decode_json(in_json(events)), decode_proto(in_proto(events))):
        assert decoded.problems == []
        assert [row[4] for row in decoded.rows] == [row[5] for row in decoded.rows]


def test_a_receiver_takes_what_an_exporter_sends() -> None:
    """The server keeps the calls as spans, and takes logs that tell of none."""
    with running() as receiver:
        exporter = OTLPLogExporter(endpoint=f"{receiver.http}/v1/logs")
        for events in (EVENTS["codex"], [codex(0, "conversation_starts")]):
            assert exporter.export(logged(events)) is LogRecordExportResult.SUCCESS
        exporter.shutdown()  # type: ignore[no-untyped-call]
        kept = receiver.sink.spans

    assert shown(turns_of(kept)[0]) == shown(table_of(decode_proto(in_proto(EVENTS["codex"]))))
