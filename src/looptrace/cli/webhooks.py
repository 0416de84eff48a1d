"""`looptrace webhooks`: test receivers, and manage the events for them."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.settings.webhook import FORMATS, Webhook
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.analyzer.text.times import utc_s
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.groups import CommandGroup
from looptrace.cli.shared.stores import store_option, written_store
from looptrace.collector.store.gate_file.attempts import ATTEMPTS_MAX, Attempt
from looptrace.collector.store.layout import gates_path
from looptrace.collector.store.outbox import Endpoint, Outbox
from looptrace.rules.vocabulary import NS_PER_S

EXIT_FAILED = 1
_LINE_LENGTH_MAX = 500
_NS_MAX = 2**63 - 1  # of a column, and so of any time that is in one
_VARIABLE = "LOOPTRACE_WEBHOOK_SECRET"


@click.group(cls=CommandGroup)
def webhooks() -> None:
    """Test receivers of webhooks; list, send and replay their events; show the log."""


@webhooks.command()
@click.argument("target", metavar="URL|NAME")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    help="Format of the sample for a URL.",
)
@click.option(
    "--secret",
    default=f"env:{_VARIABLE}",
    show_default=True,
    help="Place of the secret for a URL: env:VARIABLE or file:PATH.",
)
@click.option(
    "--allow-private",
    multiple=True,
    metavar="NETWORK",
    help="Private network in which the receiver of a URL may be.",
)
@config_option
def test(
    target: str, form: str, secret: str, allow_private: tuple[str, ...], settings: Settings
) -> None:
    """Send a signed sample to a URL, or to the webhook NAME of the settings.

    Exits with 1 if it is not accepted.
    """
    with traces.needing("server", "sending"):
        from looptrace.collector.webhooks.chat_messages import answered  # noqa: PLC0415
        from looptrace.collector.webhooks.client import Http  # noqa: PLC0415
        from looptrace.collector.webhooks.endpoint_worker import receiver_of  # noqa: PLC0415
        from looptrace.collector.webhooks.sample import sample_event  # noqa: PLC0415

        webhook = (
            _given(target, form, secret, allow_private)
            if "://" in target
            else _named(target, settings.webhooks)
        )
        receiver = receiver_of(webhook, os.environ, settings.page)
        request = receiver.request(sample_event(), time.time_ns())
        answer = answered(webhook, asyncio.run(Http().send(request))).answer
    answer_text = f": {answer.text}" if answer.text else ""
    click.echo(f"{webhook.name}: {answer.error or f'accepted ({answer.status})'}{answer_text}")
    sys.exit(EXIT_FAILED if answer.error else 0)


@webhooks.command(name="list")
@store_option("read")
@config_option
def list_endpoints(store: Path, settings: Settings) -> None:
    """List the webhooks of the settings, and others for which a store had events, by state."""
    with Outbox.open(gates_path(store)) as outbox:
        endpoints = outbox.endpoints()
    known = {endpoint.name for endpoint in endpoints}
    endpoints += [Endpoint(each.name) for each in settings.webhooks if each.name not in known]
    for endpoint in endpoints:
        click.echo(_line(endpoint))
    if not endpoints:
        click.echo("The settings have no webhooks, and no event was queued for one.")


@webhooks.command()
@store_option("written")
@config_option
def send(store: Path | str, settings: Settings) -> None:
    """Send the events of a store that are due now, and end; for use without a server.

    Exits with 1 if an event was not accepted; a later send tries it again.
    """
    with traces.needing("server", "sending"):
        from looptrace.collector.webhooks.dispatcher import deliver_due, receivers_of  # noqa: PLC0415

    with written_store(store) as store_dir:
        path = gates_path(store_dir)
        receivers = receivers_of(path, settings.webhooks, os.environ, settings.page)
        if not receivers:
            raise click.UsageError("the settings have no webhooks; see docs/webhooks.md.")
        results = deliver_due(path, receivers)
        with Outbox.open(path) as outbox:
            disabled = [each for each in outbox.endpoints() if each.disabled_ns is not None]
    for (name, result), count in sorted(results.items()):
        if count:
            click.echo(f"{name}: {result} {count}")
    for endpoint in disabled:
        click.echo(_line(endpoint), err=True)
    failed = any(count for (_, result), count in results.items() if result == "failed")
    sys.exit(EXIT_FAILED if failed else 0)


@webhooks.command()
@click.argument("endpoint", metavar="[NAME]", required=False)
@store_option("read")
@click.option("--event", metavar="ID", help="Only attempts to send this event.")
@click.option("--failed", is_flag=True, help="Only attempts that failed.")
@click.option(
    "--limit",
    type=click.IntRange(1, ATTEMPTS_MAX),
    default=50,
    show_default=True,
    help="Attempts to list.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each attempt.")
def log(
    endpoint: str | None, store: Path, event: str | None, failed: bool, limit: int, as_json: bool
) -> None:
    """List the latest attempts to deliver, the newest first: to all endpoints, or to NAME.

    The log has 10,000 attempts of each endpoint, of the last 30 days.
    """
    with Outbox.open(gates_path(store)) as outbox:
        _check_name(endpoint, outbox)
        attempts = outbox.attempts(endpoint, event, failed=failed, limit=limit)
    for attempt in attempts:
        click.echo(msgspec.json.encode(attempt).decode() if as_json else _attempt_line(attempt))
    if not attempts and not as_json:
        click.echo("The log has no such attempt.")


@webhooks.command()
@click.argument("event", metavar="[EVENT]", required=False)
@store_option("written")
@click.option("--endpoint", help="Only for this endpoint.")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    help="Only events that were tried or given up since this time, in UTC.",
)
@click.option("--all", "accepted", is_flag=True, help="Also events that were accepted.")
def replay(
    event: str | None,
    store: Path | str,
    endpoint: str | None,
    since: datetime | None,
    accepted: bool,
) -> None:
    """Queue dead letters of a store to be sent again, or one EVENT that the log names.

    An event keeps its webhook-id, by which receivers know it.
    """
    if event and (since or accepted):
        raise click.UsageError(
            "EVENT is sent again, whatever its state; leave the other options out."
        )
    since_s = round(since.replace(tzinfo=UTC).timestamp()) if since else 0
    since_ns, now_ns = min(since_s * NS_PER_S, _NS_MAX), time.time_ns()
    with written_store(store) as store_dir, Outbox.open(gates_path(store_dir)) as outbox:
        _check_name(endpoint, outbox)
        if event is None:
            count = outbox.replay(endpoint, since_ns, now_ns, accepted=accepted)
        elif not (count := outbox.resend(event, endpoint, now_ns)):
            to = f" to {endpoint}" if endpoint else ""
            raise click.UsageError(
                f"the log has no attempt to send {event}{to}; `looptrace webhooks log` has the ids."
            )
    click.echo(f"{count} to be sent again")


@webhooks.command()
@click.argument("endpoint", metavar="NAME")
@store_option("written")
@config_option
def enable(endpoint: str, store: Path | str, settings: Settings) -> None:
    """Enable the endpoint NAME of a store again after it was disabled; the others are notified."""
    with written_store(store) as store_dir, Outbox.open(gates_path(store_dir)) as outbox:
        _check_name(endpoint, outbox)
        outbox.enable(endpoint, time.time_ns(), settings.webhooks)
    click.echo(f"{endpoint} is enabled; dead letters come back with `looptrace webhooks replay`.")


def _given(url: str, form: str, secret: str, allow_private: tuple[str, ...]) -> Webhook:
    format_name = next(format_name for format_name in FORMATS if format_name == form)
    return Webhook("test", url, format_name, (secret,), allow_private=allow_private)


def _named(name: str, webhooks: Sequence[Webhook]) -> Webhook:
    for webhook in webhooks:
        if webhook.name == name:
            return webhook
    names = [webhook.name for webhook in webhooks]
    if not names:
        raise click.UsageError("the settings have no [[webhooks]]; add one, or give a URL.")
    raise click.UsageError(f"there is no webhook {name!r}. {did_you_mean(name, names)}")


def _check_name(name: str | None, outbox: Outbox) -> None:
    names = [endpoint.name for endpoint in outbox.endpoints()]
    if name is not None and name not in names:
        raise click.UsageError(f"there is no endpoint {name!r}. {did_you_mean(name, names)}")


def _attempt_line(attempt: Attempt) -> str:
    result = attempt.error or f"accepted ({attempt.status})"
    about = f"{attempt.type.replace('_', ' ')} {attempt.event}"
    gate = f", gate {attempt.gate}" if attempt.gate else ""
    line = f"{utc_s(attempt.at_ns)} {attempt.endpoint}: {about}{gate}: {result}, {attempt.ms} ms"
    return plain(line, _LINE_LENGTH_MAX)


def _line(endpoint: Endpoint) -> str:
    counts = (
        f"pending {endpoint.pending}, dead {endpoint.dead}, delivered {endpoint.delivered}, "
        f"dropped {endpoint.dropped}"
        + (f", silenced {endpoint.silenced}" if endpoint.silenced else "")
    )
    state = ""
    if endpoint.disabled_ns is not None:
        state = f"; disabled since {utc_s(endpoint.disabled_ns)}: {endpoint.disabled_why}"
    elif endpoint.failing_ns is not None:
        state = f"; failing since {utc_s(endpoint.failing_ns)}: {endpoint.error}"
    return plain(f"{endpoint.name}: {counts}{state}", _LINE_LENGTH_MAX)
