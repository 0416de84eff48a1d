"""`looptrace calibrate`: thresholds from your own finished tasks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from pathlib import Path

import click

from looptrace.analyzer.report.calibration import (
    print_calibration,
    print_certificates,
    print_limits,
)
from looptrace.analyzer.report.tables import stdout_console
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.settings.sections import (
    FILE_NAME,
    PIVOTS_VARIABLE,
    THRESHOLD_VARIABLE,
    Settings,
    load,
    parsed,
)
from looptrace.analyzer.settings.toml_editor import with_override, with_thresholds
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.tuning.calibrate import CalibrationError, calibrated_of, sorted_out
from looptrace.analyzer.tuning.certificates import (
    Outcome,
    OutcomesError,
    certificates,
    read_outcomes,
    runs_of,
)
from looptrace.analyzer.tuning.evaluations import Solved, outcomes_in, solved_where
from looptrace.analyzer.tuning.limits import Limit, limits
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.engine_option import engine_of, engine_options
from looptrace.engines import Engine
from looptrace.semconv import GEN_AI_EVALUATION_RESULT

_NAME_CHARS_MAX = 60  # of a model in a comment


class Share(click.ParamType[float]):
    """A share in percent (`1%`) or as a number between 0 and 1."""

    name = "share"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the share as a number."""
        text = str(value)
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = 0.0
        if not 0 < share < 1:
            self.fail(f"{text} is no share; write one between 0 and 100 %, such as 1%.", param, ctx)
        return share


class EvaluationOption(click.ParamType[Solved]):
    """An evaluation, and its label or least value."""

    name = "evaluation"

    def convert(
        self, value: str | Solved, param: click.Parameter | None, ctx: click.Context | None
    ) -> Solved:
        """Return the evaluation."""
        if isinstance(value, Solved):
            return value
        try:
            return solved_where(value)
        except ValueError:
            self.fail(f"{value} is none; write NAME=LABEL, or NAME>=VALUE.", param, ctx)


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--alarms-per-day",
    type=click.FloatRange(0, 1e6),
    default=1.0,
    show_default=True,
    help="Tasks without a loop, per day, in which a rule may fire; for all rules together.",
)
@click.option(
    "--outcomes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File that says which runs were solved, a JSON object a line. Then no thresholds are "
    "proposed: it is shown what the gates in force would have cost and saved, for each kind, and "
    "which rule would save more as a gate, at a limit that these runs chose.",
)
@click.option(
    "--evaluation",
    type=EvaluationOption(),
    help="The evaluation in the traces (`gen_ai.evaluation.result`) of solved runs: NAME=LABEL, or "
    "NAME>=VALUE. Outcomes of --outcomes go before it.",
)
@click.option(
    "--lost",
    type=Share(),
    default="1%",
    show_default=True,
    help="Share of solved runs that gates may stop; with --outcomes or --evaluation.",
)
@click.option(
    "--write",
    is_flag=True,
    help=f"Write the proposals into {FILE_NAME}; with outcomes the limits that keep the promise.",
)
@engine_options
@config_option
@click.pass_context
def calibrate(
    context: click.Context,
    paths: tuple[str, ...],
    alarms_per_day: float,
    outcomes: Path | None,
    evaluation: Solved | None,
    lost: float,
    write: bool,
    engine: str,
    address: str | None,
    settings: Settings,
) -> None:
    """Propose thresholds for each kind of task, from the tasks in PATHS that went well.

    PATHS are a store, or trace files, folders, globs, or -. With outcomes, shows instead how many
    solved runs the gates in force would have stopped. Exits with 0, and with 2 if some of the input
    could not be read, or if there are too few finished tasks.
    """
    judging = partial(engine_of, engine, address, paths)
    if outcomes or evaluation:
        known = _outcomes(paths, outcomes, evaluation)
        skipped = _certify(paths, settings, known, lost, judging, write=write)
        context.exit(EXIT_UNREADABLE if skipped else 0)
    if write:
        _check_environment()
    work = partial(sorted_out, settings=settings, now_ns=time.time_ns())
    with judging() as evaluating:
        parts, skipped = traces.work_on(paths, settings, work, evaluating)
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


def _certify(
    paths: Sequence[str],
    settings: Settings,
    known: Sequence[Outcome],
    lost: float,
    judging: Callable[[], AbstractContextManager[Engine]],
    *,
    write: bool,
) -> Sequence[Skipped]:
    """Print, and `write`, what is promised of runs with a known outcome; return what was skipped.

    Raises:
        OutcomesError: if no outcome is of a run in the input.
    """
    with judging() as by:
        of_part = partial(runs_of, settings=settings, outcomes=known)
        found, skipped = traces.work_on(paths, settings, of_part, by)
        runs = [*chain.from_iterable(found)]
    traces.warn_of(skipped)
    if not runs:
        raise OutcomesError("the outcomes name no task, session or trace of the input.")
    print_certificates(certificates(runs, lost), lost, stdout_console())
    learned = limits(runs, settings.policy.rule_set, lost)
    print_limits(learned, lost, stdout_console())
    if write:
        _write_limits([each for each in learned if each.is_kept(lost)], settings)
    return skipped


def _outcomes(
    paths: Sequence[str], file: Path | None, evaluation: Solved | None
) -> Sequence[Outcome]:
    """Return the outcomes in the traces, and then those of the file, which go before."""
    found: list[Outcome] = []
    if evaluation is not None:
        for spans in traces.span_tables(paths):
            found += outcomes_in(spans, evaluation)
        if not found and file is None:
            raise OutcomesError(
                f"the input has no evaluation {evaluation.name} with such a score; evaluations are "
                f"events called {GEN_AI_EVALUATION_RESULT}."
            )
    return [*found, *(read_outcomes(file) if file else ())]


def _check_environment() -> None:
    """Refuse to write settings that an environment variable overrides."""
    for variable in (THRESHOLD_VARIABLE, PIVOTS_VARIABLE):
        if os.environ.get(variable):
            raise click.UsageError(f"{variable} is set, and overrides the file; unset it first.")


def _write_limits(learned: Sequence[Limit], settings: Settings) -> None:
    """Write learned limits into the file of the settings, each below a comment that says why."""
    if not learned:
        click.echo("Nothing is written: no limit keeps the promise.", err=True)
        return
    path = Path(FILE_NAME)
    own = path.exists() and load(path) == settings
    text = path.read_bytes().decode("utf-8-sig") if own else toml_of(settings)
    for each in learned:
        made, of_model = each.together, plain(each.kind.model, _NAME_CHARS_MAX)
        said = (
            f"learned from {each.chosen_on + made.losable:,} solved runs of "
            f"{of_model or 'any model'}: at most {made.at_most:.1%} lost (95 %), "
            f"{made.saved:.0%} of the other runs' steps saved"
        )
        text = with_override(text, FILE_NAME, each.override(settings.policy.rule_set), said)
    _replace(path, text, keep=path.exists() and not own)


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
    _replace(path, text or whole, keep=path.exists() and text is None)


def _replace(path: Path, text: str, *, keep: bool) -> None:
    """Write the file whole or not at all; `keep` the earlier one under another name."""
    new = path.with_suffix(".toml.new")
    try:
        new.write_text(text, encoding="utf-8", newline="")
        if keep:
            kept = path.with_suffix(".toml.before")
            path.replace(kept)
            click.echo(f"The earlier {path} is kept as {kept}.", err=True)
        new.replace(path)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}.") from error
    click.echo(f"The settings are in {path}.", err=True)
