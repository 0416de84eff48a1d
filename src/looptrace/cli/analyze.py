"""`looptrace analyze`: find the loops in traces."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from looptrace.analyzer.findings import Analysis
from looptrace.analyzer.report_html import html_report
from looptrace.analyzer.report_json import json_report
from looptrace.analyzer.report_terminal import print_report
from looptrace.analyzer.settings import Settings
from looptrace.cli import traces
from looptrace.cli.config import config_option


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
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write the report to, instead of standard output.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["finding", "gate", "never"]),
    default="never",
    show_default=True,
    help="Exit with 1 where there is a finding, or one that asks for a gate.",
)
@config_option
@click.pass_context
def analyze(
    context: click.Context,
    paths: tuple[str, ...],
    form: str,
    output: Path | None,
    fail_on: str,
    settings: Settings,
) -> None:
    """Find the loops in PATHS: trace files, folders, globs, a store, or - for standard input.

    Exits with 0; with 1 as --fail-on says; and with 2 if some of the input could not be read,
    whatever was found in the rest.
    """
    found = traces.analysis(paths, settings.judging)
    _write(found, form, output)
    if form != "terminal" or output:
        traces.warn_of(found.skipped)
    context.exit(_exit_code(found, fail_on))


def _write(found: Analysis, form: str, output: Path | None) -> None:
    if form == "terminal" and output is None:
        print_report(found, Console())
        return
    if form == "terminal":
        console = Console(record=True, quiet=True)
        print_report(found, console)
        text = console.export_text()
    else:
        text = json_report(found) if form == "json" else html_report(found)
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}.") from error
    click.echo(f"The report lies in {output}.", err=True)


def _exit_code(found: Analysis, fail_on: str) -> int:
    if found.skipped:
        return traces.EXIT_UNREADABLE
    actions = {finding.action for finding in found.findings}
    fails = {"finding": bool(actions), "gate": "gate" in actions, "never": False}
    return traces.EXIT_FOUND if fails[fail_on] else 0
