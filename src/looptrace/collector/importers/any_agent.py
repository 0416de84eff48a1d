"""Traces of any-agent, whose `AgentTrace` is JSON: spans of Python's SDK, and a final output."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from looptrace.collector.importers.console import spans
from looptrace.collector.importers.records import Part


def parts(trace: dict[str, Any]) -> Iterator[Part]:
    """Yield the spans of a trace, each with its place."""
    for index, span in enumerate(trace["spans"] or ()):
        yield f"spans[{index}]", partial(spans.row_of, span)
