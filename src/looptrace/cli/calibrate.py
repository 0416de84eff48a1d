"""`looptrace calibrate`: thresholds out of one's own finished tasks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click
from rich.console import Console

from looptrace.analyzer.report.calibration import print_calibration
from looptrace.analyzer.settings.sections import (
    FILE_NAME,
    PIVOTS_VARIABLE,
    THRESHOLD_VARIABLE,
    Settings,
    parsed,
)
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.tuning.calibrate import CalibrationError, calibrated
from looptrace.cli import traces
from looptrace.cli.config import config_option


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
    print_calibration(found, alarms_per_day, Console())
    if write:
        _write(found.settings)
    traces.warn_of(skipped)
    context.exit(traces.EXIT_UNREADABLE if skipped else 0)


def _check_environment() -> None:
    """Refuse to write what a variable would win over, or would have changed before."""
    for variable in (THRESHOLD_VARIABLE, PIVOTS_VARIABLE):
        if os.environ.get(variable):
            raise click.UsageError(f"{variable} is set, and wins over the file; unset it first.")


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
