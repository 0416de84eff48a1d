"""Stores to ask, and the ways to ask them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from looptrace import queries
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.collector.store import writer
from looptrace.collector.store.sql.connection import ask, ask_typed
from tests.collector.store.stored import spans_of
from tests.otlp import Trace

Tool = tuple[str, str, str | None]  # name, argument, error


def trace(session: str, at: str, agent: str, tools: Sequence[Tool]) -> Trace:
    """Return a trace of one agent in which a model, with 100 + 10 tokens, asks for each tool."""
    made = Trace(session, at=at)
    named = {"gen_ai.agent.name": agent}
    for n, (name, argument, error) in enumerate(tools):
        made.span(
            "chat",
            None,
            {
                **named,
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "small-1",
                "gen_ai.usage.input_tokens": 100,
                "gen_ai.usage.output_tokens": 10,
                "gen_ai.output.messages": json.dumps(
                    [{"role": "assistant", "parts": [{"type": "text", "content": f"Step {n}."}]}]
                ),
            },
        )
        failure = {"error.type": "ValueError", "error.message": error} if error else {}
        made.span(
            f"execute_tool {name}",
            None,
            {
                **named,
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.arguments": json.dumps({"path": argument}),
                **({} if error else {"gen_ai.tool.call.result": f"contents of {argument}"}),
                **failure,
            },
            status="error" if error else "ok",
        )
    return made


def attempts(session: str, *said: tuple[str, list[str] | None, str | None]) -> Trace:
    """Return a trace of attempts at a task of the session's name: status, blockers, work."""
    made = Trace(session, at="2026-03-04T09:00:00+00:00")
    for status, blockers, work in said:
        about = {} if work is None else {"looptrace.completed_work": work}
        blocked = {} if blockers is None else {"looptrace.blockers": blockers}
        made.span("attempt", None, {"looptrace.task.status": status, **about, **blocked})
    return made


def add(folder: Path, *traces: Trace, policy: DetectionPolicy = DEFAULT) -> Path:
    """Put traces into a store."""
    writer.ingest(spans_of(*traces), folder, policy=policy)
    return folder


def rows_of(folder: Path, name: str, values: Mapping[str, str] | None = None) -> list[Any]:
    """Run a query that ships, and give its rows as dictionaries."""
    with ask(folder, queries.load(name).sql, values or {}) as answer:
        return [
            dict(zip(answer.columns, row, strict=True)) for batch in answer.batches for row in batch
        ]


def typed(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    """Run SQL as a person would type it."""
    with ask_typed(folder, sql) as answer:
        return [row for batch in answer.batches for row in batch]
