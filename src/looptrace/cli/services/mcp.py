"""`looptrace mcp`: a store that a coding agent can ask whether it loops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from looptrace.analyzer.settings.sections import Settings
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.stores import store_option

if TYPE_CHECKING:
    from starlette.applications import Starlette

_HOST = "127.0.0.1"


@click.command()
@store_option("served", "Folder of the store.")
@click.option(
    "--http-port",
    type=click.IntRange(1, 65535),
    help="Serve over HTTP at this port of 127.0.0.1, path /mcp; by default over stdio.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the tokens of clients over HTTP, one a line; by default LOOPTRACE_TOKENS.",
)
@click.option(
    "--allow-resolve", is_flag=True, help="Let the agent resolve gates; by default it only reads."
)
@config_option
def mcp(
    store: Path,
    http_port: int | None,
    token_file: Path | None,
    allow_resolve: bool,
    settings: Settings,
) -> None:
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
        _serve(server.streamable_http_app(host=_HOST), http_port, token_file)


def _serve(app: Starlette, port: int, token_file: Path | None) -> None:
    """Serve over HTTP to those who may, by the rules of `looptrace serve`."""
    import uvicorn  # noqa: PLC0415 - an extra

    from looptrace.collector.server.access import Access, AccessMiddleware, check_access  # noqa: PLC0415 - an extra
    from looptrace.collector.server.tokens.token_file import read_tokens  # noqa: PLC0415 - an extra

    tokens = read_tokens(token_file, os.environ)
    access = Access(_HOST, tuple(tokens), tokens)
    check_access(access)
    click.echo(f"looptrace listens: http://{_HOST}:{port}/mcp", err=True)
    uvicorn.run(AccessMiddleware(app, access), host=_HOST, port=port, log_level="warning")
