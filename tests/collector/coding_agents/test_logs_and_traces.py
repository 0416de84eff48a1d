"""An agent's log and its traces, sent together, are the turns of one work.

The traces are the examples of `tests/dialects`. The records have the keys, times and spans that
Claude Code 2.1.197, Codex 0.171.0 and Gemini CLI 5411f113 wrote beside such traces.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.coding_agents.otlp_logs import decode_json
from looptrace.collector.content.policy import with_content
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store import reader, writer
from tests.analyzer.engine.test_arrivals import assert_comes_to_batch, in_order
from tests.analyzer.normalize.test_trace_buffer import assert_comes_to_all_at_once
from tests.framework_table import DIALECTS
from tests.otlp import key_values

Span = dict[str, Any]
Record = dict[str, Any]
NS_PER_MS = 1_000_000
SESSIONS = "session.id", "thread.id", "gen_ai.conversation.id"


def spans_in(document: dict[str, Any]) -> list[Span]:
    """Return the spans of a trace."""
    return [
        span
        for resource in document["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def said_by(span: Span) -> dict[str, Any]:
    """Return the attributes of a span, numbers as text."""
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def record(span: Span, at: Span | None, late_ms: int = 0, **said: Any) -> Record:
    """Return a record that is written when a span ends, and may name a span."""
    at_ms = int(span["endTimeUnixNano"]) // NS_PER_MS + late_ms
    named = {} if at is None else {"traceId": at["traceId"], "spanId": at["spanId"]}
    own = {key.replace("__", "."): value for key, value in said.items()}
    return {"timeUnixNano": str(at_ms * NS_PER_MS), **named, "attributes": key_values(own)}


def session_of(spans: list[Span]) -> str:
    """Return the session that a trace names."""
    said = said_by(spans[0])
    return str(next(said[key] for key in SESSIONS if key in said))


def lasted_ms(span: Span) -> int:
    """Return how long a span lasted."""
    return (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) // NS_PER_MS


def claude(spans: list[Span]) -> Iterator[Record]:
    """Write what Claude Code does: each record names the run's span, and calls have their ids."""
    common: dict[str, Any] = {"session__id": session_of(spans), "prompt__id": "p"}
    for number, span in enumerate(spans):
        said, run = said_by(span), spans[0]
        common["event__sequence"] = number
        if span["name"] == "claude_code.interaction":
            begun = {**span, "endTimeUnixNano": span["startTimeUnixNano"]}
            told = {"event__name": "claude_code.user_prompt", "prompt": said["user_prompt"]}
            yield record(begun, run, 85, **common, **told)
        elif span["name"] == "claude_code.llm_request":
            keys = "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"
            tokens = {key: int(said[key]) for key in keys}
            common |= {"model": "model-s", "request_id": f"req_{number}"}
            named: dict[str, Any] = {"event__name": "claude_code.api_request"}
            named["duration_ms"] = lasted_ms(span)
            yield record(span, run, **common, **named, **tokens)
            named = {"event__name": "claude_code.assistant_response", "response": f"Step {number}."}
            yield record(span, run, 1, **common, **named)
        elif span["name"] == "claude_code.tool":
            parts = [said_by(each) for each in spans if each["parentSpanId"] == span["spanId"]]
            ended = next(part for part in parts if "success" in part)
            given = {"command": said.get("full_command", "x"), "description": "Do it"}
            told = {name: said[name] for name in ("tool_name", "tool_use_id")}
            told |= {"success": str(ended["success"]).lower(), "error": ended.get("error")}
            told |= {"duration_ms": str(lasted_ms(span) - 100), "tool_input": json.dumps(given)}
            yield record(span, run, 1, **common, event__name="claude_code.tool_result", **told)


def codex(spans: list[Span]) -> Iterator[Record]:
    """Write what Codex does: only calls name a span, and only they show arguments and results."""
    common: dict[str, Any] = {"conversation__id": session_of(spans), "model": "model-s"}
    common["app__version"] = "0.171.0"
    for span in spans:
        said = said_by(span)
        if "gen_ai.usage.output_tokens" in said:
            told: dict[str, Any] = {
                "event__name": "codex.sse_event",
                "event__kind": "response.completed",
                "input_token_count": str(said["gen_ai.usage.input_tokens"]),
                "output_token_count": str(said["gen_ai.usage.output_tokens"]),
                "cached_token_count": str(said["gen_ai.usage.cache_read.input_tokens"]),
            }
            yield record(span, None, -7, **common, **told)
        elif "aborted" in said:
            inner = next(each for each in spans if each["parentSpanId"] == span["spanId"])
            has_failed = any(
                {"key": "success", "value": {"stringValue": "false"}} in event["attributes"]
                for event in inner["events"]
            )
            head = f"Exit code: {int(has_failed)}\nWall time: 0.2 seconds\nOutput:\n"
            told = {name: said[name] for name in ("tool_name", "call_id")}
            told |= {"arguments": '{"order":"A17"}', "output": head + said["call_id"]}
            told |= {"duration_ms": str(lasted_ms(span) - 10), "success": "true"}
            yield record(span, inner, -4, **common, event__name="codex.tool_result", **told)


def gemini(spans: list[Span]) -> Iterator[Record]:
    """Write what Gemini CLI does: calls name the span around theirs and no id, responses none."""
    common: dict[str, Any] = {"session__id": session_of(spans), "prompt_id": "p"}
    for span in spans:
        said = said_by(span)
        if span["name"] == "user_prompt":
            begun = {**span, "endTimeUnixNano": span["startTimeUnixNano"]}
            prompt = {"event__name": "gemini_cli.user_prompt", "prompt": "Get order A17 ready."}
            yield record(begun, None, -19, **common, **prompt)
        elif span["name"] == "llm_call":
            tokens = {
                "input_token_count": int(said["gen_ai.usage.input_tokens"]),
                "output_token_count": int(said["gen_ai.usage.output_tokens"]) - 5,
                "thoughts_token_count": 5,
            }
            named = {"event__name": "gemini_cli.api_response", "model": "model-s"}
            yield record(span, None, -1, **common, **named, **tokens, duration_ms=lasted_ms(span))
        elif span["name"] == "tool_call":
            around = next(each for each in spans if each["spanId"] == span["parentSpanId"])
            request = json.loads(said["gen_ai.input.messages"])
            told: dict[str, Any] = {"function_name": said["gen_ai.tool.name"], "success": True}
            told |= {"function_args": json.dumps(request["args"], indent=2), "decision": "accept"}
            told |= {"event__name": "gemini_cli.tool_call", "duration_ms": lasted_ms(span) + 5}
            yield record(span, around, 1, **common, **told)


AGENTS: dict[str, Callable[[list[Span]], Iterator[Record]]] = {
    "claude_code": claude,
    "codex": codex,
    "gemini_cli": gemini,
}
of_each = pytest.mark.parametrize(
    "name", [f"{agent}{end}" for agent in AGENTS for end in ("", "-ok")]
)


def traces_of(name: str) -> pl.DataFrame:
    """Return the spans of an example; Codex' service is that of a program, not the log's."""
    spans = read_spans([str(DIALECTS / f"{name}.json")]).spans
    return spans.with_columns(pl.col("service").replace("codex", "codex_exec"))


def log_of(name: str) -> pl.DataFrame:
    """Return the rows of the records that are written beside an example."""
    spans = spans_in(json.loads((DIALECTS / f"{name}.json").read_text()))
    return rows_of(AGENTS[name.removesuffix("-ok")](spans))


def rows_of(records: Iterable[Record]) -> pl.DataFrame:
    """Return the rows of records."""
    scope = {"scope": {"name": "x"}, "logRecords": list(records)}
    logs = {"resourceLogs": [{"resource": {}, "scopeLogs": [scope]}]}
    decoded = decode_json(json.dumps(logs).encode())
    assert decoded.problems == []
    return pl.DataFrame(decoded.rows, SPAN_SCHEMA, orient="row")


def counts(table: pl.DataFrame) -> tuple[int, int, int, int]:
    """Return how many calls, failures, responses and tokens of input there are."""
    tools = table.filter(kind="tool")
    models = table.filter(kind="model")
    tokens = int(models["input_tokens"].sum())
    return tools.height, int(tools["failed"].sum()), models.height, tokens


@of_each
def test_both_together_count_once(name: str) -> None:
    """One task has the turns of the traces, and finds what the one that has results does."""
    traces, log = traces_of(name), log_of(name)
    turns, both = turns_of(traces)[0], turns_of(pl.concat([traces, log]))[0]

    assert counts(both)[::2] == counts(turns)[::2]
    assert both["input_tokens"].sum() == turns["input_tokens"].sum()
    assert counts(both)[1] == max(counts(turns)[1], counts(turns_of(log)[0])[1])
    assert both.filter(kind="user").height <= 1
    assert both["task"].n_unique() == 1
    found, known = (
        {finding.rule for finding in analyse(spans).findings}
        for spans in (pl.concat([traces, log]), log if name.startswith("codex") else traces)
    )
    assert found >= known
    assert bool(found) is not name.endswith("-ok")


@of_each
@pytest.mark.parametrize("seed", range(4))
def test_they_come_in_any_order(name: str, seed: int) -> None:
    """A record comes before its span or after it, alone or with others."""
    both = pl.concat([traces_of(name), log_of(name)]).sort("end_ns")
    places = random.Random(seed).sample(range(both.height), both.height)
    if seed == 0:
        places.sort()
    for size in (1, 7):
        assert_comes_to_all_at_once(both[places], size)
        assert_comes_to_batch(in_order(both, places), size)


@of_each
def test_what_is_kept_as_hashes_counts_once(name: str) -> None:
    """Hashes of equal texts are equal."""
    both = pl.concat([traces_of(name), log_of(name)])
    hashed = with_content(both, "hashes", b"k" * 32)
    assert counts(turns_of(hashed)[0])[::2] == counts(turns_of(traces_of(name))[0])[::2]


def test_each_adds_what_the_other_lacks() -> None:
    """Codex' traces have the parents, and its log has arguments, results and the model."""
    both = turns_of(pl.concat([traces_of("codex"), log_of("codex")]))[0]
    tools = both.filter(kind="tool")
    assert set(tools["trace_id"]) == set(traces_of("codex")["trace_id"])
    assert tools["arguments"].to_list() == ['{"order":"A17"}'] * 6
    assert tools["result"].null_count() == 0
    assert set(both.filter(kind="model")["name"]) == {"model-s"}


def test_records_that_no_span_repeats_stay() -> None:
    """A call without a span is a turn, and so are equal calls that follow one another."""
    traces, log = traces_of("claude_code"), log_of("claude_code")
    is_call = pl.col("name") == "claude_code.tool"
    last = traces.filter(is_call).sort("end_ns")["span_id"][-1]
    fewer = pl.concat([traces.filter(pl.col("span_id") != last), log])
    for spans in (traces, log, fewer):
        assert counts(turns_of(spans)[0])[0] == 6


def test_understood_counts_a_record_as_a_part() -> None:
    """The sum of all that was received stays."""
    traces, log = traces_of("claude_code"), log_of("claude_code")
    alone, both = (analyse(spans).understood for spans in (traces, pl.concat([traces, log])))
    assert (both.turns, both.incomplete) == (alone.turns + 1, 0)  # The message is a record's turn.


@of_each
def test_a_store_that_gets_one_after_the_other(name: str, tmp_path: Path) -> None:
    """What was a record's turn before is the span's afterwards, and the other way round."""
    parts = traces_of(name), log_of(name)
    for number, order in enumerate((parts, parts[::-1])):
        store = tmp_path / str(number)
        for part in order:
            writer.ingest(part, store)
        stored = pl.concat(reader.read_turns(store))
        assert counts(stored) == counts(turns_of(pl.concat(parts))[0])
