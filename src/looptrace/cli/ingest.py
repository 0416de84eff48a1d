"""`looptrace ingest`: add traces to a store."""

import json  # a log line has spaces, as its page in the docs
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO

import click

from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import Judge
from looptrace.analyzer.report.log_lines import log_record
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.settings.sections import Settings
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared import traces
from looptrace.cli.shared.judge_option import judge_option
from looptrace.cli.shared.stores import store_option, written_store
from looptrace.collector.content.policy import CONTENTS, Content
from looptrace.collector.judge.gate_judge import judge_gates
from looptrace.collector.judge.plugins import judge_named
from looptrace.collector.store import reader, writer
from looptrace.collector.store.layout import is_store
from looptrace.collector.store.objects.snapshot import fetch_tables
from looptrace.collector.store.tables.parquet import TABLES
from looptrace.collector.store.unanswered import attend_by_spans
from looptrace.collector.store.writer import Ingested
from looptrace.engines import uncollected


@click.command()
@click.argument("paths", nargs=-1)
@store_option(
    "written", "Folder of the store, or s3://BUCKET/PREFIX; it is created if it does not exist."
)
@click.option(
    "--events",
    type=click.File("a", encoding="utf-8", lazy=False),
    help="Append a JSON line for each event to this file; - is standard output.",
)
@click.option(
    "--content",
    type=click.Choice(CONTENTS),
    default="redacted",
    show_default=True,
    help="Texts to store: all, all except secrets, or only hashes.",
)
@traces.jobs_option
@judge_option
@config_option
@click.pass_context
def ingest(
    context: click.Context,
    paths: tuple[str, ...],
    store: Path | str,
    events: IO[str] | None,
    content: Content,
    jobs: int,
    judge: str | None,
    settings: Settings,
) -> None:
    """Add the spans of PATHS to a store, with their turns, findings and gates.

    Spans that are already in the store are not added again. If the settings differ from the last
    time, or gates were lost, the whole store is evaluated again; without PATHS nothing else is
    done. Exits with 2 if some of the input could not be read;
    the rest is in the store.
    """
    asked = judge_named(judge, settings.judge)
    told: list[GateEvent] = []
    with written_store(store) as store_dir:
        if not (paths or is_store(store_dir)):
            raise click.UsageError(
                f"{store}: is not a store yet; name the traces to begin it with."
            )
        fetch_tables(store_dir, *TABLES)
        with uncollected(), SpanSpool() as spool:
            read = traces.spooled(paths, spool)
            how = (store_dir, settings.policy, settings.webhooks)
            with traces.evaluating() as on_evaluated, writer.writing(*how, jobs) as writing:
                done = writing.ingest(spool, content, on_evaluated)
        done = _decided(done, store_dir, asked, settings)
        if events:
            with reader.open_gates(store_dir) as gates:
                told = [event for _, event in gates.events(done.seq_before)]
    for event in told:
        click.echo(json.dumps(log_record(event), ensure_ascii=False), file=events)
    skipped = [*read.skipped, *done.skipped]
    traces.warn_of(skipped)
    for loss in done.losses:
        click.echo(f"{store}: {loss}", err=True)
    click.echo(
        f"{store}: spans new {done.spans_new}, known {done.spans_known}, "
        f"parts skipped {len(skipped)}; turns {done.turns}, findings {done.findings}; "
        f"gates opened {done.gates_opened}, open {done.gates_open}",
        err=events is sys.stdout,
    )
    context.exit(EXIT_UNREADABLE if skipped else 0)


def _decided(done: Ingested, store_dir: Path, judge: Judge | None, settings: Settings) -> Ingested:
    """Let a judge and the defaults of waiting decide on open gates; return what the store has then.

    An agent that went on may have got gates after that.
    """
    how = (SPAN_SCHEMA.to_frame(), store_dir, settings.policy, settings.webhooks)
    if judge and _judged(store_dir, judge, settings):
        done = replace(done, gates_open=writer.ingest(*how).gates_open)
    while settings.waiting and attend_by_spans(store_dir, settings.waiting):
        again = writer.ingest(*how)
        opened = done.gates_opened + again.gates_opened
        done = replace(done, gates_opened=opened, gates_open=again.gates_open)
    return done


def _judged(store_dir: Path, judge: Judge, settings: Settings) -> int:
    """Ask the judge about the open gates; returns how many of them it resolved."""
    decides = settings.judge is not None and settings.judge.decides
    with traces.working("asking the judge"), reader.open_gates(store_dir) as gates:
        return judge_gates(store_dir, gates, judge, decides=decides).resolved
