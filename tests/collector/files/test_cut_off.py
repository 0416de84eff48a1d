"""Requests and calls that were cut off, or wait for a person, in finished traces."""

import json
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.detect.times import waits_of
from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans
from tests.collector.conftest import Write
from tests.otlp import Attributes, Trace, tool_call

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "fixer"}
MODEL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
INTERRUPT = "GraphInterrupt((Interrupt(value='Deploy it?', id='4'),))"
HOUR_S = 3600.0


def tool(name: str, result: str | None = None) -> Attributes:
    """Return what a call says."""
    shown = {"gen_ai.tool.call.result": result} if result else {}
    return tool_call(name) | shown


def otlp(attributes: Attributes, *, ends: bool, seconds: float, **options: Any) -> bytes:
    """Return a run of three hours with one span, which may have no end."""
    trace = Trace("s")
    agent = trace.span("fixer", None, AGENT, seconds=3 * HOUR_S)
    trace.span("call", agent, attributes, start_s=1.0, seconds=seconds, **options)
    request = trace.request()
    if not ends:
        (spans,) = (scope["spans"] for scope in request["resourceSpans"][0]["scopeSpans"])
        spans[1]["endTimeUnixNano"] = "0"
    return json.dumps(request).encode()


@pytest.mark.parametrize(
    ("attributes", "ends", "seconds", "found"),
    [
        (MODEL, True, 2.5 * HOUR_S, ["hang"]),
        (MODEL, False, 0.0, ["hang"]),
        (tool("read"), False, 0.0, ["hang"]),
        (MODEL, True, 59.0, []),
        (MODEL, True, HOUR_S, []),
        (tool("read", "text"), False, 0.0, []),
        (tool("ask_user"), False, 0.0, []),
    ],
)
def test_a_call_without_an_answer_hangs(
    write: Write, attributes: Attributes, ends: bool, seconds: float, found: list[str]
) -> None:
    """Producers end a cancelled stream with no answer and no error, or write a span without end."""
    data = otlp(attributes, ends=ends, seconds=seconds)
    analysis = analyse(read_spans([write("t.json", data)]).spans)

    assert [finding.rule for finding in analysis.findings] == found


def test_a_request_around_others_is_no_request(write: Write) -> None:
    """It only prepares them, or shows a run; those below are the turns."""
    trace = Trace("s")
    outer = trace.span("chat", None, MODEL)
    trace.span("read", outer, tool("read", "text"), seconds=2.5 * HOUR_S)
    data = json.dumps(trace.request()).encode()

    assert analyse(read_spans([write("t.json", data)]).spans).turns["kind"].to_list() == ["tool"]


def test_a_run_that_a_platform_never_closed_lasts_as_long_as_the_run_around_it(
    write: Write,
) -> None:
    """LangSmith keeps a cancelled run as pending for ever."""
    run: dict[str, Any] = {"trace_id": "1" * 32, "outputs": None, "inputs": {}, "name": "m"}
    root = {"id": "1" * 32, "run_type": "chain", "start_time": "2026-01-01T00:00:00Z"}
    root |= {"end_time": "2026-01-01T02:30:00Z", "error": "CancelledError()"}
    model: dict[str, Any] = {
        "id": "2" * 32,
        "run_type": "llm",
        "start_time": "2026-01-01T00:00:01Z",
    }
    model |= {"end_time": None, "parent_run_id": "1" * 32}
    data = "\n".join(json.dumps(run | each) for each in (root, model)).encode()
    analysis = analyse(read_spans([write("t.jsonl", data)]).spans)

    (turn,) = analysis.turns.iter_rows(named=True)
    assert (turn["kind"], turn["end_ns"] - turn["start_ns"]) == ("model", 8_999 * 10**9)
    assert [finding.rule for finding in analysis.findings] == ["hang"]


@pytest.mark.parametrize(
    ("attributes", "options", "asks"),
    [
        (tool("deploy"), {"status": "error", "message": INTERRUPT}, "deploy"),
        (tool("remote", '{"status": {"state": "input-required"}}'), {}, "remote"),
        (tool("ask_user"), {}, "ask_user"),
        (tool("deploy"), {"status": "error", "message": "no rights"}, None),
        (tool("remote", '{"status": {"state": "completed"}}'), {}, None),
        (tool("ask_user", "the second"), {}, None),
    ],
)
def test_a_call_that_waits_for_a_person_is_known(
    write: Write, attributes: Attributes, options: dict[str, Any], asks: str | None
) -> None:
    """LangGraph ends it with an exception, which is no failure; an agent of A2A with a state."""
    data = otlp(attributes, ends=True, seconds=1.0, **options)
    turns: pl.DataFrame = analyse(read_spans([write("t.json", data)]).spans).turns

    assert waits_of(turns)["asks"].to_list() == ([asks] if asks else [])
    assert not asks or not turns["failed"].any()
