"""`looptrace calibrate`: thresholds from your own finished tasks."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import polars as pl
from click.core import ParameterSource

from looptrace.analyzer.report.calibration import (
    print_calibration,
    print_certificates,
    print_limits,
    print_tests,
)
from looptrace.analyzer.report.pages import stdout_console
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.settings.outcomes.sources import OutcomeSources, solved_where
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
from looptrace.analyzer.tuning.calibrate import CalibrationError, calibrated, sorted_out
from looptrace.analyzer.tuning.certificates import (
    Outcome,
    OutcomesError,
    Run,
    certificates,
    read_outcomes,
    runs_of,
)
from looptrace.analyzer.tuning.drift import PromiseTest, promise_tests
from looptrace.analyzer.tuning.failure_model import RunSigns, signs_by_task, with_predictions
from looptrace.analyzer.tuning.limits import Limit, limits
from looptrace.analyzer.tuning.outcomes import outcomes_in
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.engine_option import engine_of, engine_options
from looptrace.cli.shared.limit_writer import (
    changes_of,
    note_promises,
    replace_file,
    say_what_tests,
    write_overrides,
)
from looptrace.collector.store.promises.withdrawn import PromiseNote, read_promises, settings_in
from looptrace.engines import Engine
from looptrace.rules.contract import SPARED_PERCENT_MAX
from looptrace.rules.prediction.likely_failure import LikelyFailure, Model
from looptrace.semconv import GEN_AI_EVALUATION_RESULT


class ShareParam(click.ParamType[float]):
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
            self.fail(
                f"{text} is not a share; write one between 0 and 100 %, such as 1%.", param, ctx
            )
        return share


class ConditionOption(click.ParamType[str]):
    """The name of an evaluation or attribute, and its label or least value."""

    name = "condition"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the condition as it is written."""
        try:
            solved_where(value)
        except ValueError:
            self.fail(f"{value} is not a condition; write NAME=LABEL, or NAME>=VALUE.", param, ctx)
        return value


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
    help="File of solved and unsolved runs, a JSON object a line. The report then shows, by kind, "
    "what the gates in force would have cost and saved, and which rule would save more as a gate.",
)
@click.option(
    "--evaluation",
    type=ConditionOption(),
    help="The evaluation in the traces (`gen_ai.evaluation.result`) of solved runs: NAME=LABEL, or "
    "NAME>=VALUE. --outcomes comes first.",
)
@click.option(
    "--attribute",
    type=ConditionOption(),
    help="The same for an attribute of any span of a run, such as looptrace.task.outcome=solved.",
)
@click.option(
    "--decisions",
    is_flag=True,
    help="Where nothing else says whether a run was solved: count not_a_loop on its gate as "
    "solved, and cancel as not solved.",
)
@click.option(
    "--lost",
    type=ShareParam(),
    default="1%",
    show_default=True,
    help="Share of solved runs that gates may stop; with outcomes.",
)
@click.option(
    "--model",
    "model_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also fit a model on the runs; needs outcomes and scikit-learn. --write puts it into this "
    "file if its limit saves more than that of any counter.",
)
@click.option(
    "--spared",
    type=click.IntRange(0, SPARED_PERCENT_MAX),
    metavar="PERCENT",
    help="With --write, the percent of tasks in which a learned limit only warns, to test its "
    "promise later; by default as before, or 0.",
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
    evaluation: str | None,
    attribute: str | None,
    decisions: bool,
    lost: float,
    model_file: Path | None,
    spared: int | None,
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
    evaluator = partial(engine_of, engine, address, paths)
    every_s = settings.outcomes.test_every_s
    given = OutcomeSources(evaluation or "", attribute or "", decisions, every_s)
    sources = given if given.are_known else settings.outcomes
    is_lost_asked = context.get_parameter_source("lost") is ParameterSource.COMMANDLINE
    if outcomes or given.are_known or is_lost_asked:
        learn = _Learning(paths, outcomes, sources, lost, model_file, spared, write)
        with evaluator() as by:
            skipped = learn(settings, by)
        context.exit(EXIT_UNREADABLE if skipped else 0)
    if write:
        _check_environment()
    sorting = partial(sorted_out, settings=settings, now_ns=time.time_ns())
    with evaluator() as evaluating:
        parts, skipped = traces.work_on(paths, settings, sorting, evaluating)
        try:
            with traces.working("trying thresholds"):
                calibration = calibrated(parts, settings, alarms_per_day)
        except CalibrationError:
            traces.warn_of(skipped)
            raise
    print_calibration(calibration, alarms_per_day, stdout_console())
    if write:
        _write(settings, calibration.settings)
    traces.warn_of(skipped)
    context.exit(EXIT_UNREADABLE if skipped else 0)


@dataclass(frozen=True, slots=True)
class _Learning:
    """What to learn limits from, and what to do with them."""

    paths: Sequence[str]
    file: Path | None  # of outcomes
    sources: OutcomeSources
    lost: float
    model_file: Path | None
    spared: int | None
    writes: bool

    def __call__(self, settings: Settings, engine: Engine) -> Sequence[Skipped]:
        """Show what gates cost, learn limits, and test those in force; return what was skipped."""
        store = _own_store(self.paths)
        in_force = settings_in(store, settings) if store else settings
        known, has_model = _outcomes(self.paths, self.file, self.sources), bool(self.model_file)
        work = partial(_known_runs, in_force, known, self.sources.decisions, has_model)
        runs, signs, skipped = _read_runs(self.paths, settings, work, engine)
        learned, model = _certified(runs, signs if has_model else None, in_force, self.lost)
        noted = read_promises(store) if store else PromiseNote()
        tests = _tests(runs, in_force, noted)
        if self.writes:
            changes = changes_of(learned, tests, settings, noted, self.lost, self.spared)
            write_overrides(changes, model, self.model_file, settings, self.sources)
            note_promises(store, changes)
            say_what_tests(self.sources, self.spared)
        return skipped


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
    paths: Sequence[str], settings: Settings, work: Callable[[pl.DataFrame], _Known], engine: Engine
) -> tuple[list[Run], Mapping[str, RunSigns], Sequence[Skipped]]:
    """Return the runs of the input whose outcome is known, their signs, and what was skipped."""
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


def _own_store(paths: Sequence[str]) -> Path | None:
    """Return the folder of the store that the paths name, if it is no copy."""
    folder = traces.store_of(paths)
    return folder if folder and folder == Path(paths[0]) else None


def _outcomes(
    paths: Sequence[str], file: Path | None, sources: OutcomeSources
) -> Sequence[Outcome]:
    """Return the outcomes in the traces, and then those of the file, which go before."""
    found: list[Outcome] = []
    wanted = [each for each in (sources.by_evaluation, sources.by_attribute) if each]
    if not (file or sources.are_known):
        raise OutcomesError(
            "--lost needs outcomes: name them by --outcomes, --evaluation, --attribute or "
            "--decisions, or by [outcomes] in the settings."
        )
    if wanted:
        for spans in traces.span_tables(paths):
            found += outcomes_in(spans, sources.by_evaluation, sources.by_attribute)
        if not (found or file or sources.decisions):
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


def _tests(runs: Sequence[Run], in_force: Settings, noted: PromiseNote) -> Sequence[PromiseTest]:
    """Print, and return, whether the promises in force still hold; print those withdrawn before."""
    tests = [*promise_tests(runs, in_force.policy.rule_set, noted.since_ns)]
    print_tests(tests, [(each.at_ns, each.why) for each in noted.withdrawn], stdout_console())
    return tests


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
    replace_file(path, text or whole, keep=path.exists() and text is None)
