"""`looptrace export`: send the gates of a store to a tracing system, into the agents' traces."""

from __future__ import annotations

from pathlib import Path

import click

from looptrace.cli.shared.stores import StorePath, written_store


@click.command()
@click.argument("store", metavar="STORE", type=StorePath("written", file_okay=True))
@click.option(
    "--to",
    "url",
    metavar="URL",
    required=True,
    help="Where OTLP is taken: http[s]://HOST:PORT, or grpc[s]://HOST:PORT.",
)
@click.option("--all", "every", is_flag=True, help="Also what was told without a gate.")
@click.option("--content", is_flag=True, help="Also the reasons, in words of the agent's calls.")
@click.option("--again", is_flag=True, help="Also what was sent before; it stays one span.")
def export(store: Path | str, url: str, every: bool, content: bool, again: bool) -> None:
    """Send the gates of STORE as spans into the traces of the agents that they are about.

    What was sent to this place before is not sent again. Headers, and certificates for TLS, are
    taken from the variables of OTLP's exporters, such as OTEL_EXPORTER_OTLP_HEADERS.
    """
    # Only here, because the exporters take their time to import.
    from looptrace.collector.gate_exporter import Target  # noqa: PLC0415
    from looptrace.collector.gate_exporter import export as send  # noqa: PLC0415

    with written_store(store) as store_dir:
        done = send(store_dir, Target(url, every, content), again=again)
    click.echo(f"{store}: spans sent {done.spans}, events up to {done.seq}")
