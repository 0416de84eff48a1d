"""`looptrace copy`: copy a store to object storage or a folder, and keep the copy up to date."""

from pathlib import Path

import click

from looptrace.cli.shared.stores import store_option
from looptrace.collector.store.objects.client import is_object_url


@click.command()
@click.argument("target", metavar="TARGET")
@store_option("served", "Folder of the store to copy.")
def copy(target: str, store: Path) -> None:
    """Copy a store to TARGET, a folder or s3://BUCKET/PREFIX, also while a server uses it.

    The copy includes gates, decisions, waiting webhooks, and spans that a server has not stored
    yet; `restore` makes a store of it. Run it again to bring the copy up to date: a bucket gets
    the new objects, and keeps days that retention deletes from the store.
    """
    # Only here, so that `--help` comes at once.
    from looptrace.collector.store.publishing.copying import copy_store, copy_to_folder  # noqa: PLC0415

    if is_object_url(target):
        sent = copy_store(store, target)
        click.echo(f"{target}: files sent {len(sent)}, {sum(each.bytes for each in sent):,} bytes")
        return
    if "://" in target:
        raise click.UsageError(f"{target} is neither a folder nor s3://, gs:// or az://.")
    click.echo(f"{target}: files {copy_to_folder(store, Path(target))}")
