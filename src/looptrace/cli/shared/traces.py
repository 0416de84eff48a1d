"""Reading of traces from files or a store, with progress, and writing of reports."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import polars as pl

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.outages import with_outages
from looptrace.analyzer.engine.parts import analyse_spooled
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.report.pages import is_styled
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.display import plain
from looptrace.cli.shared.stores import store_copy
from looptrace.collector.files import reader as files
from looptrace.collector.files.reader import ReadNotes, SpansRead, spool_spans
from looptrace.collector.otlp.span_rows import cut_text
from looptrace.collector.store import layout
from looptrace.collector.store.objects.client import is_object_url
from looptrace.engines import Engine, cores, in_threads, uncollected
from looptrace.errors import InputError, InstallError
from looptrace.installation import how_to_install

if TYPE_CHECKING:
    from rich.console import Console

    from looptrace.collector.store_analysis import KeptTurns

R = TypeVar("R")

output_option = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write the report to, instead of standard output.",
)

jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=cores,
    show_default="all cores",
    help="Threads that share the work; the report is the same.",
)

_LINE_LENGTH_MAX = 300
_SKIPPED_SHOWN_MAX = 20


def analysis(
    paths: Sequence[str],
    settings: Settings,
    jobs: int = 1,
    engine: Engine = map,
    turns: KeptTurns = "all",
) -> Analysis:
    """Analyse a store's folder, or files, folders, globs and standard input.

    The turns of a store are evaluated again, whatever rules its findings were made with. Of a store
    the analysis has the turns of all tasks with findings, of those that a report shows, or none.
    """
    folder = store_of(paths)
    if folder is None:
        with uncollected(), SpanSpool() as spool:
            notes = spooled(paths, spool)
            with working():
                whole, failures = analyse_spooled(spool, notes.skipped, settings.policy, jobs)
                whole = replace(whole, empty=notes.empty)
                return with_outages(whole, failures, settings.outages)
    # Files need nothing of the many modules of a store.
    from looptrace.collector.store.objects.snapshot import fetch_tables  # noqa: PLC0415
    from looptrace.collector.store_analysis import analyse_store  # noqa: PLC0415

    warn_of_waiting(folder)
    if engine is map:  # The machines of a cluster fetch their own buckets.
        fetch_tables(folder, "turns", "findings")
        engine = partial(in_threads, threads=jobs)
    with uncollected(), working():
        return analyse_store(folder, settings, engine, turns)


def turns(
    paths: Sequence[str], settings: Settings
) -> tuple[Iterable[pl.DataFrame], Sequence[Skipped]]:
    """Return the turns of whole tasks, in one part or more, and the skipped input."""
    folder = store_of(paths)
    if folder is None:
        spans_read = read(paths)
        with working():
            table, noted = turns_of(
                spans_read.spans, settings.policy.sameness, settings.policy.dialects
            )
        return [table], [*spans_read.skipped, *noted.skipped]
    from looptrace.collector.store_analysis import work_on_buckets  # noqa: PLC0415 - as above

    warn_of_waiting(folder)
    return list(work_on_buckets(folder, settings, pl.DataFrame.clone)), []


def span_tables(paths: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield the spans (`SPAN_SCHEMA`) of a store, or of files; each trace is in one table."""
    folder = store_of(paths)
    if folder is None:
        yield read(paths).spans
    else:
        from looptrace.collector.store.reader import read_spans  # noqa: PLC0415 - as above

        yield from read_spans(folder)


def work_on(
    paths: Sequence[str],
    settings: Settings,
    work: Callable[[pl.DataFrame], R],
    engine: Engine,
    *,
    at_once: bool = False,
) -> tuple[Iterable[R], Sequence[Skipped]]:
    """Return the results of `work` for the turns of whole tasks, by part, and the skipped input.

    All tasks are one part where asked for (`at_once`), and with budgets of several tasks.
    """
    if at_once or settings.policy.budgets.limits:
        parts, skipped = turns(paths, settings)
        return [work(pl.concat([TURN_SCHEMA.to_frame(), *parts]))], skipped
    folder = store_of(paths)
    if folder is not None:
        from looptrace.collector.store_analysis import work_on_buckets  # noqa: PLC0415 - as above

        warn_of_waiting(folder)
        return work_on_buckets(folder, settings, work, engine), []
    parts, skipped = turns(paths, settings)
    return (work(part) for part in parts if part.height), skipped


def warn_of_waiting(store_dir: Path) -> None:
    """Report on standard error how many spans a server received and has not stored yet."""
    # Files have no server.
    from looptrace.collector.server.ingest.ingest_log import spans_waiting  # noqa: PLC0415

    if spans := spans_waiting(store_dir):
        click.echo(
            f"{store_dir}: a server received {spans} spans that are not stored yet and are missing "
            "here. A running server stores them soon; a stopped server stores them when it "
            "starts again.",
            err=True,
        )


def read(paths: Sequence[str]) -> SpansRead:
    """Read spans, with a progress bar if standard error is a terminal."""
    with _reading() as on_bytes:
        found = files.read_spans(paths, on_bytes)
    _check_sources(found)
    _warn_of_cut(found.cut)
    return found


def spooled(paths: Sequence[str], spool: SpanSpool) -> ReadNotes:
    """Read spans as `read` does into a spool, where a span may be twice."""
    with _reading() as on_bytes:
        notes = spool_spans(paths, spool, on_bytes)
    _check_sources(notes)
    _warn_of_cut(notes.cut)
    return notes


def _check_sources(notes: SpansRead | ReadNotes) -> None:
    """Refuse paths that name nothing to read; a report about them would be zeros."""
    if notes.skipped and not notes.sources:  # Without paths, `ingest` evaluates what is stored.
        raise InputError(f"{'; '.join(f'{part.where}: {part.why}' for part in notes.skipped)}.")


@contextmanager
def _reading() -> Iterator[Callable[[int, int], None]]:
    """Show the progress of reading; yields a function of the bytes done and the total bytes."""
    if sys.platform != "win32":
        # Polars also handles Ctrl-C, and would let a read that waits for a pipe go on.
        signal.siginterrupt(signal.SIGINT, True)
    with _progress("reading", "DownloadColumn") as on_bytes:
        yield on_bytes


@contextmanager
def _progress(doing: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar, with a column of `rich.progress`, if standard error is a terminal.

    Yields a function of what is done and of the total, 0 where that is not known.
    """
    console = _terminal()
    if console is None:
        yield lambda _done, _total: None
        return
    from rich import progress  # noqa: PLC0415 - Pipelines see no bar.

    parts = (progress.TextColumn(doing), progress.BarColumn(), getattr(progress, unit)())
    columns = (*parts, progress.TimeRemainingColumn())
    with progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def _warn_of_cut(cut: Sequence[int]) -> None:
    if cut:
        click.echo(f"warning: {cut_text(len(cut), sum(cut))}", err=True)


@contextmanager
def evaluating() -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a store's analysis, if standard error is a terminal.

    Yields a function of the buckets done and the total buckets.
    """
    with _progress("evaluating", "MofNCompleteColumn") as on_buckets:
        yield on_buckets


def working(doing: str = "looking for loops") -> AbstractContextManager[object]:
    """Show on a terminal that reading is done and the work goes on."""
    console = _terminal()
    return console.status(doing) if console else nullcontext()


def _terminal() -> Console | None:
    """Return a console on standard error, if that is a terminal."""
    if not is_styled(sys.stderr):
        return None
    from rich.console import Console  # noqa: PLC0415 - as above

    console = Console(stderr=True)
    return console if console.is_terminal else None


def write(report: str | Iterator[str], output: Path | None) -> None:
    """Write a report, or its parts one after the other, to a file or to standard output."""
    parts = [report] if isinstance(report, str) else report
    if output is None:
        last = ""
        for last in parts:
            click.echo(last, nl=False)
        if not last.endswith("\n"):
            click.echo()
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            file.writelines(parts)
    except OSError as error:
        raise click.UsageError(
            f"{output} cannot be written ({error.strerror}); name another file."
        ) from error
    click.echo(f"The report is in {output}.", err=True)


def warn_of(skipped: Iterable[Skipped]) -> None:
    """List the skipped input on standard error."""
    parts = list(skipped)
    for part in parts[:_SKIPPED_SHOWN_MAX]:
        click.echo(plain(f"skipped {part.where}: {part.why}", _LINE_LENGTH_MAX), err=True)
    if len(parts) > _SKIPPED_SHOWN_MAX:
        click.echo(f"and {len(parts) - _SKIPPED_SHOWN_MAX} more parts were skipped", err=True)


@contextmanager
def needing(extra: str, work: str) -> Iterator[None]:
    """Name the extra to install if the work cannot import a package.

    Raises:
        InstallError: if a package is missing that is not one of looptrace's own modules.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("looptrace"):
            raise
        raise InstallError(
            f"{work} needs {error.name}, which is not installed; "
            f"install it with: {how_to_install(extra)}"
        ) from error


def store_of(paths: Sequence[str]) -> Path | None:
    """Return the folder of the store that the paths name; None if they are not a store.

    Of one on object storage it is the folder of a copy.
    """
    stores = [path for path in paths if is_object_url(path) or layout.is_store(Path(path))]
    if not stores:
        return None
    if len(paths) > 1:
        raise click.UsageError(
            f"{stores[0]} is a store, which cannot be read together with other paths; "
            "add the other traces to it with `looptrace ingest`."
        )
    return store_copy(stores[0]) if is_object_url(stores[0]) else Path(stores[0])
