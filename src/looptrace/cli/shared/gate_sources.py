"""Sources of gates and incidents: servers, stores, or several of them, shown as one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import click

from looptrace.analyzer.settings.sections import Settings, default
from looptrace.cli import Command
from looptrace.cli.shared.gates_on_disk import GatesOnDisk
from looptrace.cli.shared.several_sources import GatesOfSeveral, OneSource
from looptrace.cli.shared.stores import store_copy, store_option
from looptrace.collector.gates_client import RemoteGates
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.sdk.server_watch import TOKEN_VARIABLE

Stores = Sequence[Path | str]
Servers = Sequence[str]
GateSource: TypeAlias = OneSource | GatesOfSeveral


def source_options(command: Command) -> Command:
    """Add --store and --server; the command gets the sources as `stores` and `servers`."""
    several = "; several are shown as one."
    server = click.option(
        "--server",
        "servers",
        metavar="URL",
        multiple=True,
        help=f"Address of a running server, such as http://localhost:4318{several} Its token is "
        f"read from {TOKEN_VARIABLE}.",
    )
    store = f"Folder of a store, or s3://BUCKET/PREFIX{several}"
    return store_option("written", store, required=False, multiple=True)(server(command))


def source_of(stores: Stores, servers: Servers, settings: Settings | None = None) -> GateSource:
    """Return the gates of a store or a server, or of several of them.

    Raises:
        UsageError: if none is named, or an address is not one.
    """
    settings = settings or default()
    stored = (
        GatesOnDisk(each, settings)
        if isinstance(each, Path)
        else GatesOnDisk(store_copy(each), settings, each)
        for each in stores
    )
    sources: list[OneSource] = [*stored, *(RemoteGates(server_at(url)) for url in servers)]
    if not sources:
        raise click.UsageError("name a store by --store, or a running server by --server.")
    return sources[0] if len(sources) == 1 else GatesOfSeveral(sources)


def server_at(url: str) -> Server:
    """Return the server at an address, with the token of the environment.

    Raises:
        UsageError: if the address is not one.
    """
    try:
        # In the environment, because everybody on the machine can see a command line.
        return Server(url, os.environ.get(TOKEN_VARIABLE))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def effect_text(stores: Stores, of_server: str) -> str:
    """Return when a decision takes effect: in stores later, else as `of_server` says."""
    later = "It takes effect with the next `looptrace ingest` into this store, or at once in a"
    return f"{later} server." if stores else of_server
