"""`looptrace calibrate`: thresholds from your own finished tasks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
import polars as pl

from looptrace.analyzer.detect.ruleset import Override
from looptrace.analyzer.report.calibration import (
    print_calibration,
    print_certificates,
    print_limits,
    print_tests,
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
from looptrace.analyzer.settings.toml_editor import with_model, with_override, with_thresholds
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.tuning.calibrate import CalibrationError, calibrated_of, sorted_out
from looptrace.analyzer.tuning.certificates import (
    Outcome,
    OutcomesError,
    Run,
    certificates,
    read_outcomes,
    runs_of,
)
from looptrace.analyzer.tuning.drift import PromiseTest, promise_tests
from looptrace.analyzer.tuning.failure_model import (
    RunSigns,
    model_json,
    signs_by_task,
    with_predictions,
)
from looptrace.analyzer.tuning.limits import Limit, limits
from looptrace.analyzer.tuning.outcomes import Solved, outcomes_in, solved_where
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.engine_option import engine_of, engine_options
from looptrace.engines import Engine
from looptrace.rules.contract import SPARED_PERCENT_MAX
from looptrace.rules.prediction.likely_failure import LikelyFailure, Model
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


class ConditionOption(click.ParamType[Solved]):
    """The name of an evaluation or attribute, and its label or least value."""

    name = "condition"

    def convert(
        self, value: str | Solved, param: click.Parameter | None, ctx: click.Context | None
    ) -> Solved:
        """Return the condition."""
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
    type=ConditionOption(),
    help="The evaluation in the traces (`gen_ai.evaluation.result`) of solved runs: NAME=LABEL, or "
    "NAME>=VALUE. Outcomes of --outcomes go before it.",
)
@click.option(
    "--attribute",
    type=ConditionOption(),
    help="The same for an attribute of any span of a run, such as looptrace.task.outcome=solved.",
)
@click.option(
    "--decisions",
    is_flag=True,
    help="Take runs whose gate a person resolved as not_a_loop for solved and those that one "
    "cancelled for not solved, where nothing else is known of them.",
)
@click.option(
    "--lost",
    type=Share(),
    default="1%",
    show_default=True,
    help="Share of solved runs that gates may stop; with outcomes.",
)
@click.option(
    "--model",
    "model_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also fit a model on the runs, and with --write put it into this file where its limit "
    "saves more than that of any counter; with outcomes, and needs scikit-learn.",
)
@click.option(
    "--spared",
    type=click.IntRange(0, SPARED_PERCENT_MAX),
    default=0,
    show_default=True,
    metavar="PERCENT",
    help="With --write, the share of tasks in which a learned limit only warns, so that a later "
    "call can test what it promised.",
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
    attribute: Solved | None,
    decisions: bool,
    lost: float,
    model_file: Path | None,
    spared: int,
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
    if outcomes or evaluation or attribute or decisions:
        known = _outcomes(paths, outcomes, evaluation, attribute)
        work = partial(_known_runs, settings, known, decisions, model_file is not None)
        with judging() as by:
            runs, signs, skipped = _read_runs(paths, settings, work, by)
        learned, model = _certified(runs, signs if model_file else None, settings, lost)
        tests = _tests(runs, settings)
        if write:
            changes = _changes(learned, tests, settings, lost, spared)
            _write_overrides(changes, model, model_file, settings)
        context.exit(EXIT_UNREADABLE if skipped else 0)
    if write:
        _check_environment()
    sorting = partial(sorted_out, settings=settings, now_ns=time.time_ns())
    with judging() as evaluating:
        parts, skipped = traces.work_on(paths, settings, sorting, evaluating)
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


_Known = tuple[list[Run], Mapping[str, RunSigns]]


def _known_runs(
    settings: Settings,
    outcomes: Sequence[Outcome],
    with_decisions: bool,
    with_signs: bool,
    turns: pl.DataFrame,
) -> _Known:
    """Return the runs of a part whose outcome is known, and their signs if asked for."""
    runs = runs_of(turns, settings, outcomes, with_decisions=with_decisions)
    own = turns.filter(pl.col("task").is_in([run.task for run in runs]))
    return runs, signs_by_task(own) if with_signs and runs else {}


def _read_runs(
    paths: Sequence[str],
    settings: Settings,
    work: Callable[[pl.DataFrame], _Known],
    engine: Engine,
) -> tuple[list[Run], Mapping[str, RunSigns], Sequence[Skipped]]:
    """Return the runs of the input whose outcome is known, their signs, and what was skipped.

    Raises:
        OutcomesError: if the outcome of no run is known.
    """
    found, skipped = traces.work_on(paths, settings, work, engine)
    parts = [*found]
    traces.warn_of(skipped)
    runs = [run for own, _ in parts for run in own]
    if not runs:
        raise OutcomesError(
            "the outcome of no run is known: the outcomes name no task, session or trace of the "
            "input, and no person decided on its gates."
        )
    return runs, {task: signs for _, own in parts for task, signs in own.items()}, skipped


def _certified(
    runs: list[Run], signs: Mapping[str, RunSigns] | None, settings: Settings, lost: float
) -> tuple[Sequence[Limit], Model | None]:
    """Print what is promised of runs; return the learned limits, and the model of one, if any."""
    console, model = stdout_console(), None
    print_certificates(certificates(runs, lost), lost, console)
    if signs is not None:
        with traces.needing("learn", "a model"), traces.working("fitting a model"):
            model, runs = with_predictions(runs, signs)
    learned = limits(runs, settings.policy.rule_set, lost)
    print_limits(learned, lost, console)
    if model and not any(each.rule == LikelyFailure.name for each in learned):
        click.echo("The model is not used: for no kind does its limit save more than a counter's.")
    return learned, model


def _outcomes(
    paths: Sequence[str], file: Path | None, evaluation: Solved | None, attribute: Solved | None
) -> Sequence[Outcome]:
    """Return the outcomes in the traces, and then those of the file, which go before."""
    found: list[Outcome] = []
    wanted = [condition for condition in (evaluation, attribute) if condition]
    if wanted:
        for spans in traces.span_tables(paths):
            found += outcomes_in(spans, evaluation, attribute)
        if not found and file is None:
            names = " or ".join(condition.name for condition in wanted)
            raise OutcomesError(
                f"the input has no {names} with such a score. Evaluations are events called "
                f"{GEN_AI_EVALUATION_RESULT}; `looptrace query outcomes` shows those of a store."
            )
    return [*found, *(read_outcomes(file) if file else ())]


def _check_environment() -> None:
    """Refuse to write settings that an environment variable overrides."""
    for variable in (THRESHOLD_VARIABLE, PIVOTS_VARIABLE):
        if os.environ.get(variable):
            raise click.UsageError(f"{variable} is set, and overrides the file; unset it first.")


def _tests(runs: Sequence[Run], settings: Settings) -> Sequence[PromiseTest]:
    """Print, and return, whether the promises of the limits in force still hold."""
    tests = [*promise_tests(runs, settings.policy.rule_set)]
    print_tests(tests, stdout_console())
    return tests


def _changes(
    learned: Sequence[Limit],
    tests: Sequence[PromiseTest],
    settings: Settings,
    lost: float,
    spared: int,
) -> list[tuple[Override, str]]:
    """Return the overrides that withdraw promises, and those that make some, with comments."""
    changes = [(each.warning(), _WITHDRAWN) for each in tests if each.is_withdrawn]
    for each in learned:
        if each.is_kept(lost):
            override = each.override(settings.policy.rule_set, lost, spared)
            changes.append((override, _source_of(each)))
    return changes


_WITHDRAWN = "a learned limit whose promise was withdrawn: it only warns"


def _source_of(limit: Limit) -> str:
    """Return the comment on a learned limit: from what it was learned, and what it promises."""
    made, of_model = limit.together, plain(limit.kind.model, _NAME_CHARS_MAX)
    return (
        f"learned from {limit.chosen_on + made.losable:,} solved runs of "
        f"{of_model or 'any model'}: at most {made.at_most:.1%} lost (95 %), "
        f"{made.saved:.0%} of the other runs' steps saved"
    )


def _write_overrides(
    changes: Sequence[tuple[Override, str]],
    model: Model | None,
    model_file: Path | None,
    settings: Settings,
) -> None:
    """Write overrides into the file of the settings, each with a comment."""
    if not changes:
        click.echo("Nothing is written: no limit keeps the promise.", err=True)
        return
    path = Path(FILE_NAME)
    own = path.exists() and load(path) == settings
    text = path.read_bytes().decode("utf-8-sig") if own else toml_of(settings)
    if model and model_file and any(LikelyFailure.name in each.rules for each, _ in changes):
        traces.write(model_json(model), model_file)
        text = with_model(text, str(model_file))
    for override, said in changes:
        text = with_override(text, FILE_NAME, override, said)
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
