"""The option with which commands ask a judge about gates without an exact match."""

from collections.abc import Sequence
from pathlib import Path

import click

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import Judge, NoOpinion, Opinion, Opinions, opinions_of
from looptrace.cli.shared import traces

judge_option = click.option(
    "--judge",
    help="Judge of gates without an exact match: `chat`, a model behind the "
    "endpoint in [judge] or LOOPTRACE_JUDGE_URL; the name of a plug-in; or `none`. By default "
    "`chat` if the settings have [judge]. Its opinion is shown, and decides nothing here.",
)


def opinions(
    judge: Judge | None, analysis: Analysis, events: Sequence[GateEvent], store: Path | None
) -> Opinions:
    """Return the opinions of a judge about the gates of an analysis.

    Opinions that a store has recorded are used; the judge, if there is one, is asked about the
    other gates.
    """
    known = _recorded(store)
    events = [event for event in events if event.gate not in known]
    if judge is None:
        return known
    with traces.working("asking the judge"):
        return {**known, **opinions_of(judge, analysis, events)}


def _recorded(store: Path | None) -> dict[str, Opinion | NoOpinion]:
    if store is None:
        return {}
    from looptrace.collector.store.reader import open_gates  # noqa: PLC0415 - Files have no store.

    with open_gates(store) as gates:
        return gates.opinions()
