"""`looptrace explain`: the turns of a task, and how far each rule got."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import click
import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from looptrace.analyzer.explain import Progress, progress_of
from looptrace.analyzer.labels import label, plain
from looptrace.cli import traces

_CELL_LENGTH_MAX = 60
_TASKS_SHOWN_MAX = 10
_UNKNOWN = "?"


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--task", help="Id of the task; may be left out where there is only one.")
@click.pass_context
def explain(context: click.Context, paths: tuple[str, ...], task: str | None) -> None:
    """Print the turns of a task in PATHS and, for each rule, how far it got at each of them.

    A rule's column says `2/3` where the second of three needed attempts ends, a bold one where the
    rule fires, and `?` where the trace does not say enough to compare the turn.
    """
    parts, skipped = traces.turns(paths)
    traces.warn_of(skipped)
    tasks = pl.concat([part.select("task").unique(maintain_order=True) for part in parts])
    name = _chosen(task, tasks["task"].to_list())
    turns = pl.concat([part.filter(pl.col("task") == name) for part in parts])
    _print(name, turns, progress_of(turns))
    context.exit(traces.EXIT_UNREADABLE if skipped else 0)


def _chosen(task: str | None, tasks: list[str]) -> str:
    if not tasks:
        raise click.UsageError("there are no turns of an agent in the input.")
    if task in tasks:
        return str(task)
    if task is None and len(tasks) == 1:
        return tasks[0]
    near = get_close_matches(task or "", tasks, n=_TASKS_SHOWN_MAX) or tasks[:_TASKS_SHOWN_MAX]
    shown = ", ".join(plain(one, _CELL_LENGTH_MAX) for one in near)
    asked = (
        f"there is no task {plain(task, _CELL_LENGTH_MAX)!r}" if task else "name a task by --task"
    )
    raise click.UsageError(f"{asked}; the input has {len(tasks)}, among them: {shown}.")


def _print(name: str, turns: pl.DataFrame, rules: list[Progress]) -> None:
    console = Console()
    console.print(Text(f"task {plain(name, _CELL_LENGTH_MAX)}", style="bold"))
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("turn", justify="right")
    with_agents = turns.filter(pl.col("agent") != "")["agent"].n_unique() > 1
    for heading in ("agent", "what") if with_agents else ("what",):
        table.add_column(heading, overflow="fold")
    table.add_column("outcome", overflow="fold")
    for rule in rules:
        table.add_column(rule.rule, justify="right")
    for i, row in enumerate(turns.iter_rows(named=True)):
        agent = [Text(plain(row["agent"], _CELL_LENGTH_MAX))] if with_agents else []
        what = [Text(label(row, _CELL_LENGTH_MAX)), _outcome(row)]
        number = "person" if row["kind"] == "user" else str(row["turn"])
        table.add_row(number, *agent, *what, *(_reached(rule, i) for rule in rules))
    console.print(table)


def _outcome(row: dict[str, Any]) -> Text:
    if row["kind"] != "tool":
        return Text("")
    if row["outcome"] is None:
        return Text(_UNKNOWN, style="dim")
    said = plain(row["error"] or row["result"] or "", _CELL_LENGTH_MAX)
    return Text(said, style="red" if row["failed"] else "")


def _reached(rule: Progress, index: int) -> Text:
    attempts = rule.reached[index]
    if attempts is None:
        return Text("")
    if attempts == 0:
        return Text(_UNKNOWN, style="dim")
    return Text(f"{attempts}/{rule.needed}", style="bold red" if attempts >= rule.needed else "")
