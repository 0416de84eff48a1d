"""`looptrace silences`: gates for which no webhook is sent for a while."""

import time

import click

from looptrace.analyzer.gates.silences import HOURS_MAX, Matchers
from looptrace.analyzer.report.pages import stdout_console
from looptrace.analyzer.report.tables import print_section
from looptrace.analyzer.report.wording import counted
from looptrace.analyzer.text.times import NS_PER_HOUR, utc_s
from looptrace.cli.shared.gate_sources import Servers, Stores, source_of, source_options
from looptrace.cli.shared.groups import CommandGroup
from looptrace.cli.shared.options import by_option, format_option, print_json


@click.group(cls=CommandGroup)
def silences() -> None:
    """Show, make and end silences.

    While a silence lasts, no webhook is sent for a gate that it matches. Agents still stop.
    """


@silences.command(name="list")
@source_options
@format_option
def list_silences(stores: Stores, servers: Servers, form: str) -> None:
    """List the silences that hold now, the first to end first."""
    listed = source_of(stores, servers).silences()
    if form == "json":
        print_json(listed)
    elif listed:
        for each in listed:
            by = f", by {each.who}" if each.who else ""
            head = f"{each.id}, until {utc_s(each.ends_ns)}{by}"
            held = f"{counted(each.held, 'gate')} held back"
            print_section(head, [each.matchers.text, each.why, held], stdout_console())
    else:
        click.echo("There is no silence.")


@silences.command()
@source_options
@click.option("--rule", default="", help="Only gates of this rule.")
@click.option("--tool", default="", help="Only gates of loops that call this tool.")
@click.option("--agent", default="", help="Only gates of this agent.")
@click.option("--service", default="", help="Only gates of this service (service.name).")
@click.option("--incident", default="", help="Only gates of the incident with this whole id.")
@click.option(
    "--hours",
    type=click.FloatRange(0, HOURS_MAX, min_open=True),
    required=True,
    help="How long it holds.",
)
@click.option("--why", required=True, help="The reason, for people.")
@by_option
def add(
    stores: Stores,
    servers: Servers,
    rule: str,
    tool: str,
    agent: str,
    service: str,
    incident: str,
    hours: float,
    why: str,
    who: str | None,
) -> None:
    """Make a silence. A gate must match all that is given."""
    ends_ns = time.time_ns() + int(hours * NS_PER_HOUR)
    matchers = Matchers(rule, tool, agent, service, incident)
    made = source_of(stores, servers).silence(matchers, ends_ns, why, who)
    click.echo(f"Silence {made.id}: {made.matchers.text}, until {utc_s(made.ends_ns)}.")


@silences.command()
@click.argument("silence_id", metavar="ID")
@source_options
def end(stores: Stores, servers: Servers, silence_id: str) -> None:
    """End the silence ID now. Webhooks hear of the gates that still wait."""
    source_of(stores, servers).end_silence(silence_id)
    click.echo(f"Silence {silence_id} has ended.")
