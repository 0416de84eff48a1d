"""`looptrace incidents`: the same loop in many sessions, as one, and people's words about it."""

import time

import click

from looptrace.analyzer.detect.counters import DAY_S
from looptrace.analyzer.gates.decisions import DECISIONS
from looptrace.analyzer.gates.incidents import SAID, STATES, IncidentState, IncidentWord
from looptrace.analyzer.report.backtest_report import trial_remarks
from looptrace.analyzer.report.pages import stdout_console
from looptrace.analyzer.report.tables import print_pairs, print_section
from looptrace.analyzer.report.wording import counted, versions_text
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.times import NS_PER_HOUR, utc_s
from looptrace.analyzer.tuning.exceptions import TrialPart, exception_lines, exceptions_of, trial_of
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.gate_sources import (
    Servers,
    Stores,
    effect_text,
    source_of,
    source_options,
)
from looptrace.cli.shared.groups import CommandGroup
from looptrace.cli.shared.options import by_option, format_option, print_json
from looptrace.collector.store.gate_file.incidents import Incident, IncidentDetails
from looptrace.errors import InputError
from looptrace.rules.vocabulary import NS_PER_S

HOURS_MAX = 24 * 366
DAYS_MAX = 366
_GATES_SHOWN_MAX = 20


@click.group(cls=CommandGroup)
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
    listed = source_of(stores, servers).incidents(state)
    if not (every or state):
        listed = [each for each in listed if each.state != "resolved"]
    if form == "json":
        print_json(listed)
    elif listed:
        console = stdout_console()
        for each in listed:
            print_section(f"{each.id}, {_state(each)}", [each.title, _whose(each)], console)
    else:
        click.echo("There is no incident." if every else "No incident is open; --all shows all.")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@source_options
@format_option
def show(stores: Stores, servers: Servers, incident_id: str, form: str) -> None:
    """Show the incident ID: its gates, what they cost, and the notes that ended some."""
    details = source_of(stores, servers).incident(incident_id)
    if form == "json":
        print_json(details)
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
    until_ns = None if hours is None else now_ns + int(hours * NS_PER_HOUR)
    word = IncidentWord(now_ns, state, until_ns, owner, who, why)
    said = source_of(stores, servers).say(incident_id, word)
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
    gates = source_of(stores, servers).resolve_incident(incident_id, decision, note, who)
    effect = effect_text(stores, "Agents that wait receive it now.")
    click.echo(f"{counted(len(gates), 'gate')} resolved: {decision}. {effect}")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@source_options
@click.option(
    "--days",
    type=click.IntRange(0, DAYS_MAX),
    default=7,
    show_default=True,
    help="Days of the stores over which the lines are tried; 0 for none.",
)
@config_option
def exception(
    stores: Stores, servers: Servers, incident_id: str, days: int, settings: Settings
) -> None:
    """Print the lines for looptrace.toml that keep the incident ID from opening gates.

    They turn the rules of its gates off for its agent, its tool and its signature. A comment says
    which gates of the last days they would have ended; a server's store is tried with --store.
    """
    source = source_of(stores, servers)
    details = source.incident(incident_id)
    exceptions = exceptions_of(details.loop, settings.policy.rule_set)
    if not exceptions:
        raise InputError("no override can name this loop: it has no tool, agent or signature.")
    remarks: list[str] = []
    if stores and days:
        since_ns = max(each.last_ns for each in source.incidents()) - days * DAY_S * NS_PER_S
        trial = TrialPart(settings, tuple(exceptions), since_ns)
        parts = (
            part
            for store in stores
            for part in traces.work_on([str(store)], settings, trial, map)[0]
        )
        own = {(gate.task, gate.rule) for gate in details.gates}
        with traces.working():
            remarks = trial_remarks(trial_of(parts, own), days)
    click.echo(exception_lines(exceptions, details.incident.signature, remarks), nl=False)


def _state(incident: Incident) -> str:
    until = f" until {utc_s(incident.until_ns)}" if incident.until_ns else ""
    owner = f", owner {incident.owner}" if incident.owner else ""
    return f"{incident.state.replace('_', ' ')}{until}{owner}"


def _whose(incident: Incident) -> str:
    agent = f"agent {incident.agent}, " if incident.agent else ""
    service = f"service {incident.service}, " if incident.service else ""
    gates = f"{incident.gates_open} of {counted(incident.gates, 'gate')} open"
    versions = versions_text(incident.versions, incident.resolved_in, incident.back_in)
    times = f"since {utc_s(incident.first_ns)}, last {utc_s(incident.last_ns)}"
    tasks = counted(incident.tasks, "task")
    parts = (gates, tasks, times, *([versions] if versions else []), incident.cost_text)
    return agent + service + ", ".join(parts)


def _print_details(details: IncidentDetails) -> None:
    incident, console = details.incident, stdout_console()
    about = [
        ("state", _state(incident)),
        *([("set by", incident.said_by)] if incident.said_by else []),
        *([("why", incident.why)] if incident.why else []),
        ("repeats", incident.title),
        ("gates by", ", ".join(sorted(details.loop.rules))),
        ("tool", incident.tool or "-"),
        ("signature", incident.signature or "-"),
        ("agent", incident.agent or "-"),
        ("service", incident.service or "-"),
        *([("versions", ", ".join(incident.versions))] if incident.versions else []),
        *([("resolved in", incident.resolved_in)] if incident.resolved_in else []),
        *([("back in", incident.back_in)] if incident.back_in else []),
        ("since", utc_s(incident.first_ns)),
        ("last", utc_s(incident.last_ns)),
        ("tasks", str(incident.tasks)),
        ("cost", incident.cost_text),
    ]
    gates = [
        f"{gate.id}, {gate.decision or gate.status}, {utc_s(gate.opened_ns)}, task {gate.task}"
        + (f", version {gate.service_version}" if gate.service_version else "")
        for gate in details.gates[:_GATES_SHOWN_MAX]
    ]
    notes = [
        f"{utc_s(note.resolved_ns)} {note.decision or 'message'}: {note.note}"
        for note in details.notes
    ]
    mistaken = sum(gate.decision == "not_a_loop" for gate in details.gates)
    if mistaken:
        command = f"`looptrace incidents exception {incident.id}` prints an exception"
        about.append(("no loop", f"{counted(mistaken, 'gate')} called no loop; {command}"))
    print_section(f"incident {incident.id}", (), console)
    print_pairs(about, console)
    title = f"gates, {incident.gates_open} of {incident.gates} open"
    for head, lines in ((title, gates), ("notes that worked before", notes)):
        if lines:
            console.print()
            print_section(head, lines, console)
