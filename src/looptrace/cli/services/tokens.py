"""`looptrace tokens`: make, list and revoke the tokens of a server."""

from datetime import datetime
from pathlib import Path
from typing import cast

import click

from looptrace.analyzer.text.display import plain
from looptrace.cli.shared.groups import CommandGroup
from looptrace.collector.server.tokens.roles import MEANING, ROLES, Role
from looptrace.collector.server.tokens.token_file import (
    FIELDS,
    Holder,
    add_token,
    read_tokens,
    revoke_token,
)

_NAME_CHARS_MAX = 100
_RELOAD = "a running server takes it on SIGHUP (`systemctl reload`)"

_file_option = click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file that `serve --token-file` names.",
)


@click.group(cls=CommandGroup)
def tokens() -> None:
    """Make, list and revoke the tokens of a server, each with a name, a role and an end.

    An agent sends spans and follows its gates; a viewer looks at everything; a decider also
    decides on gates; an admin does everything. A token with services is for their tasks alone.
    """


@tokens.command()
@click.argument("name")
@_file_option
@click.option("--role", type=click.Choice(ROLES), required=True, help="What it allows.")
@click.option(
    "--until", type=click.DateTime(["%Y-%m-%d"]), help="The last day on which it is valid (UTC)."
)
@click.option(
    "--service",
    "services",
    multiple=True,
    help="A service (`service.name`) that the token may see, by default all; may be repeated.",
)
def add(
    name: str, token_file: Path, role: str, until: datetime | None, services: tuple[str, ...]
) -> None:
    """Make a token for NAME, and print it once; the file keeps only its hash."""
    name = " ".join(plain(name, _NAME_CHARS_MAX).split())
    if not name or any(word.startswith(FIELDS) for word in name.split()):
        raise click.UsageError("give the name of a person or an agent.")
    if not all(services):
        raise click.UsageError("--service names none; give a service.name, such as billing.")
    holder = Holder(name, cast("Role", role), until.date() if until else None, services)
    token = add_token(token_file, holder)
    click.echo(token)
    click.echo(f"{token_file}: {name} {MEANING[holder.role]}{_of(holder)}; {_RELOAD}", err=True)


@tokens.command(name="list")
@_file_option
def list_tokens(token_file: Path) -> None:
    """List whose tokens there are."""
    for holder in read_tokens(token_file, {}).values():
        until = f"until {holder.until}" if holder.until else "without an end"
        click.echo(f"{holder.name or '(without a name)'}: {holder.role}, {until}{_of(holder)}")


@tokens.command()
@click.argument("name")
@_file_option
def revoke(name: str, token_file: Path) -> None:
    """Take the token of NAME out of the file."""
    revoke_token(token_file, name)
    click.echo(f"{token_file}: the token of {name} is revoked; {_RELOAD}", err=True)


def _of(holder: Holder) -> str:
    """Return the services of a token in words; "" for all."""
    names = ", ".join(plain(each, _NAME_CHARS_MAX) for each in holder.services)
    return f", for {names} alone" if names else ""
