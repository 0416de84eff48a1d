"""`looptrace analyze`: find the loops in traces."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.llm_judge import Opinions
from looptrace.analyzer.report.html import html_report
from looptrace.analyzer.report.json import json_report
from looptrace.analyzer.report.terminal import print_report
from looptrace.analyzer.settings.sections import Settings
from looptrace.cli import EXIT_FOUND, EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.judge_option import judge_of, judge_option, opinions


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "json", "html"]),
    default="terminal",
    show_default=True,
    help="Form of the report.",
)
@traces.output_option
@click.option(
    "--fail-on",
    type=click.Choice(["finding", "gate", "never"]),
    default="never",
    show_default=True,
    help="Exit with 1 where there is a finding that no outage explains, or where a gate was opened,"
    " resolved since or not.",
)
@traces.jobs_option
@judge_option
@config_option
@click.pass_context
def analyze(
    context: click.Context,
    paths: tuple[str, ...],
    form: str,
    output: Path | None,
    fail_on: str,
    jobs: int,
    judge: str | None,
    settings: Settings,
) -> None:
    """Find the loops in PATHS: trace files, folders, globs, a store, or - for standard input.

    Exits with 0; with 1 as --fail-on says; and with 2 if some of the input could not be read,
    whatever was found in the rest.
    """
    asked = judge_of(judge, settings)
    analysis = traces.analysis(paths, settings, jobs)
    answers = opinions(asked, analysis, analysis.events, traces.store_of(paths))
    if form == "terminal" and output is None:
        print_report(analysis, Console(), answers)
    else:
        traces.write(_report(analysis, answers, form, settings), output)
    if form != "terminal" or output:
        traces.warn_of(analysis.skipped)
    context.exit(_exit_code(analysis, fail_on))


def _report(analysis: Analysis, answers: Opinions, form: str, settings: Settings) -> str:
    if form == "json":
        return json_report(analysis, answers, settings.directives)
    if form == "html":
        return html_report(analysis, answers)
    console = Console(record=True, quiet=True)
    print_report(analysis, console, answers)
    return console.export_text()


def _exit_code(analysis: Analysis, fail_on: str) -> int:
    if analysis.skipped:
        return EXIT_UNREADABLE
    gated = any(event.type == "gate_opened" for event in analysis.events)
    fails = {"finding": bool(analysis.own), "gate": gated, "never": False}
    return EXIT_FOUND if fails[fail_on] else 0
