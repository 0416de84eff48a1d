"""People's decisions on gates, as turns for the rules."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec
import polars as pl

from looptrace.analyzer.detect.budgets.charges import Added
from looptrace.analyzer.fingerprint.equivalence import Sameness
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.typed_json import decoded


@dataclass(frozen=True, slots=True)
class Resolution:
    """A person's decision; the span is the one at which the gate opened.

    On a gate of a budget of several tasks it adds an amount, or as much as the limit.
    """

    id: str
    task: str
    session: str
    trace_id: str
    span_id: str
    at_ns: int
    decision: str
    note: str | None
    budget: str = ""
    added: float | None = None
    added_ns: int | None = None  # when it was decided at another server, if it was


def decisions_on(decided: Iterable[Resolution], turns: pl.DataFrame) -> Iterator[Resolution]:
    """Yield the decisions on tasks of these turns (`TURN_SCHEMA`).

    The name of a task may have come after its gate was resolved: the turn at which the gate opened
    has it.
    """
    decided = list(decided)
    tasks = set(turns["task"].unique())
    of_traces = pl.col("trace_id").is_in({each.trace_id for each in decided})
    spans = turns.select("trace_id", "span_id", "task", "kind").filter(of_traces)
    named = {row[:2]: row[2] for row in spans.filter(pl.col("kind") != "switch").iter_rows()}
    for each in decided:
        task = named.get((each.trace_id, each.span_id), each.task)
        if task in tasks:
            yield replace(each, task=task)


def resolution_turns(decided: Iterable[Resolution], sameness: Sameness) -> pl.DataFrame:
    """Return decisions as messages of a person (`TURN_SCHEMA`).

    They are not numbered: that is done together with the other turns.
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
            "result": _added(each),
            "start_ns": each.at_ns,
            "end_ns": each.at_ns,
            "order_ns": each.at_ns,
        }
        for each in decided
    ]
    return add_fingerprints(pl.DataFrame(rows, TURN_SCHEMA, orient="row"), sameness)


def _added(decided: Resolution) -> str | None:
    """Return what a decision adds to a budget, as the ledger reads it."""
    if not decided.budget:
        return None
    return msgspec.json.encode(Added(decided.budget, decided.added, decided.added_ns)).decode()


def added_in(result: str | None) -> Added:
    """Return what the turn of a decision adds, to a budget with the name "" for nothing."""
    return decoded(result, Added) if result else Added("")


def with_decisions(
    turns: pl.DataFrame, decided: Iterable[Resolution], sameness: Sameness
) -> pl.DataFrame:
    """Add people's decisions on tasks to turns (`TURN_SCHEMA`) that do not have them yet."""
    decisions = list(decisions_on(decided, turns))
    if not decisions:
        return turns
    said = resolution_turns(decisions, sameness)
    return pl.concat([turns, said.join(turns, on="call_id", how="anti")])
