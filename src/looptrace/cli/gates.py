"""`looptrace gates`: the gates of a store or a server, and people's decisions about them."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields

import click

from looptrace.analyzer.gates.decisions import DECISIONS
from looptrace.analyzer.gates.notes import Likeness, ResolutionNote
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.report.pages import stdout_console
from looptrace.analyzer.report.tables import number_text, print_numbers, print_pairs, print_section
from looptrace.analyzer.report.wording import reached_text
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import utc_s
from looptrace.cli.config import config_option
from looptrace.cli.shared.gate_sources import (
    Servers,
    Stores,
    effect_text,
    source_of,
    source_options,
)
from looptrace.cli.shared.groups import CommandGroup
from looptrace.cli.shared.options import by_option, format_option, print_json
from looptrace.collector.store.gate_file.stored_gates import GateDetails, StoredGate
from looptrace.collector.store.gate_metrics import AgentMetrics, GateMetrics

_CELL_LENGTH_MAX = 120
_LINE_LENGTH_MAX = 500
_AGENTS_SHOWN_MAX = 10
# The remark on a note of a loop that is not the same.
_OF_LIKE: Mapping[Likeness, str] = {
    "same": "",
    "type": " (loop of the same type)",
    "meaning": " (loop that means the same)",
    "words": " (loop in nearly the same words)",
}


@click.group(cls=CommandGroup)
def gates() -> None:
    """Show gates, and record people's decisions about them.

    ID is the id of a gate, or its first characters if no other id has them.
    """


@gates.command(name="list")
@source_options
@click.option("--all", "every", is_flag=True, help="Also gates that are no longer open.")
@format_option
def list_gates(stores: Stores, servers: Servers, every: bool, form: str) -> None:
    """List the open gates, the newest first."""
    gates = source_of(stores, servers).gates(None if every else "open")
    if not every:  # A decision counts from when it is made, also before it takes effect.
        gates = [gate for gate in gates if gate.decision is None]
    if form == "json":
        print_json(gates)
    elif gates:
        _print_gates(gates)
    else:
        click.echo("There is no gate." if every else "No gate is open; --all shows all gates.")


@gates.command()
@click.argument("gate_id", metavar="ID")
@source_options
@format_option
@config_option
def show(stores: Stores, servers: Servers, gate_id: str, form: str, settings: Settings) -> None:
    """Show the gate ID: why it opened, what failed before, and notes that worked.

    Notes of loops that only mean the same are shown if the settings compare meaning.
    """
    source = source_of(stores, servers, settings)
    details = source.gate(gate_id, settings.policy.rule_set.meaning)
    if form == "json":
        print_json(details)
    else:
        _print_details(details)


@gates.command()
@click.argument("gate_id", metavar="ID")
@source_options
@click.option("--decision", required=True, type=click.Choice(DECISIONS), help="Your decision.")
@click.option("--note", help="Note for the agent, and for people who get this loop again.")
@click.option(
    "--add",
    type=float,
    metavar="AMOUNT",
    help="What may be spent more, in tokens or money, if a budget of several tasks opened the gate;"
    " by default as much as its limit.",
)
@by_option
def resolve(
    stores: Stores,
    servers: Servers,
    gate_id: str,
    decision: str,
    note: str | None,
    add: float | None,
    who: str | None,
) -> None:
    """Resolve the gate ID, like a person's message to the agent.

    `continue` means with another approach; `not_a_loop` means that the gate was a mistake.
    """
    source = source_of(stores, servers)
    gate = source.resolve(gate_id, decision, note, who=who, add=add)
    effect = effect_text(stores, "An agent that waits receives it now.")
    task = plain(gate.task, _CELL_LENGTH_MAX)
    click.echo(f"Gate {gate.id} of task {task} is resolved: {decision}. {effect}")


@gates.command()
@source_options
@format_option
def metrics(stores: Stores, servers: Servers, form: str) -> None:
    """Print how often tasks of a store or a server loop, and how often they are stopped."""
    counts = source_of(stores, servers).metrics()
    if form == "json":
        print_json(counts)
    else:
        _print_metrics(counts)


def notice_line(notice: GateNotice) -> str:
    """Write an event in one line."""
    what = notice.type.replace("_", " ")
    by = f", {notice.rule}" if notice.rule else ""
    words = [notice.decision, notice.note] if notice.decision else [notice.reason]
    text = ": ".join(word for word in words if word)
    return plain(f"{what}: task {notice.task}{by}: {text}", _LINE_LENGTH_MAX)


def _print_gates(gates: Sequence[StoredGate]) -> None:
    for gate in gates:
        whose = f"task {gate.task}" + (f", agent {gate.agent}" if gate.agent else "")
        head = f"{gate.id}, {_status(gate)}, {utc_s(gate.opened_ns)}, {whose}"
        agent = [gate.agent_state.text] if gate.agent_state else []
        print_section(head, [f"when it opened: {gate.reason}", *agent], stdout_console())


def _print_details(details: GateDetails) -> None:
    gate, console = details.gate, stdout_console()
    about = [
        ("task", gate.task),
        ("agent", gate.agent or "-"),
        ("status", _status(gate)),
        *([("agent's state", gate.agent_state.text)] if gate.agent_state else []),
        *([("undecided", gate.unless_decided)] if gate.unless_decided else []),
        ("opened", f"{utc_s(gate.opened_ns)}, {reached_text(details.event)}"),
        ("why", f"{gate.why}; when it opened: {gate.reason}"),
        ("rule", gate.rule),
        ("signature", gate.signature),
        *([("resolved", utc_s(gate.resolved_ns))] if gate.resolved_ns is not None else []),
        *([("resolved by", gate.resolved_by)] if gate.resolved_by else []),
        *([("note", gate.note)] if gate.note else []),
    ]
    failures = [
        f"turn {past.turn}: {past.agent} {past.label}: {past.error or past.signature}"
        for past in details.event.history
    ]
    notes = [
        f"{utc_s(note.resolved_ns)} {note.decision or 'message'}{_of_like(note)}: {note.note}"
        for note in details.notes
    ]
    print_section(f"gate {gate.id}", (), console)
    print_pairs(about, console)
    for title, lines in (("failures before it", failures), ("notes that worked before", notes)):
        if lines:
            console.print()
            print_section(title, lines, console)


def _of_like(note: ResolutionNote) -> str:
    """Return how the loop of a note is like the one that is shown."""
    distance = "" if note.distance is None else f", distance {note.distance:.2f})"
    return _OF_LIKE[note.likeness].removesuffix(")" if distance else "") + distance


def _print_metrics(metrics: GateMetrics) -> None:
    names = [field.name for field in fields(metrics) if field.name != "agents"]
    console = stdout_console()
    print_pairs(
        ((name.replace("_", " "), number_text(getattr(metrics, name))) for name in names), console
    )
    columns = [field.name.replace("_", " ") for field in fields(AgentMetrics)]
    print_numbers(columns, map(astuple, metrics.agents[:_AGENTS_SHOWN_MAX]), console)


def _status(gate: StoredGate) -> str:
    return f"resolved: {gate.decision}" if gate.decision else gate.status
