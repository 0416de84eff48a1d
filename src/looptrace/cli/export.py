"""`looptrace export`: send the gates of a store to a tracing system, into the agents' traces."""

from pathlib import Path

import click

from looptrace.cli.shared.stores import store_option, written_store


@click.command()
@store_option("written")
@click.option(
    "--to",
    "url",
    metavar="URL",
    required=True,
    help="Receiver of OTLP: http[s]://HOST:PORT, or grpc[s]://HOST:PORT.",
)
@click.option("--all", "every", is_flag=True, help="Also send events without a gate.")
@click.option(
    "--content", is_flag=True, help="Also send the reasons, which quote the agent's calls."
)
@click.option("--again", is_flag=True, help="Also send earlier gates again; each stays one span.")
def export(store: Path | str, url: str, every: bool, content: bool, again: bool) -> None:
    """Send the gates of a store as spans into the traces of their agents.

    Gates that were sent to this receiver before are not sent again. Headers, and certificates for
    TLS, come from the variables of OTLP's exporters, such as OTEL_EXPORTER_OTLP_HEADERS.
    """
    # Only here, because the import of the exporters takes long.
    from looptrace.collector.gate_exporter import Target  # noqa: PLC0415
    from looptrace.collector.gate_exporter import export as send  # noqa: PLC0415

    with written_store(store) as store_dir:
        done = send(store_dir, Target(url, every, content), again=again)
    click.echo(f"{store}: spans sent {done.spans}, events up to {done.seq}")
