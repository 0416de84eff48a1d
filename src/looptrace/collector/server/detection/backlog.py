"""The backlog at the start of a server: spans without detection.

Spans that share a trace, a session, a task or a link are evaluated together, so that decisions on a
task depend on all of its turns.
"""

from collections.abc import Iterable

import polars as pl

from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.normalize.span_ties import groups, tie_rows, with_ties
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.server.ingest.ingest_log import IngestLog

# The most spans of the log in memory at a time.
BACKLOG_SPANS = 200_000


def logged_names(log: IngestLog, after_seq: int, end_seq: int, dialects: DialectTable) -> set[str]:
    """Return the traces, sessions and tasks of the spans of a part of the log."""
    names: set[str] = set()
    while piece := log.read(after_seq, BACKLOG_SPANS, end_seq):
        names |= names_of(piece.spans, dialects)
        after_seq = piece.seq
    return names


def names_of(spans: pl.DataFrame, dialects: DialectTable = SHIPPED) -> set[str]:
    """Return the traces, sessions and tasks of spans (`SPAN_SCHEMA`), and the traces they link."""
    ties = tie_rows(with_ties(spans, dialects))
    return {*ties["trace_id"], *ties["tie"]}


class TasksOfTraces:
    """The tasks of traces as known from turns, and the tasks that all of their traces left."""

    def __init__(self) -> None:
        self._tasks: dict[str, set[str]] = {}  # by trace

    def replace(self, turns: pl.DataFrame) -> None:
        """Replace the tasks of traces by those of all their turns (`TURN_SCHEMA`)."""
        for trace_id in turns["trace_id"].unique():
            self._tasks.pop(trace_id, None)
        self.add(turns)

    def add(self, turns: pl.DataFrame) -> None:
        """Add the tasks of traces from some of their turns (`TURN_SCHEMA`)."""
        for trace_id, task in turns.select("trace_id", "task").unique().iter_rows():
            self._tasks.setdefault(trace_id, set()).add(task)

    def left(self, gates: Iterable[tuple[str, str]]) -> set[str]:
        """Return the tasks of gates (task and trace) that have no turns since they moved."""
        with_turns = set[str]().union(*self._tasks.values())
        return {task for task, trace in gates if trace in self._tasks and task not in with_turns}


class Backlog:
    """A piece of the log in groups of spans that are tied together."""

    def __init__(self, spans: pl.DataFrame, dialects: DialectTable = SHIPPED) -> None:
        """Group spans (`SPAN_SCHEMA`)."""
        self._dialects = dialects
        self.spans_left = spans.height
        self._group_of = groups(tie_rows(with_ties(spans, dialects)).iter_rows())
        group = pl.col("trace_id").replace_strict(self._group_of, return_dtype=pl.String)
        newest = pl.col("end_ns").max().over("group")
        ordered = spans.with_columns(group=group).with_columns(newest=newest)
        ordered = ordered.sort("newest", "group", descending=True, maintain_order=True)
        parts = ordered.drop("newest").partition_by(
            "group", as_dict=True, include_key=False, maintain_order=True
        )
        self._parts = {str(name): part for (name,), part in parts.items()}

    def take(self, spans_max: int, tied_to: pl.DataFrame) -> pl.DataFrame:
        """Take the groups that are tied to some spans, and the newest others up to a number."""
        named = tie_rows(with_ties(tied_to, self._dialects))
        taken = self._pop(self._group_of.get(name, "") for name in named["tie"])
        taken_spans = sum(part.height for part in taken)
        for name in list(self._parts):
            if taken_spans >= spans_max:
                break
            taken += self._pop([name])
            taken_spans += taken[-1].height
        self.spans_left -= taken_spans
        return pl.concat([SPAN_SCHEMA.to_frame(), *taken])

    def _pop(self, names: Iterable[str]) -> list[pl.DataFrame]:
        return [self._parts.pop(name) for name in names if name in self._parts]
