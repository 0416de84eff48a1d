"""`looptrace incidents`: the same loop in many sessions, as one, and people's words about it."""

from __future__ import annotations

import time
from typing import Any

import click
import msgspec

from looptrace.analyzer.detect.findings import Cost
from looptrace.analyzer.gates.decisions import DECISIONS
from looptrace.analyzer.gates.incidents import SAID, STATES, IncidentState, IncidentWord
from looptrace.analyzer.report.tables import print_pairs, print_section, stdout_console
from looptrace.analyzer.report.wording import counted, loop_cost_text
from looptrace.analyzer.text.times import utc_s
from looptrace.analyzer.tuning.exceptions import exception_lines
from looptrace.cli.shared.gate_sources import Servers, Stores, source_options
from looptrace.cli.shared.incident_sources import incidents_of
from looptrace.cli.shared.output import by_option, format_option
from looptrace.collector.store.gate_file.incidents import Incident, IncidentDetails
from looptrace.errors import InputError
from looptrace.rules.vocabulary import NS_PER_S

HOURS_MAX = 24 * 366
_HOUR_NS = 3_600 * NS_PER_S
_GATES_SHOWN_MAX = 20


@click.group()
def incidents() -> None:
    """Show incidents, set their state, and decide on all gates of one.

    An incident is the same loop in any number of tasks and sessions. ID is its id, or the first
    characters.
    """


@incidents.command(name="list")
@source_options
@click.option("--all", "every", is_flag=True, help="Also incidents that are resolved.")
@click.option("--state", type=click.Choice(STATES), help="Only incidents in this state.")
@format_option
def list_incidents(
    stores: Stores, servers: Servers, every: bool, state: IncidentState | None, form: str
) -> None:
    """List the incidents, those that need somebody first."""
    listed = incidents_of(stores, servers).incidents(state)
    if not (every or state):
        listed = [each for each in listed if each.state != "resolved"]
    if form == "json":
        _print_json(listed)
    elif listed:
        console = stdout_console()
        for each in listed:
            print_section(f"{each.id}, {_state(each)}", [each.reason, _whose(each)], console)
    else:
        click.echo("There is no incident." if every else "No incident is open; --all shows all.")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@source_options
@format_option
def show(stores: Stores, servers: Servers, incident_id: str, form: str) -> None:
    """Show the incident ID: its gates, what they cost, and the notes that ended some."""
    details = incidents_of(stores, servers).incident(incident_id)
    if form == "json":
        _print_json(details)
    else:
        _print_details(details)


@incidents.command(name="set")
@click.argument("incident_id", metavar="ID")
@source_options
@click.option("--state", type=click.Choice(SAID), help="Its state from now on.")
@click.option(
    "--hours",
    type=click.FloatRange(0, HOURS_MAX, min_open=True),
    help="How long it is muted; needed for `muted`.",
)
@click.option("--owner", help="Its owner from now on; empty for nobody.")
@click.option("--why", help="The reason, for people.")
@by_option
def set_incident(
    stores: Stores,
    servers: Servers,
    incident_id: str,
    state: IncidentState | None,
    hours: float | None,
    owner: str | None,
    why: str | None,
    who: str | None,
) -> None:
    """Set the state or the owner of the incident ID. Its gates stay as they are."""
    now_ns = time.time_ns()
    until_ns = None if hours is None else now_ns + int(hours * _HOUR_NS)
    word = IncidentWord(now_ns, state, until_ns, owner, who, why)
    said = incidents_of(stores, servers).say(incident_id, word)
    click.echo(f"Incident {said.id}: {_state(said)}.")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@source_options
@click.option("--decision", required=True, type=click.Choice(DECISIONS), help="Your decision.")
@click.option("--note", help="Note for the agents, and for people who get this loop again.")
@by_option
def decide(
    stores: Stores,
    servers: Servers,
    incident_id: str,
    decision: str,
    note: str | None,
    who: str | None,
) -> None:
    """Resolve all open gates of the incident ID with one decision.

    Each gate is resolved as by `looptrace gates resolve`. A gate that opens later waits again.
    """
    gates = incidents_of(stores, servers).resolve_incident(incident_id, decision, note, who)
    effect = (
        "It takes effect with the next `looptrace ingest` into this store, or at once in a server."
        if stores
        else "The agents receive it now."
    )
    click.echo(f"{counted(len(gates), 'gate')} resolved: {decision}. {effect}")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@source_options
def exception(stores: Stores, servers: Servers, incident_id: str) -> None:
    """Print the lines for looptrace.toml after which the incident ID opens no gate.

    They turn the rules of its gates off for its tools and its agent. `looptrace backtest` says what
    else they would end.
    """
    lines = _exception(incidents_of(stores, servers).incident(incident_id))
    if not lines:
        raise InputError("no override can name this loop: it has neither a tool nor an agent.")
    click.echo(lines, nl=False)


def _exception(details: IncidentDetails) -> str:
    incident = details.incident
    rules = {gate.rule for gate in details.gates}
    return exception_lines(rules, incident.agent, incident.tools, incident.signature)


def _print_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def _state(incident: Incident) -> str:
    until = f" until {utc_s(incident.until_ns)}" if incident.until_ns else ""
    owner = f", owner {incident.owner}" if incident.owner else ""
    return f"{incident.state.replace('_', ' ')}{until}{owner}"


def _whose(incident: Incident) -> str:
    agent = f"agent {incident.agent}, " if incident.agent else ""
    service = f"service {incident.service}, " if incident.service else ""
    gates = f"{incident.gates_open} of {counted(incident.gates, 'gate')} open"
    times = f"since {utc_s(incident.first_ns)}, last {utc_s(incident.last_ns)}"
    return f"{agent}{service}{gates}, {counted(incident.tasks, 'task')}, {times}, {_cost(incident)}"


def _cost(incident: Incident) -> str:
    return loop_cost_text(Cost(incident.seconds, incident.input_tokens, incident.output_tokens))


def _print_details(details: IncidentDetails) -> None:
    incident, console = details.incident, stdout_console()
    about = [
        ("state", _state(incident)),
        *([("set by", incident.said_by)] if incident.said_by else []),
        *([("why", incident.why)] if incident.why else []),
        ("repeats", incident.reason),
        ("rules", incident.family),
        ("tool", incident.tool or "-"),
        ("signature", incident.signature or "-"),
        ("agent", incident.agent or "-"),
        ("service", incident.service or "-"),
        ("since", utc_s(incident.first_ns)),
        ("last", utc_s(incident.last_ns)),
        ("tasks", str(incident.tasks)),
        ("cost", _cost(incident)),
    ]
    gates = [
        f"{gate.id}, {gate.decision or gate.status}, {utc_s(gate.opened_ns)}, task {gate.task}"
        for gate in details.gates[:_GATES_SHOWN_MAX]
    ]
    notes = [
        f"{utc_s(note.resolved_ns)} {note.decision or 'message'}: {note.note}"
        for note in details.notes
    ]
    mistaken = sum(gate.decision == "not_a_loop" for gate in details.gates)
    if mistaken and _exception(details):
        command = f"`looptrace incidents exception {incident.id}` prints the lines that except it"
        about.append(("no loop", f"said of {counted(mistaken, 'gate')}; {command}"))
    print_section(f"incident {incident.id}", (), console)
    print_pairs(about, console)
    title = f"gates, {incident.gates_open} of {incident.gates} open"
    for head, lines in ((title, gates), ("notes that worked before", notes)):
        if lines:
            console.print()
            print_section(head, lines, console)
