"""The option by which commands ask a judge about gates that stand on no exact match."""

from __future__ import annotations

from collections.abc import Sequence

import click

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import NOBODY_ASKED, Judge, Opinions, opinions_of
from looptrace.cli import traces
from looptrace.collector.judge.plugins import NO_JUDGE, judge_named


def _named(_context: click.Context, _option: click.Parameter, name: str) -> Judge | None:
    """Find the judge before anything is read."""
    return judge_named(name)


judge_option = click.option(
    "--judge",
    callback=_named,
    default=NO_JUDGE,
    show_default=True,
    help="Whom to ask about gates that stand on no exact match: `chat`, a model behind the "
    "endpoint in LOOPTRACE_JUDGE_URL, or the name of a plug-in. "
    "What it says is shown, and decides nothing.",
)


def opinions(judge: Judge | None, found: Analysis, events: Sequence[GateEvent]) -> Opinions:
    """Ask about the gates among events of an analysis; nobody where there is no judge."""
    if judge is None:
        return NOBODY_ASKED
    with traces.working("asking the judge"):
        return opinions_of(judge, found, events)
