"""Spans that show one call are one call."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.normalize.turn_builder import turns_of
from tests.collector.store.test_writer import spans_of
from tests.otlp import Attributes, Trace

ARGUMENTS = {"gen_ai.tool.call.arguments": '{"gate": "north"}'}


def _tool(name: str, call_id: str = "", more: Attributes | None = None) -> Attributes:
    ids = {"gen_ai.tool.call.id": call_id} if call_id else {}
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        **ids,
        **(more or {}),
    }


def calls_of(outer: Attributes, inner: Attributes, between: str = "") -> pl.DataFrame:
    """Return the turns of a span of a tool within another, with a span of no kind between."""
    trace = Trace("s")
    around = trace.span("outer", None, outer)
    around = trace.span(between, around) if between else around
    trace.span("inner", around, inner)
    return turns_of(spans_of(trace))[0]


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (_tool("open"), _tool("open")),
        (_tool("gates__open", more=ARGUMENTS), _tool("open", more=ARGUMENTS)),
        (_tool("gates.open", more=ARGUMENTS), _tool("open")),
        (_tool("call_tool", "c1"), _tool("open", "c1")),
    ],
)
def test_a_call_of_the_agent_and_of_the_server(outer: Attributes, inner: Attributes) -> None:
    """A server knows its tool by the name alone; an id says that it is the same call."""
    for between in ("", "POST"):
        assert calls_of(outer, inner, between).height == 1


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (_tool("reopen"), _tool("open")),
        (_tool("ask_porter"), _tool("open")),
        (_tool("gates__open", more=ARGUMENTS), _tool("open", more={"tool_arguments": '{"g": 1}'})),
        (_tool("ask_porter", "c1"), _tool("open", "c2")),
    ],
)
def test_a_call_within_another(outer: Attributes, inner: Attributes) -> None:
    """An agent that is a tool calls tools of its own."""
    assert calls_of(outer, inner).height == 2


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_part_of_a_call(succeeds: bool) -> None:
    """Only the span of what was run says whether it failed; without a call it is no turn."""
    trace = Trace("s", session_key="session.id")
    call = {"span.type": "tool", "tool_name": "Bash", "full_command": "open north"}
    around = trace.span("claude_code.tool", None, call)
    ran: dict[str, Any] = {"span.type": "tool.execution", "success": succeeds}
    ran |= {} if succeeds else {"error": "ShellError"}
    trace.span("claude_code.tool.execution", around, ran)
    trace.span("claude_code.tool.execution", None, ran)

    turns, _ = turns_of(spans_of(trace))

    assert turns["name"].to_list() == ["Bash"]
    assert turns["failed"].to_list() == [None if succeeds else True]
    assert turns["error_type"].to_list() == [None if succeeds else "ShellError"]
