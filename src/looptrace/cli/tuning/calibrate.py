"""`looptrace calibrate`: thresholds from your own finished tasks."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import click

from looptrace.analyzer.report.calibration import print_calibration
from looptrace.analyzer.report.tables import stdout_console
from looptrace.analyzer.settings.sections import (
    FILE_NAME,
    PIVOTS_VARIABLE,
    THRESHOLD_VARIABLE,
    Settings,
    load,
    parsed,
)
from looptrace.analyzer.settings.toml_editor import with_thresholds
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.tuning.calibrate import CalibrationError, calibrated_of, sorted_out
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.engine_option import engine_of, engine_options


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--alarms-per-day",
    type=click.FloatRange(0, 1e6),
    default=1.0,
    show_default=True,
    help="Tasks without a loop, per day, in which a rule may fire; for all rules together.",
)
@click.option("--write", is_flag=True, help=f"Write the proposals into {FILE_NAME}.")
@engine_options
@config_option
@click.pass_context
def calibrate(
    context: click.Context,
    paths: tuple[str, ...],
    alarms_per_day: float,
    write: bool,
    engine: str,
    address: str | None,
    settings: Settings,
) -> None:
    """Propose thresholds for each kind of task, from the tasks in PATHS that went well.

    PATHS are a store, or trace files, folders, globs, or -. Exits with 0, and with 2 if some of the
    input could not be read, or if there are too few finished tasks.
    """
    if write:
        _check_environment()
    work = partial(sorted_out, settings=settings, now_ns=time.time_ns())
    with engine_of(engine, address, paths) as judging:
        parts, skipped = traces.work_on(paths, settings, work, judging)
        try:
            with traces.working("trying thresholds"):
                calibration = calibrated_of(parts, settings, alarms_per_day)
        except CalibrationError:
            traces.warn_of(skipped)
            raise
    print_calibration(calibration, alarms_per_day, stdout_console())
    if write:
        _write(settings, calibration.settings)
    traces.warn_of(skipped)
    context.exit(EXIT_UNREADABLE if skipped else 0)


def _check_environment() -> None:
    """Refuse to write settings that an environment variable overrides."""
    for variable in (THRESHOLD_VARIABLE, PIVOTS_VARIABLE):
        if os.environ.get(variable):
            raise click.UsageError(f"{variable} is set, and overrides the file; unset it first.")


def _write(before: Settings, settings: Settings) -> None:
    """Write the file whole or not at all.

    The file of the settings keeps its comments and its order. If that is not possible, or if the
    settings came from another file, the file has all settings, and the earlier file is kept.
    """
    path = Path(FILE_NAME)
    own = path.exists() and load(path) == before
    text = (
        with_thresholds(path.read_bytes().decode("utf-8-sig"), FILE_NAME, settings) if own else None
    )
    whole = toml_of(settings)
    parsed(whole.encode(), FILE_NAME)
    new = path.with_suffix(".toml.new")
    try:
        new.write_text(text or whole, encoding="utf-8", newline="")
        if path.exists() and text is None:
            kept = path.with_suffix(".toml.before")
            path.replace(kept)
            click.echo(f"The earlier {path} is kept as {kept}.", err=True)
        new.replace(path)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}.") from error
    click.echo(f"The settings are in {path}.", err=True)
