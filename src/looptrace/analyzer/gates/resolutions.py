"""What people decided of gates, as the turns that judging takes in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from looptrace.analyzer.fingerprint.signatures import add_fingerprints
from looptrace.analyzer.schema.turns import TURN_SCHEMA


@dataclass(frozen=True, slots=True)
class Resolution:
    """A person's decision; the span is the one at which the gate opened."""

    id: str
    task: str
    session: str
    trace_id: str
    span_id: str
    at_ns: int
    decision: str
    note: str | None


def resolution_turns(decided: Iterable[Resolution]) -> pl.DataFrame:
    """Return decisions as messages of a person (`TURN_SCHEMA`).

    They are not numbered: that is done together with the turns that they are added to.
    """
    rows = [
        {
            "task": each.task,
            "session": each.session,
            "trace_id": each.trace_id,
            "span_id": each.span_id,
            "call_id": each.id,
            "kind": "user",
            "agent": "",
            "name": each.decision,
            "text": each.note,
            "start_ns": each.at_ns,
            "end_ns": each.at_ns,
            "order_ns": each.at_ns,
        }
        for each in decided
    ]
    return add_fingerprints(pl.DataFrame(rows, TURN_SCHEMA, orient="row"))
