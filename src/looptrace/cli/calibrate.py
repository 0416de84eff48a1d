"""`looptrace calibrate`: thresholds out of one's own finished tasks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from looptrace.analyzer.report.wording import NAME_LENGTH_MAX, counted
from looptrace.analyzer.settings.sections import (
    FILE_NAME,
    PIVOTS_VARIABLE,
    THRESHOLD_VARIABLE,
    Settings,
    parsed,
)
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.tuning.calibrate import (
    FINISHED_AFTER_S,
    TASKS_MIN,
    Calibration,
    CalibrationError,
    calibrated,
)
from looptrace.cli import traces
from looptrace.cli.config import config_option

_OTHERS = "all others"


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--alarms-per-day",
    type=click.FloatRange(0, 1e6),
    default=1.0,
    show_default=True,
    help="Tasks without a loop in which any rule may fire, a day, all rules together.",
)
@click.option("--write", is_flag=True, help=f"Write the settings to {FILE_NAME}.")
@config_option
@click.pass_context
def calibrate(
    context: click.Context,
    paths: tuple[str, ...],
    alarms_per_day: float,
    write: bool,
    settings: Settings,
) -> None:
    """Propose thresholds for each kind of task, from the tasks in PATHS that were well.

    PATHS are a store, or trace files, folders, globs, or -. Exits with 0; and with 2 if some of the
    input could not be read, or there are too few finished tasks.
    """
    if write:
        _check_environment()
    parts, skipped = traces.turns(paths, settings)
    try:
        with traces.working("trying thresholds"):
            found = calibrated(parts, settings, alarms_per_day, time.time_ns())
    except CalibrationError:
        traces.warn_of(skipped)
        raise
    _print(found, alarms_per_day, Console())
    if write:
        _write(found.settings)
    traces.warn_of(skipped)
    context.exit(traces.EXIT_UNREADABLE if skipped else 0)


def _check_environment() -> None:
    """Refuse to write what a variable would win over, or would have changed before."""
    for variable in (THRESHOLD_VARIABLE, PIVOTS_VARIABLE):
        if os.environ.get(variable):
            raise click.UsageError(f"{variable} is set, and wins over the file; unset it first.")


def _print(found: Calibration, alarms_per_day: float, console: Console) -> None:
    tasks = ", ".join(
        f"{plain(kind, NAME_LENGTH_MAX) if kind else _OTHERS} {count:,}"
        for kind, count in found.tasks.items()
    )
    counts = counted(sum(found.tasks.values()), "finished task")
    lines = [f"{counts} without a loop in {found.days:,.1f} days: {tasks}."]
    if found.left_out:
        lines.append(
            f"{counted(found.left_out, 'task')} left out: silent for less than"
            f" {FINISHED_AFTER_S // 60} minutes, with a gate that nobody decided upon, or of a kind"
            f" with fewer than {TASKS_MIN}."
        )
    _say(lines, console)
    if found.proposals:
        console.print(_table(found))
    now, then = found.a_day(found.alarms_now), found.a_day(found.alarms_then)
    said = [
        f"False alarms a day, all rules together: {now:.2f} now, {then:.2f} with these settings."
        if found.proposals
        else f"The settings in force stay: {now:.2f} false alarms a day."
    ]
    if then > alarms_per_day:
        said.append(f"No thresholds keep to {alarms_per_day:g} a day; these are the nearest.")
    if found.loops:
        said.append(
            f"Of {counted(found.loops, 'loop')} that a person confirmed, {found.loops_found_now:,}"
            f" are found now, and {found.loops_found_then:,} with these settings."
        )
    else:
        said.append("No loop was confirmed by a person, so that nobody knows what is missed.")
    _say(said, console)


def _say(lines: list[str], console: Console) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False)


def _table(found: Calibration) -> Table:
    table = Table("task kind", "setting", box=None, pad_edge=False)
    for name in ("now", "proposed", "alarms a day now", "then"):
        table.add_column(name, justify="right")
    for one in found.proposals:
        table.add_row(
            plain(one.kind, NAME_LENGTH_MAX) if one.kind else _OTHERS,
            f"{one.rule}.{one.setting}",
            f"{one.now:,}",
            f"{one.then:,}",
            f"{found.a_day(one.alarms_now):.2f}",
            f"{found.a_day(one.alarms_then):.2f}",
        )
    return table


def _write(settings: Settings) -> None:
    """Write the file whole or not at all; what was there before stays beside it."""
    path, text = Path(FILE_NAME), toml_of(settings)
    parsed(text.encode(), FILE_NAME)
    new = path.with_suffix(".toml.new")
    kept = path.with_suffix(".toml.before")
    try:
        new.write_text(text, encoding="utf-8")
        if path.exists():
            path.replace(kept)
            click.echo(f"What was in {path} lies in {kept}.", err=True)
        new.replace(path)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}.") from error
    click.echo(f"The settings lie in {path}.", err=True)
