"""Whether work on a task goes on: one answer for the list, the page of a task, and `watch`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from looptrace.collector.store import reader

# Few calls of a model or a tool take longer; a task that is quiet for longer is at rest.
QUIET_S = 900

_COLUMNS = ["task", "trace_id", "span_id", "kind", "name", "subtask", "end_ns"]


def read_ended(store_dir: Path, since_ns: int) -> set[str]:
    """Return the tasks with a turn since then whose work has ended.

    It has ended if the last turn is an attempt with status `done`, or if the root of its trace has
    ended. A span that is the last turn itself says nothing: others may follow in other traces.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    is_recent = pl.col("end_ns") > since_ns
    turns = reader.read_rows(store_dir, "turns", is_recent, _COLUMNS)
    last = turns.sort("end_ns", maintain_order=True).group_by("task", maintain_order=True).last()
    is_root = pl.col("parent_span_id").is_null()
    roots = reader.read_rows(
        store_dir, "spans", is_recent & is_root, ["trace_id", "span_id", "end_ns"]
    )
    after = (pl.col("end_ns_root") >= pl.col("end_ns")) & (
        pl.col("span_id_root") != pl.col("span_id")
    )
    by_root = last.join(roots, on="trace_id", suffix="_root").filter(after)
    done = last.filter(pl.col("subtask").is_null(), kind="attempt", name="done")
    return {*by_root["task"], *done["task"]}
