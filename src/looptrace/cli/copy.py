"""`looptrace copy`: copy a store to object storage, and keep the copy up to date."""

from __future__ import annotations

from pathlib import Path

import click

from looptrace.cli.shared.stores import store_option
from looptrace.collector.store.objects.client import is_object_url


@click.command()
@click.argument("url", metavar="URL")
@store_option("served", "Folder of the store to copy.")
def copy(url: str, store: Path) -> None:
    """Copy a store to URL, such as s3://BUCKET/PREFIX, also while a server uses it.

    Run it again to bring the copy up to date: what is there already is not sent. Days that
    retention deletes from the store stay in the copy.
    """
    if not is_object_url(url):
        raise click.UsageError(f"{url} is no address of a bucket, such as s3://BUCKET/PREFIX.")
    # Only here, so that `--help` comes at once.
    from looptrace.collector.store.objects.copying import copy_store  # noqa: PLC0415

    sent = copy_store(store, url)
    click.echo(f"{url}: files sent {len(sent)}, {sum(each.bytes for each in sent):,} bytes")
