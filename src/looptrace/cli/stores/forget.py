"""`looptrace forget`: erase what a store has of a session, a task, a user or a service."""

import time
from collections.abc import Mapping
from pathlib import Path

import click

from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.display import plain
from looptrace.cli.config import config_option
from looptrace.cli.shared.gate_sources import server_at
from looptrace.cli.shared.stores import store_option
from looptrace.collector.api_bodies import ERASURE_KINDS, Erasure
from looptrace.collector.erasure import forgetting
from looptrace.collector.erasure.choice import Wanted
from looptrace.collector.erasure.forgetting import Found
from looptrace.collector.gates_client import RemoteGates
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.publishing.copying import copies_of

# The tables of the gates in the words of people.
_WORDS = {
    "aliases": "other ids",
    "attempts": "attempts of webhooks",
    "chat_messages": "ids of messages in chats",
    "incident_words": "words on incidents",
    "opinions": "opinions of the judge",
    "outbox": "unsent webhooks",
    "resolutions": "decisions",
    "session_names": "names of sessions",
    "task_aliases": "earlier names of tasks",
    "tasks": "states of tasks",
}
_SHOWN_MAX, _CHARS_MAX = 5, 300
# How often a server is asked whether it has erased, and for how long it may be away.
_LOOK_S, _ANSWER_S, _ERASING_S_MAX = 0.5, 30.0, 3_600.0


@click.command()
@store_option("served", "Folder of the store; stop its server first.", required=False)
@click.option(
    "--server",
    metavar="URL",
    help="Address of a running server, which restarts to erase. LOOPTRACE_TOKEN must be that of "
    "an admin.",
)
@click.option("--session", metavar="ID", help="Forget the traces of this session.")
@click.option("--task", metavar="ID", help="Forget the traces of this task.")
@click.option("--user", metavar="ID", help="Forget the traces that name this user.")
@click.option("--service", metavar="NAME", help="Forget the spans of this service.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@config_option
def forget(
    store: Path | None, server: str | None, settings: Settings, *, yes: bool, **named: str | None
) -> None:
    """Erase what a store has of a session, a task, a user or a service, for good.

    It erases spans, turns, findings, gates, decisions, notes and waiting webhooks, in the store's
    files and its log, and reads every file again to prove that nothing is left.
    """
    given = [Wanted(kind, named[kind] or "") for kind in ERASURE_KINDS if named[kind]]
    if len(given) != 1:
        raise click.UsageError("give one of --session, --task, --user and --service.")
    (wanted,) = given
    if (store is None) == (server is None):
        raise click.UsageError("name the store by --store, or its running server by --server.")
    if store is None:
        _forget_by(server or "", wanted, yes=yes)
    else:
        _forget_in(store, wanted, settings, yes=yes)


def _forget_in(store: Path, wanted: Wanted, settings: Settings, *, yes: bool) -> None:
    """Erase from a store that no server uses."""
    found = forgetting.find(store, wanted, settings.policy.dialects)
    copies = copies_of(store)
    if not (found.is_any or copies):
        raise click.UsageError(f"{store}: has nothing of the {wanted}.")
    click.echo(f"to be erased for good: {_text(found)}", err=True)
    for url in copies:
        click.echo(f"and what the copy at {url} has of it", err=True)
    if not yes:
        click.confirm("Erase it?", abort=True, err=True)
    # The copies come first: what is here says that they are to be looked at again.
    for url in forgetting.forget_in_copies(store, wanted, settings.policy):
        click.echo(f"{url}: erased")
    gone = forgetting.forget(store, wanted, settings.policy)
    click.echo(f"{store}: erased: {_text(gone)}; every file was read again, and nothing is left")


def _forget_by(url: str, wanted: Wanted, *, yes: bool) -> None:
    """Let a server erase, and wait until it has."""
    click.echo(f"to be erased for good: what {url} has of the {wanted}", err=True)
    click.echo("the server starts again for it; senders try again meanwhile", err=True)
    if not yes:
        click.confirm("Erase it?", abort=True, err=True)
    server = RemoteGates(server_at(url), timeout_s=_ANSWER_S)
    done = _waited_for(server, server.erase(wanted.kind, wanted.name).id)
    for copy in done.copies:
        click.echo(f"{copy}: erased")
    if done.state == "failed":
        raise StoreError(f"{url}: {done.error}")
    rows = _rows_text(done.rows) or "nothing"
    click.echo(f"{url}: erased: {rows}; every file was read again, and nothing is left")


def _waited_for(server: RemoteGates, erasure_id: str) -> Erasure:
    """Ask until the erasure has ended."""
    deadline_s = time.monotonic() + _ERASING_S_MAX
    while True:
        time.sleep(_LOOK_S)
        try:
            found = server.erasure(erasure_id)
        except StoreError:  # It is not there while it starts again.
            if time.monotonic() > deadline_s:
                raise
            continue
        if found.state != "asked":
            return found


def _rows_text(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{_WORDS.get(n, n)} {count:,}" for n, count in rows.items() if count)


def _text(found: Found) -> str:
    rows = [text] if (text := _rows_text(found.rows)) else []
    tasks, left = found.choice.tasks, found.choice.tasks_left
    of = [f"tasks {len(tasks):,} ({_listed(tasks)})"] if tasks else []
    also = [f"parts of tasks {len(left):,} ({_listed(left)})"] if left else []
    return ", ".join([*rows, *of, *also]) or "nothing"


def _listed(names: set[str]) -> str:
    shown = sorted(names)[:_SHOWN_MAX]
    return plain(", ".join([*shown, "..."] if len(names) > _SHOWN_MAX else shown), _CHARS_MAX)
