"""Traces of any-agent, whose `AgentTrace` is JSON: spans of Python's SDK, and a final output."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from looptrace.collector.importers.console import spans
from looptrace.collector.importers.records import Part


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a trace."""
    return {"spans", "final_output"} <= set(names)


def parts(trace: dict[str, Any]) -> Iterator[Part]:
    """Yield the spans of a trace, each with its place."""
    for index, span in enumerate(trace["spans"] or ()):
        yield f"spans[{index}]", partial(spans.row_of, span)
