"""`looptrace ingest`: add traces to a store."""

from __future__ import annotations

import json  # a log line has spaces, as its page shows it
import sys
from pathlib import Path
from typing import IO

import click

from looptrace.analyzer.report.log_lines import log_record
from looptrace.analyzer.settings.sections import Settings
from looptrace.cli import traces
from looptrace.cli.config import config_option
from looptrace.collector.content.policy import CONTENTS, Content
from looptrace.collector.store import reader, writer


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--store",
    "store_dir",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the store; it is made where there is none.",
)
@click.option(
    "--events",
    type=click.File("a", encoding="utf-8", lazy=False),
    help="File to add a JSON line to for each thing told of a loop; - is standard output.",
)
@click.option(
    "--content",
    type=click.Choice(CONTENTS),
    default="redacted",
    show_default=True,
    help="What is stored of texts: all, all but secrets, or only hashes.",
)
@config_option
@click.pass_context
def ingest(
    context: click.Context,
    paths: tuple[str, ...],
    store_dir: Path,
    events: IO[str] | None,
    content: Content,
    settings: Settings,
) -> None:
    """Add the spans of PATHS to a store, with their turns, findings and gates.

    What the store has already is not added twice. With other settings than the last time, all
    that it holds is judged anew. Exits with 2 if some of the input could not be
    read; the rest is in the store.
    """
    read = traces.read(paths)
    done = writer.ingest(read.spans, store_dir, settings.policy, settings.webhooks, content)
    if events:
        with reader.open_gates(store_dir) as gates:
            for _, event in gates.events(done.seq_before):
                click.echo(json.dumps(log_record(event), ensure_ascii=False), file=events)
    skipped = [*read.skipped, *done.skipped]
    traces.warn_of(skipped)
    click.echo(
        f"{store_dir}: spans new {done.spans_new}, known {done.spans_known}, "
        f"parts skipped {len(skipped)}; turns {done.turns}, findings {done.findings}; "
        f"gates opened {done.gates_opened}, open {done.gates_open}",
        err=events is sys.stdout,
    )
    context.exit(traces.EXIT_UNREADABLE if skipped else 0)
