"""Results of calls whose own spans lack them, from what models were given later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from looptrace.analyzer.normalize.session_history import (
    SESSION_NAME,
    GivenResult,
    SessionHistory,
)
from looptrace.analyzer.normalize.twin_spans import _known
from looptrace.analyzer.schema.message import ToolCall, ToolResult
from looptrace.analyzer.text.errors import error_of, says_nothing

ResultsInTrace = dict[tuple[str, str], ToolResult]  # by trace and id of the call


def results_in_traces(results: Iterable[GivenResult]) -> ResultsInTrace:
    """Return the first result that each trace shows of each call."""
    in_trace: ResultsInTrace = {}
    for span, result, _ in results:
        in_trace.setdefault((span.trace_id, str(result.call_id)), result)
    return in_trace


def fill_from(
    rows: list[dict[str, Any]], in_trace: ResultsInTrace, sessions: SessionHistory
) -> list[dict[str, Any]]:
    """Add the results that models were given to calls whose own spans do not show them.

    A result is looked up by call id: first in the call's trace, then in other traces of its
    session. Their history must show the same call under that id, because some frameworks number
    the calls of each run alike. Returns the rows.
    """
    for row in rows:
        if row["kind"] != "tool" or row["call_id"] is None:
            continue
        lacks = row.get("result") is None or (row["failed"] and row["error"] is None)
        if not lacks:
            continue
        given = in_trace.get((row["trace_id"], row["call_id"]))
        if given is None:
            call = ToolCall(row["call_id"], row["name"], row["arguments"])
            given = sessions.results.get((row[SESSION_NAME], call))
        if given:
            _fill_result(row, given)
    return rows


def _fill_result(row: dict[str, Any], found: ToolResult) -> None:
    if row.get("result") is None:
        row["result"] = found.text
        row["failed"] = _known(row["failed"], found.failed)
    if row["failed"] and row["error"] is None and found.text and not says_nothing(found.text):
        error_type, row["error"] = error_of(found.text)
        row["trace_hash"] = row["trace_hash"] or found.text
        row["error_type"] = row["error_type"] or error_type
