"""The command line: one command a file."""

from __future__ import annotations

import click

from looptrace import __version__
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
from looptrace.cli.train import train
from looptrace.cli.webhooks import webhooks


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="looptrace")
def main() -> None:
    """Find AI agents that are stuck in loops, in their OpenTelemetry traces."""


_COMMANDS = (
    *(analyze, explain, escalation, backtest, calibrate, train),
    *(ingest, serve, gates, webhooks, export, query, config),
)
for command in _COMMANDS:
    main.add_command(command)
