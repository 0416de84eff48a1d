"""`looptrace forget`: erase what a store has of a session, a task, a user or a service."""

from __future__ import annotations

from pathlib import Path

import click

from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.display import plain
from looptrace.cli.config import config_option
from looptrace.cli.shared.stores import store_option
from looptrace.collector.erasure import forgetting
from looptrace.collector.erasure.choice import KINDS, Wanted
from looptrace.collector.erasure.forgetting import Found
from looptrace.collector.store.objects.copying import copies_of

# The tables of the gates in the words of people.
_WORDS = {
    "aliases": "other ids",
    "incident_words": "words on incidents",
    "opinions": "opinions of the judge",
    "outbox": "unsent webhooks",
    "resolutions": "decisions",
    "session_names": "names of sessions",
    "task_aliases": "earlier names of tasks",
    "tasks": "states of tasks",
}
_SHOWN_MAX, _CHARS_MAX = 5, 300


@click.command()
@store_option("served", "Folder of the store, whose server is stopped.")
@click.option("--session", metavar="ID", help="Forget the traces of this session.")
@click.option("--task", metavar="ID", help="Forget the traces of this task.")
@click.option("--user", metavar="ID", help="Forget the traces that name this user.")
@click.option("--service", metavar="NAME", help="Forget the spans of this service.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@config_option
def forget(store: Path, settings: Settings, *, yes: bool, **named: str | None) -> None:
    """Erase what a store has of a session, a task, a user or a service, for good.

    Spans, turns, findings, gates, decisions, notes and what waits for webhooks go, from the
    store's files and its log. Every file is read again to prove that nothing is left.
    """
    given = [Wanted(kind, named[kind] or "") for kind in KINDS if named[kind]]
    if len(given) != 1:
        raise click.UsageError("give one of --session, --task, --user and --service.")
    (wanted,) = given
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


def _text(found: Found) -> str:
    """Return in words what is erased."""
    rows = [f"{_WORDS.get(n, n)} {count:,}" for n, count in found.rows.items() if count]
    tasks, left = found.choice.tasks, found.choice.tasks_left
    of = [f"tasks {len(tasks):,} ({_listed(tasks)})"] if tasks else []
    also = [f"parts of tasks {len(left):,} ({_listed(left)})"] if left else []
    return ", ".join([*rows, *of, *also]) or "nothing"


def _listed(names: set[str]) -> str:
    shown = sorted(names)[:_SHOWN_MAX]
    return plain(", ".join([*shown, "..."] if len(names) > _SHOWN_MAX else shown), _CHARS_MAX)
