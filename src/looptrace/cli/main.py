"""The command line: one command a file."""

from __future__ import annotations

from typing import Any

import click

from looptrace import __version__
from looptrace.analyzer.text.display import plain
from looptrace.cli.analyze import analyze
from looptrace.cli.backtest import backtest
from looptrace.cli.calibrate import calibrate
from looptrace.cli.config import config
from looptrace.cli.escalation import escalation
from looptrace.cli.explain import explain
from looptrace.cli.export import export
from looptrace.cli.gates import gates
from looptrace.cli.ingest import ingest
from looptrace.cli.query import query
from looptrace.cli.serve import serve
from looptrace.cli.traces import EXIT_UNREADABLE
from looptrace.cli.train import train
from looptrace.cli.webhooks import webhooks
from looptrace.errors import LooptraceError

_ERROR_CHARS_MAX = 500


class _Commands(click.Group):
    """The commands; each error of looptrace ends one with a line on stderr and exit code 2."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except LooptraceError as error:
            click.echo(f"Error: {plain(str(error), _ERROR_CHARS_MAX)}", err=True)
            context.exit(EXIT_UNREADABLE)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="looptrace")
def main() -> None:
    """Find AI agents that are stuck in loops, in their OpenTelemetry traces."""


_COMMANDS = (
    *(analyze, explain, escalation, backtest, calibrate, train),
    *(ingest, serve, gates, webhooks, export, query, config),
)
for command in _COMMANDS:
    main.add_command(command)
