"""`looptrace serve`: receive spans, judge them as they come, and tell of gates."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from looptrace.analyzer.labels import plain
from looptrace.analyzer.settings import Settings
from looptrace.cli import traces
from looptrace.cli.config import config_option

_LINE_LENGTH_MAX = 500
_PORT = click.IntRange(0, 65_535)


@click.command()
@click.option(
    "--store",
    "store_dir",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the store; it is made where there is none.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--http-port", type=_PORT, default=4318, show_default=True, help="0 is any free one.")
@click.option("--grpc-port", type=_PORT, default=4317, show_default=True, help="0 is any free one.")
@click.option("--no-grpc", is_flag=True, help="Receive over HTTP alone.")
@config_option
def serve(
    store_dir: Path, host: str, http_port: int, grpc_port: int, no_grpc: bool, settings: Settings
) -> None:
    """Receive OTLP, judge spans as they arrive, and tell agents and people of gates.

    What is acknowledged is on disk. Ends on SIGTERM or Ctrl-C, within 5 seconds.
    """
    try:
        # Only here, because they are an extra.
        from looptrace.collector.server import service  # noqa: PLC0415
        from looptrace.collector.webhooks.signing import SecretError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        click.echo(
            f"Error: serving needs {error.name}, which is not installed; "
            "install all it needs with: pip install 'looptrace[server]'",
            err=True,
        )
        sys.exit(traces.EXIT_UNREADABLE)
    options = service.Options(store_dir, settings, host, http_port, None if no_grpc else grpc_port)

    def ready(at: service.Addresses) -> None:
        grpc = f", OTLP over gRPC at {at.grpc}" if at.grpc else ""
        click.echo(f"looptrace listens: OTLP over HTTP and gates at http://{at.http}{grpc}")

    try:
        with traces.stopping_on_store_errors():
            asyncio.run(service.serve(options, ready))
    except (service.ServeError, SecretError) as error:
        click.echo(f"Error: {plain(str(error), _LINE_LENGTH_MAX)}", err=True)
        sys.exit(traces.EXIT_UNREADABLE)
