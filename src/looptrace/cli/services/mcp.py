"""`looptrace mcp`: a store that a coding agent can ask whether it loops."""

from __future__ import annotations

from pathlib import Path

import click

from looptrace.analyzer.settings.sections import Settings
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.stores import store_option


@click.command()
@store_option("served", "Folder of the store.")
@click.option(
    "--http-port",
    type=click.IntRange(1, 65535),
    help="Serve over HTTP at this port of 127.0.0.1, path /mcp; by default over stdio.",
)
@click.option(
    "--allow-resolve", is_flag=True, help="Let the agent resolve gates; by default it only reads."
)
@config_option
def mcp(store: Path, http_port: int | None, allow_resolve: bool, settings: Settings) -> None:
    """Serve a store by the Model Context Protocol: loops, gates, and why.

    Over stdio a coding agent starts this command itself. It can ask for the tasks, the loops of a
    task, why a task was stopped and which setting would change that, the gates, and the history of
    a gate.
    """
    with traces.needing("mcp", "the Model Context Protocol"):
        # Only here, because it is an extra.
        from looptrace.collector import mcp_server  # noqa: PLC0415

    server = mcp_server.server_of(store, settings, may_resolve=allow_resolve)
    if http_port is None:
        server.run("stdio")
    else:
        click.echo(f"looptrace listens: http://127.0.0.1:{http_port}/mcp", err=True)
        server.run("streamable-http", host="127.0.0.1", port=http_port)
