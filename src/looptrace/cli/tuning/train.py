"""`looptrace train`: your own model for the rule `likely_loop`."""

from __future__ import annotations

import time
from pathlib import Path

import click
import polars as pl

from looptrace.analyzer.report.calibration import calibration_svg, model_card_text
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.tuning import train as training
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.rules.prediction.likely_loop import SIGNS

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--labels",
    "labels_file",
    type=_FILE,
    help='Labels, one a line: {"task": ..., "loop": true, "turn": 12}.  [default: people\'s'
    " decisions on gates, and finished tasks without a gate]",
)
@click.option(
    "-o", "--output", type=_FILE, required=True, help="File to write the model to, as JSON."
)
@click.option("--plot", type=_FILE, help="File to write the calibration to, as SVG.")
@click.option(
    "--without",
    type=click.Choice(list(SIGNS)),
    multiple=True,
    help="A sign to leave out, such as pause if the times are not real. May be repeated.",
)
@config_option
@click.pass_context
def train(
    context: click.Context,
    paths: tuple[str, ...],
    labels_file: Path | None,
    output: Path,
    plot: Path | None,
    without: tuple[str, ...],
    settings: Settings,
) -> None:
    """Train a model that predicts loops from PATHS: a store, trace files, folders, globs, or -.

    Exits with 0, and with 2 if some of the input could not be read, if there is too little to learn
    from, or if scikit-learn is not installed.
    """
    tables, skipped = traces.turns(paths, settings)
    parts = list(tables)
    with traces.needing("train", "training"), traces.working("learning"):
        labels = _labels(labels_file, parts, settings)
        examples = training.examples_of(parts, labels, settings.policy.rule_set)
        trained = training.trained(examples, without)
    traces.write(trained.json, output)
    if plot is not None:
        traces.write(calibration_svg(trained.card["calibration"]), plot)
    click.echo(model_card_text(trained.card))
    traces.warn_of(skipped)
    context.exit(EXIT_UNREADABLE if skipped else 0)


def _labels(
    path: Path | None, parts: list[pl.DataFrame], settings: Settings
) -> list[training.Label]:
    if path is None:
        now_ns = time.time_ns()
        return [label for part in parts for label in training.labels_of(part, settings, now_ns)]
    try:
        with path.open("rb") as file:
            text = file.read(training.LABELS_BYTES_MAX + 1)
    except OSError as error:
        raise training.TrainError(f"{path}: cannot be read: {error.strerror}.") from error
    if len(text) > training.LABELS_BYTES_MAX:
        raise training.TrainError(f"{path}: has more than {training.LABELS_BYTES_MAX} bytes.")
    return training.labels_in(text.decode("utf-8", "replace"), str(path))
