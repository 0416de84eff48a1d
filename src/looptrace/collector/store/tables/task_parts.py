"""The turns of a bucket in parts of whole tasks, so that memory does not grow with the bucket."""

from collections.abc import Collection, Iterator
from pathlib import Path

import polars as pl

from looptrace.analyzer.schema.turns import BY_TURN, TURN_SCHEMA
from looptrace.collector.store.tables.parquet import bucket_files, read_bucket, read_slices

# The most turns of a part, unless a single task has more. The parts of a bucket are alike in size,
# and as many of them are in memory as there are threads.
PART_TURNS = 36_000


def task_parts(
    store_dir: Path, bucket: int, tasks: Collection[str] | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the turns (`TURN_SCHEMA`) of a bucket part by part, for some tasks or all.

    Parts are in the order of their tasks. The turns of a task are adjacent, and in their order.
    """
    runs = _runs(store_dir, bucket)
    if runs is None:
        yield read_bucket(store_dir, "turns", bucket).sort(BY_TURN, maintain_order=True)
        return
    if tasks is not None:
        runs = runs.filter(pl.col("task").is_in(list(tasks)))
    paths = bucket_files(store_dir, "turns", bucket)
    sizes = runs.group_by("task").agg(pl.col("rows").sum()).sort("task")
    count = -(-runs["rows"].sum() // PART_TURNS)
    rows = pl.col("rows")
    number = (rows.cum_sum() - rows) * count // rows.sum()
    parts = runs.join(sizes.select("task", part=number), on="task").sort("part", "file", "first")
    for of_part in parts.partition_by("part", maintain_order=True):
        slices = of_part.group_by("file", maintain_order=True).agg(
            pl.col("first").min(), end=(pl.col("first") + pl.col("rows")).max()
        )
        where = [(paths[file], first, end - first) for file, first, end in slices.iter_rows()]
        chosen = pl.col("task").is_in(of_part["task"].unique().implode())
        which = pl.lit(value=True) if tasks is None else chosen
        turns = read_slices(where, TURN_SCHEMA, which)
        # Rows of one file are in order, and so are the days; but a task may go on from day to day.
        if of_part["task"].is_duplicated().any():
            is_in_order = len(where) == len({path.parent for path, _, _ in where})
            turns = turns.sort("task" if is_in_order else BY_TURN, maintain_order=True)
        yield turns


def _runs(store_dir: Path, bucket: int) -> pl.DataFrame | None:
    """Return the rows of each task in each file; None where files are not sorted."""
    runs = []
    for number, path in enumerate(bucket_files(store_dir, "turns", bucket)):
        tasks = read_slices([(path, 0, None)], pl.Schema({"task": pl.String()}))["task"]
        lengths = tasks.rle().struct.unnest()
        if not lengths["value"].is_sorted() or lengths["value"].is_duplicated().any():
            return None
        ends = pl.col("len").cast(pl.Int64).cum_sum()
        runs.append(
            lengths.select(
                pl.lit(number).alias("file"),
                task="value",
                rows=pl.col("len").cast(pl.Int64),
                first=ends - pl.col("len").cast(pl.Int64),
            )
        )
    return pl.concat(runs) if runs else None
