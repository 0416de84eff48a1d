"""`looptrace demo`: the loops of the example traces, which ship with looptrace."""

from __future__ import annotations

from pathlib import Path

import click

import looptrace
from looptrace.analyzer.report.tables import stdout_console
from looptrace.analyzer.report.terminal import print_report
from looptrace.analyzer.settings.sections import default
from looptrace.cli.shared import traces

TRACES = Path(looptrace.__file__).parent / "demo_traces"


@click.command()
def demo() -> None:
    """Find the loops in the example traces that ship with looptrace, by the default settings."""
    print_report(traces.analysis([str(TRACES)], default()), stdout_console())
    click.echo(f"\nThese traces are in {TRACES}; `looptrace analyze PATH` reads your own.")
