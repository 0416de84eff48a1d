"""What is to be forgotten: a session, a task, a user or a service, and which spans are of it.

Of a session, a task and a user whole traces are forgotten, because the spans around a call say
what it was for. Of a service only its own spans are: others of the trace belong to others.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from looptrace.collector.api_bodies import ErasureKind


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wants to be forgotten."""

    kind: ErasureKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(slots=True)
class Choice:
    """The traces that are forgotten, or the service whose spans are, and the tasks that go.

    `tasks` have no turn left; `tasks_left` have some in other traces or of other services.
    """

    wanted: Wanted
    traces: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    tasks_left: set[str] = field(default_factory=set)

    def is_chosen(self) -> pl.Expr:
        """Return the condition of rows of spans and turns that are forgotten."""
        if self.wanted.kind == "service":
            return pl.col("service").eq_missing(self.wanted.name)
        return pl.col("trace_id").is_in(list(self.traces))


def traces_named(spans: pl.DataFrame, wanted: Wanted) -> set[str]:
    """Return the traces of spans (`STORED_SPAN_SCHEMA`) that name what is wanted."""
    name = wanted.name
    if wanted.kind == "service":
        found = pl.col("service").eq_missing(name)
    elif wanted.kind == "user":
        said = json.dumps(name, ensure_ascii=False)[1:-1]
        texts = ("attributes", "events")
        may = spans.filter(pl.any_horizontal(pl.col(*texts).str.contains(said, literal=True)))
        rows = may.select("trace_id", *texts).iter_rows()
        return {trace for trace, *said_in in rows if any(_names_user(t, name) for t in said_in)}
    elif wanted.kind == "session":
        found = pl.col("session").eq_missing(name)
    else:
        own = pl.concat_str("session", pl.lit("@"), "service")
        found = pl.any_horizontal(
            pl.col("task").eq_missing(name), own.eq_missing(name), pl.col("trace_id") == name
        )
    return {*spans.filter(found)["trace_id"]}


def traces_of_turns(turns: pl.DataFrame, wanted: Wanted, names: set[str]) -> set[str]:
    """Return the traces of turns of a session or task; a task may have other `names`."""
    if wanted.kind not in ("session", "task"):
        return set()
    return {*turns.filter(pl.col(wanted.kind).is_in(list(names)))["trace_id"]}


def names_of(wanted: Wanted, renamed: dict[str, str]) -> set[str]:
    """Return the names of what is wanted: its own, and the task's that has another one by now."""
    found = {wanted.name}
    if wanted.kind == "task":
        found |= {new for old, new in renamed.items() if old == wanted.name}
        found |= {old for old, new in renamed.items() if new in found}
    return found


def _names_user(text: str, name: str) -> bool:
    """Return whether some JSON has the name under a key with the word user.

    Producers write `user.id`, `enduser.id`, `langfuse.user.id`, `userId`, `user.email` and
    `traceloop.association.properties.user_id`, and those to come are not known.
    """
    leaves = _leaves("", json.loads(text))
    return any(value == name and "user" in key.lower() for key, value in leaves)


def _leaves(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts and numbers in some JSON, each with the keys that lead to it."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(f"{key}.{name}" if key else name, each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(key, each)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield key, str(value)
