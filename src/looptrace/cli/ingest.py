"""`looptrace ingest`: add traces to a store."""

from __future__ import annotations

from pathlib import Path

import click

from looptrace.analyzer.labels import plain
from looptrace.collector import store
from looptrace.collector.read import read_spans

_EXIT_UNREADABLE = 2
_LINE_LENGTH_MAX = 300


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--store",
    "store_dir",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the store; it is made where there is none.",
)
@click.pass_context
def ingest(context: click.Context, paths: tuple[str, ...], store_dir: Path) -> None:
    """Add the spans of PATHS to a store, with their turns and findings.

    What the store has already is not added twice. Exits with 2 if something was skipped.
    """
    found = read_spans(paths)
    try:
        done = store.ingest(found.spans, store_dir)
    except store.StoreError as error:
        click.echo(f"Error: {plain(str(error), _LINE_LENGTH_MAX)}", err=True)
        context.exit(_EXIT_UNREADABLE)
    skipped = [*found.skipped, *done.skipped]
    for part in skipped:
        click.echo(plain(f"skipped {part.where}: {part.why}", _LINE_LENGTH_MAX), err=True)
    click.echo(
        f"{done.spans_new} spans new, {done.spans_known} known, {len(skipped)} parts skipped; "
        f"{store_dir} now has {done.turns} turns and {done.findings} findings."
    )
    context.exit(_EXIT_UNREADABLE if skipped else 0)
