"""The tasks of gates whose turns changed: by a decision, or because they are others now."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from looptrace.analyzer.gates.decisions import DECISIONS, PROGRESS
from looptrace.analyzer.gates.resolutions import Resolution, added_in
from looptrace.collector.store.buckets.placement import Traces, tied_to
from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.tables.parquet import read_bucket


def tasks_gone(store_dir: Path, gates: GateStore) -> set[str]:
    """Return the recorded tasks that became parts of others, or got another name."""
    if not (tasks := gates.tasks()):
        return set()
    buckets = (read_bucket(store_dir, "turns", bucket, ["task"]) for bucket in range(BUCKETS))
    return tasks.difference(*(turns["task"].unique() for turns in buckets))


def decisions_in_turns(store_dir: Path) -> list[Resolution]:
    """Return the decisions that the turns of a store hold."""
    is_decision = (pl.col("kind") == "user") & pl.col("name").is_in([*DECISIONS, PROGRESS])
    names = ["task", "session", "trace_id", "span_id", "end_ns", "name", "text", "result"]
    turns = (
        read_bucket(store_dir, "turns", bucket, ["call_id", "kind", *names]).filter(is_decision)
        for bucket in range(BUCKETS)
    )
    rows = (row for each in turns for row in each.select("call_id", *names).rows())
    return [
        replace(Resolution(*decided), budget=more.budget, added=more.added, added_ns=more.at_ns)
        for *decided, result in rows
        for more in [added_in(result)]
    ]


def decided_or_renamed(store_dir: Path, gates: GateStore) -> dict[int, Traces]:
    """Return the traces of gates that were resolved, or renamed, since the detection, by bucket."""
    gone = tasks_gone(store_dir, gates)
    renamed = {trace_id for task, trace_id in gates.tasks_and_traces() if task in gone}
    traces = gates.pending() | renamed
    return tied_to(store_dir, traces) if traces else {}
