"""How much of the spans was understood, as every report says it, and `--explain-span`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.understanding import NOTHING_SEEN
from looptrace.analyzer.report.verdict import understood_lines, warning_text
from tests.collector.store.stored import spans_of
from tests.commands import json_of, run
from tests.otlp import Trace, tool_call
from tests.paths import LOOPING

TOOL = tool_call("dig", '{"at": "garden"}', result="stones")
OWN = {"acme.tool": "dig", "acme.args": "garden"}


def written(trace: Trace, folder: Path) -> str:
    """Write a trace to a file."""
    file = folder / "trace.jsonl"
    file.write_text(trace.lines(), encoding="utf-8")
    return str(file)


def counts_of(trace: Trace, folder: Path) -> dict[str, Any]:
    """Return what the JSON report says of a trace."""
    found = run("analyze", written(trace, folder), "--format", "json")
    return json.loads(found.stdout)["understood"]  # type: ignore[no-any-return]


def test_spans_are_counted_by_what_they_became(tmp_path: Path) -> None:
    """What lies around a turn is structure, what lies within a call is a part of it."""
    trace = Trace()
    root = trace.span("POST /chat", None, {"acme.route": "/chat"})
    agent = trace.span("invoke_agent a", root, {"gen_ai.operation.name": "invoke_agent"})
    call = trace.span("execute_tool dig", agent, TOOL)
    trace.span("dig", call, {"acme.depth": 3})
    twin = trace.span("tools/call dig", call, {"mcp.method.name": "tools/call", **TOOL})
    trace.span("SELECT", twin, {"db.system.name": "sqlite"})
    trace.span("acme.tool", agent, OWN)

    counts = counts_of(trace, tmp_path)

    assert counts.pop("not_understood") == [
        {
            "scope": "tests",
            "name": "acme.tool",
            "attributes": ["acme.args", "acme.tool", "gen_ai.conversation.id"],
            "spans": 1,
        }
    ]
    assert counts == {
        "turns": 1,
        "parts": 2,
        "agents": 1,
        "structure": 2,
        "unread": 1,
        "incomplete": 0,
        "differing_tokens": 0,
        "share": 0.8,
    }


@pytest.mark.parametrize(("unread", "warns"), [(1, False), (2, False), (3, True)])
def test_little_understood_is_the_first_line(unread: int, warns: bool, tmp_path: Path) -> None:
    """Below one half, the report says first that its silence is worth little, and what to do."""
    trace = Trace()
    for _ in range(2):
        trace.span("execute_tool dig", None, TOOL)
    for number in range(unread):
        trace.span("acme.tool", None, OWN | {"acme.args": f"bed {number}"})

    for form in ("terminal", "markdown", "github", "html"):
        text = run("analyze", written(trace, tmp_path), "--format", form).stdout
        assert ("Hardly watched" in text) == warns, form
    text = run("analyze", written(trace, tmp_path)).stdout

    assert text.startswith("Hardly watched: 3 of 5 spans were not understood") == warns
    assert f"acme.tool (scope tests, {unread} span" in text
    assert "[attributes]" in text


def test_calls_without_any_result_are_the_first_line(tmp_path: Path) -> None:
    """Without one result, no rule can tell a loop from work."""
    trace = Trace()
    for number in range(3):
        call = {key: value for key, value in TOOL.items() if not key.endswith("result")}
        trace.span("execute_tool dig", None, call | {"gen_ai.tool.call.arguments": f"[{number}]"})

    text = run("analyze", written(trace, tmp_path)).stdout

    assert text.startswith("Hardly watched: none of 3 tool turns has a result")


def test_a_store_says_the_same(tmp_path: Path) -> None:
    """What was not understood is said of stored spans, too."""
    trace = Trace()
    trace.span("execute_tool dig", None, TOOL)
    for _ in range(3):
        trace.span("acme.tool", None, OWN)
    file, store = written(trace, tmp_path), str(tmp_path / "store")
    run("ingest", file, "--store", store)

    of_file, of_store = (json_of("analyze", path) for path in (file, store))

    assert of_file["understood"] == of_store["understood"]
    assert of_file["unknown"] == of_store["unknown"]


def test_a_span_is_explained(tmp_path: Path) -> None:
    """One sees what a span was read as, by which condition, and each field with its key."""
    trace = Trace()
    call = trace.span("execute_tool dig", None, TOOL | {"acme.more": "x"})
    file = written(trace, tmp_path)

    text = run("analyze", file, "--explain-span", call[:6]).stdout

    assert "read as a tool, by gen_ai, because of `gen_ai.tool.name`" in text
    assert 'arguments = gen_ai.tool.call.arguments  {"at": "garden"}' in text
    assert "acme.more" in text.partition("read by no field")[2]


def test_a_span_that_no_dialect_knows_is_explained(tmp_path: Path) -> None:
    """The keys are shown, and what to do with them."""
    trace = Trace()
    span = trace.span("acme.tool", None, OWN)

    text = run("analyze", written(trace, tmp_path), "--explain-span", span).stdout

    assert "not understood" in text
    assert "[attributes]" in text
    assert "acme.args, acme.tool" in text


def test_a_span_that_is_not_there_is_an_error() -> None:
    """The error names the id and what to do."""
    found = run("analyze", LOOPING, "--explain-span", "zz")

    assert found.exit_code != 0
    assert "no span whose id begins with zz" in found.output


@pytest.mark.parametrize(("parents", "lacks"), [(("1" * 16,), 0), (("1" * 16, "2" * 16), 1)])
def test_parents_that_never_came_are_said(
    parents: tuple[str, ...], lacks: int, tmp_path: Path
) -> None:
    """One caller in another service is no loss; two lost parents are."""
    trace = Trace()
    for parent in parents:
        for number in range(2):
            call = TOOL | {"gen_ai.tool.call.arguments": f"[{number}, {parent}]"}
            trace.span("execute_tool dig", parent, call)

    assert counts_of(trace, tmp_path)["incomplete"] == lacks
    text = run("analyze", written(trace, tmp_path)).stdout
    assert ("1 trace lacks parents of spans" in text) == bool(lacks)


@pytest.mark.parametrize(
    "key",
    [
        "gen_ai.operation.name",
        "openinference.span.kind",
        "traceloop.span.kind",
        "langfuse.observation.type",
        "langsmith.span.kind",
    ],
)
def test_an_unknown_kind_of_a_known_convention_is_not_understood(key: str, tmp_path: Path) -> None:
    """What a convention adds next year must not pass for structure."""
    trace = Trace()
    trace.span("execute_tool dig", None, TOOL)
    trace.span("new", None, {key: "next_year", "input.value": "a", "output.value": "b"})

    assert counts_of(trace, tmp_path)["unread"] == 1


CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "model-s",
    "gen_ai.output.messages": '[{"role": "assistant", "content": "I dig."}]',
}


@pytest.mark.parametrize(
    ("chats", "own", "calls", "warns"),
    [(6, 6, 0, True), (6, 4, 0, True), (10, 1, 0, False), (6, 0, 0, False), (6, 6, 2, False)],
)
def test_calls_that_nobody_understood_are_the_first_line(
    chats: int, own: int, calls: int, warns: bool, tmp_path: Path
) -> None:
    """Responses alone make half, and loops of calls would stay hidden."""
    trace = Trace()
    for number in range(chats):
        said = json.dumps([{"role": "assistant", "content": f"I dig in bed {number}."}])
        trace.span("chat", None, CHAT | {"gen_ai.output.messages": said})
    for number in range(own):
        trace.span("acme.tool", None, OWN | {"acme.args": f"bed {number}"})
    for number in range(calls):
        trace.span("execute_tool dig", None, TOOL | {"gen_ai.tool.call.id": f"c{number}"})
    text = run("analyze", written(trace, tmp_path)).stdout
    assert text.startswith("Hardly watched: no call of a tool was found") == warns


def test_a_remote_store_says_that_it_was_not_looked_at() -> None:
    """Nothing about what was understood would read as if all of it was."""
    trace = Trace()
    trace.span("execute_tool dig", None, TOOL)
    analysis = replace(analyse(spans_of(trace)), understood=NOTHING_SEEN)
    assert "not looked at, because the store is remote" in understood_lines(analysis)[0]
    assert not warning_text(analysis)
