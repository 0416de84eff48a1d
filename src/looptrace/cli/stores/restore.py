"""`looptrace restore`: make a store of its copy."""

from pathlib import Path

import click

from looptrace.cli.shared.stores import store_option


@click.command()
@click.argument("source", metavar="SOURCE")
@store_option("served", "Folder of the new store; it must be empty or missing.")
def restore(source: str, store: Path) -> None:
    """Make a store of the copy at SOURCE, a folder or s3://BUCKET/PREFIX.

    A server continues from it, with gates, decisions and waiting webhooks.
    """
    # Only here, so that `--help` comes at once.
    from looptrace.collector.store.publishing.copying import restore as restored  # noqa: PLC0415

    files = restored(source, store)
    click.echo(f"{store}: files {files}; start the server, or run `looptrace analyze {store}`")
