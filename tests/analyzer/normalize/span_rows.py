"""Rows of the span table in few words, and what becomes of them."""

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import polars as pl

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from tests.otlp import tool_call

Attributes: TypeAlias = dict[str, object]


SECOND = 1_000_000_000


def span(
    number: int,
    attributes: Mapping[str, object],
    *,
    parent: int | None = None,
    start: float | None = None,
    end: float | None = None,
    **columns: object,
) -> dict[str, object]:
    """Give a row of the span table: number N starts at second N and takes half of one."""
    start = number if start is None else start
    row: dict[str, object] = {
        "trace_id": "a" * 32,
        "span_id": f"{number:016x}",
        "parent_span_id": None if parent is None else f"{parent:016x}",
        "name": "step",
        "start_ns": round(start * SECOND),
        "end_ns": round((start + 0.5 if end is None else end) * SECOND),
        "status": 0,
        "attributes": json.dumps(attributes),
        "events": "[]",
        "links": "[]",
    }
    return row | columns


def tool(name: str = "probe", **content: object) -> Attributes:
    """Give the attributes of a tool's span; `content` may hold id, arguments and result."""
    said = {f"gen_ai.tool.call.{key}": value for key, value in content.items()}
    return tool_call(name) | said


def model(text: str, *calls: tuple[str | None, str, object], **more: object) -> Attributes:
    """Give the attributes of a model's span: what it says, and calls as id, name, arguments."""
    parts: list[object] = [{"type": "text", "content": text}]
    for call_id, name, arguments in calls:
        parts.append({"type": "tool_call", "id": call_id, "name": name, "arguments": arguments})
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.input.messages": json.dumps([{"role": "user", "content": "Go."}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
        **more,
    }


def turns(rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """Return the turns of rows of the span table."""
    return turns_of(pl.DataFrame(list(rows), schema=SPAN_SCHEMA))[0]


def rules(rows: Iterable[Mapping[str, object]]) -> set[str]:
    """Return the rules that find something in rows of the span table."""
    spans = pl.DataFrame(list(rows), schema=SPAN_SCHEMA)
    return {finding.rule for finding in analyse(spans).findings}


def kind(found: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the turns of one kind."""
    return found.filter(pl.col("kind") == name)
