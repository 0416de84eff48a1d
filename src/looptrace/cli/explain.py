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
from looptrace.analyzer.settings import Settings
from looptrace.cli import traces
from looptrace.cli.config import config_option

_CELL_LENGTH_MAX = 60
_TASKS_SHOWN_MAX = 10


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--task", help="Id of the task; may be left out where there is only one.")
@config_option
@click.pass_context
def explain(
    context: click.Context, paths: tuple[str, ...], task: str | None, settings: Settings
) -> None:
    """Print the turns of a task in PATHS and, for each rule, how far it got at each of them.

    `repeated_call 2/3` says that the second of three needed attempts ends at this turn.
    """
    parts, skipped = traces.turns(paths)
    traces.warn_of(skipped)
    tasks = pl.concat([part.select("task").unique(maintain_order=True) for part in parts])
    name = _chosen(task, tasks["task"].to_list())
    turns = pl.concat([part.filter(pl.col("task") == name) for part in parts])
    _print(name, turns, progress_of(turns, settings.judging))
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
    named = turns.filter(pl.col("agent") != "")["agent"].n_unique() > 1
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", expand=True)
    table.add_column("turn", justify="right", no_wrap=True)
    if named:
        table.add_column("agent", no_wrap=True, ratio=1)
    table.add_column("what", no_wrap=True, ratio=4)
    table.add_column("outcome", no_wrap=True, ratio=3)
    table.add_column("how far the rules got", ratio=4)
    for i, row in enumerate(turns.iter_rows(named=True)):
        number = "person" if row["kind"] == "user" else str(row["turn"])
        agent = [Text(plain(row["agent"], _CELL_LENGTH_MAX))] if named else []
        what = Text(label(row, _CELL_LENGTH_MAX))
        table.add_row(number, *agent, what, _outcome(row), _reached(row, rules, i))
    console.print(table)
    for rule in rules:
        if rule.furthest is not None:
            console.print(_furthest(rule, rule.furthest, turns))
    if blind := [rule.rule for rule in rules if rule.furthest is None]:
        console.print(Text(f"no turns for: {', '.join(blind)}", style="dim"))


def _outcome(row: dict[str, Any]) -> Text:
    if row["kind"] != "tool":
        return Text("")
    said = plain(row["error"] or row["result"] or "", _CELL_LENGTH_MAX)
    return Text(said, style="red" if row["failed"] else "")


def _reached(row: dict[str, Any], rules: list[Progress], index: int) -> Text:
    """Name the rules that see a repetition here, and what keeps them from seeing one."""
    found = Text()
    if row["kind"] == "tool":
        missing = {"arguments": row["arguments"], "result": row["outcome"]}
        unknown = [what for what, value in missing.items() if value is None]
        found.append(f"unknown {' and '.join(unknown)} " if unknown else "", style="dim")
    for rule in rules:
        attempts = rule.reached[index] or 0
        if attempts > 1:
            needed = rule.needed[index]
            style = "bold red" if attempts >= needed else "yellow"
            found.append(f"{rule.rule} {attempts}/{needed} ", style=style)
    return found


def _furthest(rule: Progress, index: int, turns: pl.DataFrame) -> Text:
    """Say in one line how far a rule got in the task, which is at the turn of this index."""
    most, needed = rule.reached[index] or 0, rule.needed[index]
    text = Text(f"{rule.rule}: ")
    if most < needed:
        return text.append(f"silent, got to {most} of {needed}")
    at = turns["turn"][index]
    return text.append(f"fired, got to {most} of {needed}, at turn {at}", style="bold red")
