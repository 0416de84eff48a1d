"""What people decided of gates: as turns that are judged, and as notes for loops like theirs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import polars as pl

from looptrace.analyzer.fingerprint.signatures import add_fingerprints
from looptrace.analyzer.fingerprint.similarity import Meaning, sketch
from looptrace.analyzer.schema.turns import TURN_SCHEMA

# How like the loop of a gate is to that of another, from the most to the least.
Likeness = Literal["same", "type", "meaning"]
LIKENESSES: tuple[Likeness, ...] = get_args(Likeness)

# What of a signature is no word: digests, and all signs between words.
_NO_WORDS = re.compile(r"#[0-9a-f]{16}|[^\w.]+|_")


class Signs(NamedTuple):
    """By what the loops of two gates are compared; each is "" where it is unknown."""

    signature: str
    coarse: str


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


def decisions_on(decided: Iterable[Resolution], turns: pl.DataFrame) -> Iterator[Resolution]:
    """Yield the decisions on tasks of these turns (`TURN_SCHEMA`).

    The name of a task may have come after its gate was resolved: the turn at which the gate opened
    has it.
    """
    tasks = set(turns["task"])
    spans = turns.filter(pl.col("kind") != "switch").select("trace_id", "span_id", "task")
    named = {(trace_id, span_id): task for trace_id, span_id, task in spans.iter_rows()}
    for each in decided:
        task = named.get((each.trace_id, each.span_id), each.task)
        if task in tasks:
            yield replace(each, task=task)


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


def with_decisions(turns: pl.DataFrame, decided: Iterable[Resolution]) -> pl.DataFrame:
    """Add to turns (`TURN_SCHEMA`) what people decided of their tasks, where it is not there."""
    said = resolution_turns(decisions_on(decided, turns))
    return pl.concat([turns, said.join(turns, on="call_id", how="anti")])


def likeness(first: Signs, second: Signs, meaning: Meaning | None) -> Likeness | None:
    """Return how like two loops are; None where they are not.

    Signatures are compared by meaning, as requests are, where a meaning is given.
    """
    if not first.signature or not second.signature:
        return None
    if first.signature == second.signature:
        return "same"
    if first.coarse and first.coarse == second.coarse:
        return "type"
    return "meaning" if meaning and _mean_same(first, second, meaning) else None


def _mean_same(first: Signs, second: Signs, meaning: Meaning) -> bool:
    texts = (_NO_WORDS.sub(" ", signs.signature) for signs in (first, second))
    one, other = (sketch(meaning.measure, text) for text in texts)
    if one is None or other is None or one.marks != other.marks:
        return False
    return int(one.vector @ other.vector) >= meaning.product_min
