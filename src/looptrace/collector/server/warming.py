"""Tasks at work: which are, and in which a rule is one attempt short of a loop."""

import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.tuning.explain import REPEATED, progress_of
from looptrace.collector.api_bodies import WarmingTask
from looptrace.collector.store import reader
from looptrace.rules.vocabulary import NS_PER_S

# The most tasks to evaluate, the last active ones first, and the most turns of one task.
WARMING_TASKS_MAX, WARMING_TURNS_MAX = 50, 500

_END_COLUMNS = ["task", "trace_id", "span_id", "kind", "name", "subtask", "end_ns"]
# Few calls of a model or a tool take longer; a task that is quiet for longer is at rest.
QUIET_S = 900
_COLUMNS = ["task", "agent", "service", "end_ns"]
# A person may decide on the gate of an agent that has ended; the decision is no work.
_IS_DECISION = (pl.col("kind") == "user") & pl.col("name").is_not_null()


def warming_tasks(store_dir: Path, rules: RuleSet, now_ns: int | None = None) -> list[WarmingTask]:
    """Return the tasks at work that are close to their first loop, the last active ones first."""
    since_ns = (time.time_ns() if now_ns is None else now_ns) - QUIET_S * NS_PER_S
    turns = reader.read_rows(store_dir, "turns", pl.col("end_ns") > since_ns, _COLUMNS)
    looping = reader.read_rows(store_dir, "findings", pl.lit(value=True), ["task"])
    tasks = (
        turns.join(looping, on="task", how="anti")
        .group_by("task")
        .agg(
            pl.len().alias("turns"),
            pl.col("agent").filter(pl.col("agent") != "").last().fill_null(""),
            pl.col("service").drop_nulls().last().fill_null(""),
            pl.col("end_ns").max().alias("last_ns"),
        )
        .filter(
            pl.col("turns") <= WARMING_TURNS_MAX,
            ~pl.col("task").is_in(read_ended(store_dir, since_ns)),
        )
        .sort("last_ns", "task", descending=[True, False])
    )
    nearest = nearest_loops(store_dir, rules, tasks["task"].to_list())
    rows = tasks.drop("turns").iter_rows()
    return [
        WarmingTask(task, agent, service, last_ns, *nearest[task])
        for task, agent, service, last_ns in rows
        if task in nearest
    ]


def read_ended(store_dir: Path, since_ns: int) -> set[str]:
    """Return the tasks with a turn since then whose work has ended.

    It has ended if the last turn is an attempt with status `done`, or if the root of its trace has
    ended. A span that is the last turn itself says nothing: others may follow in other traces.
    """
    is_recent = pl.col("end_ns") > since_ns
    turns = reader.read_rows(store_dir, "turns", is_recent, _END_COLUMNS).filter(~_IS_DECISION)
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


def nearest_loops(
    store_dir: Path, rules: RuleSet, tasks: Sequence[str]
) -> dict[str, tuple[str, int, int]]:
    """Return, by task, the rule that is one attempt short, its attempts, and the needed ones.

    Only the first of many tasks are evaluated.
    """
    tasks = tasks[:WARMING_TASKS_MAX]
    if not tasks:
        return {}
    turns = reader.read_turns_of_tasks(store_dir, tasks)
    names = turns["task"].to_list()
    nearest: dict[str, tuple[str, int, int]] = {}
    for rule in progress_of(turns, rules):
        last = {
            name: (reached, needed)
            for name, reached, needed in zip(names, rule.reached, rule.needed, strict=True)
            if reached is not None
        }
        for name, (reached, needed) in last.items():
            if reached >= REPEATED and reached == needed - 1:
                nearest.setdefault(name, (rule.rule, reached, needed))
    return nearest
