"""Every producer of the table of dialects is read as its row says, from recorded examples.

`tests/dialects/NAME.json` has a loop, six equal failing calls or what its producer can show, and
`NAME-ok.json` is the same work without one.
"""

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import polars as pl
import pytest

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.fields.dialect_table import (
    PART,
    SHIPPED,
    STRUCTURE,
    UNKNOWN,
    WRITTEN,
    Dialect,
    KindRow,
)
from looptrace.analyzer.normalize.trace_buffer import TraceBuffer
from looptrace.analyzer.schema.distinct_spans import whole_spans
from looptrace.analyzer.schema.spans import span_rows
from looptrace.collector.files.reader import read_spans
from tests.collector.store.stored import spans_of
from tests.framework_table import DIALECTS
from tests.otlp import Trace

PROVEN = [dialect for dialect in SHIPPED.dialects if dialect.writes]
of_each = pytest.mark.parametrize("dialect", PROVEN, ids=lambda dialect: dialect.name)


@cache
def analysis_of(name: str) -> Analysis:
    """Analyse an example."""
    return analyse(read_spans([str(DIALECTS / f"{name}.json")]).spans)


def shown(turns: pl.DataFrame) -> set[str]:
    """Return what the turns of an example show, of `WRITTEN`."""
    tools = turns.filter(pl.col("kind") == "tool")
    models = turns.filter(pl.col("kind") == "model")
    found = {
        "calls": tools["arguments"].is_not_null().any(),
        "results": tools["outcome"].is_not_null().any(),
        "messages": models["text"].is_not_null().any(),
        "tokens": models["input_tokens"].sum() > 0 and models["output_tokens"].sum() > 0,
        "errors": tools["failed"].any() and tools["signature"].is_not_null().any(),
        "session": (turns["session"] != turns["trace_id"]).any(),
        "agent": (turns["agent"] != "").any() or (turns["kind"] == "handoff").any(),
    }
    return {name for name in WRITTEN if found[name]}


def test_no_two_examples_have_a_task_of_one_name() -> None:
    """Tests feed all of them to one engine, to which they would be one task."""
    names = [path.stem for path in sorted(DIALECTS.glob("*.json"))]
    tasks = Counter(task for name in names for task in analysis_of(name).tasks)

    assert [task for task, count in tasks.items() if count > 1] == []


@of_each
def test_a_producer_is_read_as_its_row_says(dialect: Dialect) -> None:
    """The example shows what the producer writes, but for what is said to be unread."""
    assert shown(analysis_of(dialect.name).turns) == set(dialect.writes) - set(dialect.unread)


@of_each
def test_a_loop_is_found(dialect: Dialect) -> None:
    """A loop of each producer is found."""
    assert analysis_of(dialect.name).findings


@of_each
def test_other_work_is_silent(dialect: Dialect) -> None:
    """The healthy example has calls, and no finding."""
    analysis = analysis_of(f"{dialect.name}-ok")
    assert analysis.summary.turns
    assert not analysis.findings


def test_each_form_of_litellm_shows_each_call_once() -> None:
    """The newer one writes an answer without its calls, and their ids in a span within alone."""
    calls = analysis_of("litellm").turns.filter(pl.col("kind") == "tool")
    forms = calls.group_by("trace_id").agg(pl.len(), pl.col("outcome").null_count())

    assert forms.select("len", "outcome").rows() == [(6, 0), (6, 0)]


def test_a_call_has_the_name_by_which_it_was_asked_for() -> None:
    """OpenHands names a call's span after the class of its action, which tools may share."""
    turns = analysis_of("openhands").turns
    calls, answers = (turns.filter(pl.col("kind") == kind)["name"] for kind in ("tool", "model"))

    assert calls.to_list() == ["run_tests"] * 6
    assert answers.unique().to_list() == ["loop"]


def test_responses_of_an_agent_of_azure_are_its_turns() -> None:
    """Their spans have the name and the operation of an agent's run, which others call no turn."""
    turns = analysis_of("azure_agents").turns.filter(pl.col("agent") == "fixer")
    calls = turns.filter(pl.col("kind") == "tool")

    assert turns["kind"].value_counts().sort("kind").rows() == [("tool", 6), ("model", 7)]
    assert calls["outcome"].null_count() == 0


def test_what_datadog_packed_is_read() -> None:
    """Its tracer has names, arguments, results and messages as bytes of MessagePack alone."""
    turns = analysis_of("datadog-ok").turns
    calls = turns.filter(pl.col("kind") == "tool").sort("start_ns")

    assert calls["name"].to_list() == ["read_file", "edit_file", "run_tests"]
    assert calls["arguments"].to_list()[0] == '{"path":"cart.py"}'
    assert calls["result"].to_list()[2] == "9 passed"
    assert turns.filter(pl.col("kind") == "model")["text"].null_count() == 0


def test_every_example_has_a_row() -> None:
    """No example is left behind, and none is missing."""
    names = {path.name.removesuffix(".json") for path in DIALECTS.glob("*.json")}
    assert names == {f"{d.name}{end}" for d in PROVEN for end in ("", "-ok")}


@of_each
def test_a_live_process_understands_the_same(dialect: Dialect) -> None:
    """Spans that come one after the other become what they become in a batch."""
    for name in (dialect.name, f"{dialect.name}-ok"):
        spans = read_spans([str(DIALECTS / f"{name}.json")]).spans
        buffer = TraceBuffer()
        for row in span_rows(whole_spans(spans)):
            buffer.take([row])

        live, batch = buffer.understood(), analysis_of(name).understood
        assert replace(live, incomplete=0) == replace(batch, incomplete=0), name


def test_a_live_process_understands_a_call_by_its_request() -> None:
    """A span of no kind is a turn where a response asked for it."""
    trace = Trace("s1")
    asked = [{"type": "tool_call", "id": "c1", "name": "weigh", "arguments": {"crate": "A"}}]
    answer = json.dumps([{"role": "assistant", "parts": asked}])
    chat = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": answer}
    trace.span("chat", None, chat)
    trace.span("weigh", None, {"input.value": json.dumps({"crate": "A"})})
    spans, buffer = spans_of(trace), TraceBuffer()
    for row in span_rows(spans):
        buffer.take([row])
    assert buffer.understood() == analyse(spans).understood
    assert buffer.understood().turns == 2


# Spans of these scopes are functions of a program, and no marker says of what kind they are.
FUNCTIONS = {
    *("looptrace", "codex*", "goose*", "letta.*", "llamaindex.opentelemetry.*", "opencode"),
}
VALUED = [
    pytest.param(row, id=f"{dialect.name}-{row.condition}")
    for dialect in SHIPPED.dialects
    for row in dialect.kinds
    if row.values and "*" not in row.values and row.kind != PART
]


@pytest.mark.parametrize("row", VALUED)
def test_a_kind_that_nobody_knows_is_not_understood(row: KindRow) -> None:
    """A new value of a marker is no structure: it may be what an agent does."""
    value = json.dumps({row.part: "unheard"}) if row.part else "unheard"
    scope = row.scope[0].replace("?*", "x").replace("*", "x") if row.scope else None
    assert SHIPPED.kind_of({row.key: value}, "unheard", scope) == UNKNOWN


def test_no_scope_is_structure_as_a_whole() -> None:
    """A new span of a known producer may be what an agent does."""
    of_scopes = {
        scope
        for dialect in SHIPPED.dialects
        for row in dialect.kinds
        if row.kind == STRUCTURE and not row.key and not row.name
        for scope in row.scope
    }
    assert of_scopes <= FUNCTIONS
