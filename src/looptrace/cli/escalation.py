"""`looptrace escalation`: a report on a gate, for a person or a debugging agent."""

from collections.abc import Sequence
from pathlib import Path

import click

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.report.escalation import PastNote, escalation_of
from looptrace.analyzer.report.escalation_markdown import escalation_json, escalation_markdown
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.session_names import session_task
from looptrace.analyzer.text.task_lookup import some_shown
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.judge_option import judge_option, opinions
from looptrace.collector.judge.plugins import judge_named
from looptrace.collector.store import reader

_NAME_LENGTH_MAX = 60
_GATES_SHOWN_MAX = 10


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--task", help="Id of the task or its session; the last gate of the task is used.")
@click.option(
    "--gate", help="Id of a gate or its first characters, as in `looptrace analyze --format json`."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "json"]),
    default="md",
    show_default=True,
    help="Format of the report.",
)
@traces.output_option
@judge_option
@config_option
@click.pass_context
def escalation(
    context: click.Context,
    paths: tuple[str, ...],
    task: str | None,
    gate: str | None,
    form: str,
    output: Path | None,
    judge: str | None,
    settings: Settings,
) -> None:
    """Report on one gate in PATHS: the repeated turns, the history, and the possible decisions.

    The report needs no other context, so you can give it to a debugging agent. It quotes calls and
    results.
    """
    asked = judge_named(judge, settings.judge)
    analysis = traces.analysis(paths, settings)
    traces.warn_of(analysis.skipped)
    event = _chosen(analysis, task, gate)
    finding = next(finding for finding in analysis.findings if finding.id == event.finding)
    answers = opinions(asked, analysis, [event], traces.store_of(paths))
    report = escalation_of(
        event,
        finding,
        analysis.turns,
        analysis.events,
        opinion=answers.get(event.gate),
        notes=_notes(paths, event, settings.policy.rule_set.meaning),
    )
    text = (
        escalation_json(report, settings.directives)
        if form == "json"
        else escalation_markdown(report)
    )
    traces.write(text, output)
    context.exit(EXIT_UNREADABLE if analysis.skipped else 0)


def _notes(paths: Sequence[str], gate: GateEvent, meaning: Meaning | None) -> list[PastNote]:
    """Return the notes with which people resolved similar gates before, from a store."""
    folder = traces.store_of(paths)
    if folder is None:
        return []
    with reader.open_gates(folder) as gates:
        return [PastNote.of(note) for note in gates.notes(gate, meaning)]


def _chosen(analysis: Analysis, task: str | None, gate: str | None) -> GateEvent:
    """Find the gate that is meant, or end the command and list the gates."""
    gates = [event for event in analysis.events if event.type == "gate_opened"]
    if not gates:
        raise click.UsageError(
            "no gate was opened in the input; `looptrace analyze` shows its loops."
        )
    of_id = [e for e in gates if e.gate == gate] or [
        e for e in gates if gate is None or (gate and str(e.gate).startswith(gate))
    ]
    tasks = {task, *session_task(task, {event.task for event in gates})} if task else None
    meant = [event for event in of_id if tasks is None or event.task in tasks]
    # The last gate of a task is meant, unless ids begin alike.
    if len({event.gate if gate else event.task for event in meant}) == 1:
        return meant[-1]
    some = meant or gates
    shown = [
        f"{event.gate} (task {plain(event.task, _NAME_LENGTH_MAX)}, turn {event.turn})"
        for event in some[:_GATES_SHOWN_MAX]
    ]
    asked = f" {plain(gate, _NAME_LENGTH_MAX)!r}" if gate else ""
    asked += f" of task {plain(task, _NAME_LENGTH_MAX)!r}" if task else ""
    advice = "name one by --task or --gate" if meant else f"there is no gate{asked}"
    raise click.UsageError(f"{advice}; {some_shown(shown, len(some))}.")
