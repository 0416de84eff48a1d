"""`looptrace analyze`: find the loops in traces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.llm_judge import Opinions
from looptrace.analyzer.report.ci import (
    Loops,
    baseline_of,
    check_something_was_read,
    github_report,
    junit_report,
    known_text,
    markdown_report,
    sarif_report,
)
from looptrace.analyzer.report.pages import output_of
from looptrace.analyzer.report.terminal import print_report
from looptrace.analyzer.settings.given import selected
from looptrace.analyzer.settings.sections import Settings
from looptrace.cli import EXIT_FOUND, EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.engine_option import engine_of, engine_options
from looptrace.cli.shared.judge_option import judge_option, opinions
from looptrace.cli.shared.options import ignore_option, prices_option, select_option
from looptrace.collector.judge.plugins import judge_named
from looptrace.collector.store.objects.client import is_object_url

if TYPE_CHECKING:
    from looptrace.collector.store_analysis import KeptTurns

_OF_PIPELINES: Mapping[str, Callable[[Loops], str]] = MappingProxyType(
    {"junit": junit_report, "github": github_report, "markdown": markdown_report}
)
# Forms that show turns.
_WITH_TURNS = ("terminal", "html")
_WITHOUT_COSTS = "markdown"


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "json", "html", "junit", "sarif", "github", "markdown"]),
    default="terminal",
    show_default=True,
    help="Format of the report.",
)
@traces.output_option
@click.option(
    "--fail-on",
    type=click.Choice(["finding", "gate", "never"]),
    default="never",
    show_default=True,
    help="Exit with 1 if there is a finding that no outage explains, or if a gate was opened,"
    " even if it was resolved since.",
)
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Report of an earlier run (--format json); its loops do not count as failures.",
)
@prices_option()
@click.option(
    "--explain-span",
    "span_id",
    help="Show how the span with this id, or the start of one, is read, and by which keys.",
)
@select_option
@ignore_option
@traces.jobs_option
@engine_options
@judge_option
@config_option
@click.pass_context
def analyze(
    context: click.Context,
    paths: tuple[str, ...],
    form: str,
    output: Path | None,
    fail_on: str,
    baseline: Path | None,
    prices: Prices | None,
    span_id: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    jobs: int,
    engine: str,
    address: str | None,
    judge: str | None,
    settings: Settings,
) -> None:
    """Find the loops in PATHS: trace files, folders, globs, a store, or - for standard input.

    Exits with 0, with 1 as --fail-on says, and with 2 if some of the input could not be read,
    whatever was found in the rest, or if --fail-on has nothing to check.
    """
    if span_id is not None:
        _explain(paths, span_id, settings)
        context.exit()
    settings = selected(settings, select, ignore)
    known = None if baseline is None else baseline_of(baseline)
    table = _prices(prices, form, settings)
    asked = judge_named(judge, settings.judge)
    with engine_of(engine, address, paths) as evaluating:
        kept = _kept_turns(form, whole=bool(asked or table))
        analysis = traces.analysis(paths, settings, jobs, evaluating, kept)
    if table:
        analysis = _with_money(analysis, table)
    answers = opinions(asked, analysis, analysis.events, traces.store_of(paths))
    loops = Loops(analysis, known)
    must_check = fail_on != "never" and not analysis.skipped
    if form == "terminal" and output is None:
        if must_check:  # The report would only say the same.
            check_something_was_read(analysis)
        print_report(analysis, output_of(), answers)
    else:
        traces.write(_report(loops, answers, form, settings, _common(paths)), output)
    traces.warn_of(analysis.skipped)
    for sentence in known_text(loops):
        click.echo(sentence, err=True)
    if must_check:
        check_something_was_read(analysis)
    context.exit(_exit_code(loops, fail_on))


def _kept_turns(form: str, *, whole: bool) -> KeptTurns:
    if whole:
        return "all"
    return "shown" if form in _WITH_TURNS else "none"


def _explain(paths: Sequence[str], span_id: str, settings: Settings) -> None:
    # Few ask, and its tables need rich.
    from looptrace.cli.shared.span_readings import explain_spans  # noqa: PLC0415

    explain_spans(paths, span_id, settings.policy.dialects)


def _prices(given: Prices | None, form: str, settings: Settings) -> Prices | None:
    if given and form == _WITHOUT_COSTS:
        raise click.UsageError(f"--prices changes nothing: --format {form} shows no costs.")
    return given or settings.prices


def _with_money(analysis: Analysis, table: Prices) -> Analysis:
    # Few have prices.
    from looptrace.analyzer.tuning.loop_money import loop_money  # noqa: PLC0415

    return replace(analysis, money=loop_money(analysis.findings, analysis.turns, table))


def _common(paths: Sequence[str]) -> str:
    """Return the common path of all input: a loop may have its spans in several files."""
    if is_object_url(paths[0]):
        return paths[0]
    try:
        return os.path.commonpath(paths) or "."
    except ValueError:  # Some are absolute, and some are not.
        return "."


def _report(
    loops: Loops, answers: Opinions, form: str, settings: Settings, source: str
) -> str | Iterator[str]:
    # Each form has its modules, of which a report needs one.
    if form == "html":
        from looptrace.analyzer.report.html import html_report  # noqa: PLC0415

        return html_report(loops.analysis, answers)
    if form == "json":
        from looptrace.analyzer.report.json import json_report_parts  # noqa: PLC0415

        parts = json_report_parts(loops.analysis, answers, settings.directives)
        # A user's template may fail; then nothing is written.
        return parts if settings.directives.folder is None else "".join(parts)
    if form == "sarif":
        return sarif_report(loops, _uri(source))
    if form in _OF_PIPELINES:
        return _OF_PIPELINES[form](loops)
    page = StringIO()
    print_report(loops.analysis, output_of(page), answers)
    return page.getvalue()


def _uri(source: str) -> str:
    return source if is_object_url(source) else quote(PurePath(source).as_posix())


def _exit_code(loops: Loops, fail_on: str) -> int:
    if loops.analysis.skipped:
        return EXIT_UNREADABLE
    fails = (fail_on == "finding" and loops.new) or (fail_on == "gate" and loops.new_gates > 0)
    return EXIT_FOUND if fails else 0
