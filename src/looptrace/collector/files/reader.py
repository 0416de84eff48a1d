"""Reads traces: whatever paths name, OTLP or an export, to one table of spans.

Bad input raises nothing. Each part that cannot be read is reported once, and the rest is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from looptrace.analyzer.schema.spans import SPAN_SCHEMA, Skipped, distinct_spans
from looptrace.collector.files.sources import Source, find_sources, unpacked, unpacked_message
from looptrace.collector.importers.documents import decoded_documents
from looptrace.collector.importers.tables import begins_table, decode_table
from looptrace.collector.otlp.frames import DamagedError, Frame
from looptrace.collector.otlp.json import decode_document
from looptrace.collector.otlp.json_documents import begins_document, documents
from looptrace.collector.otlp.protobuf import (
    begins_message,
    begins_prefixed,
    decode_message,
    prefixed_messages,
    whole_message,
)
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem, SpanRow
from looptrace.collector.otlp.span_table import span_table
from looptrace.processes import Processes

# How many rows are held as Python objects before they become columns.
ROWS_HELD_MAX = 50_000
# Files of fewer bytes are read before processes have started.
SHARED_BYTES_MIN = 16 << 20
# Pieces of the files for each process, so that none waits long for the one with the largest.
PIECES = 4
# How much of a source is looked at to tell its form.
HEAD_BYTES = 4096

OnBytes = Callable[[int, int], None]

_EMPTY = "there is nothing in it; check that the exporter was flushed before its process ended"


@dataclass(frozen=True, slots=True)
class SpansRead:
    """The spans that were read, as SPAN_SCHEMA has them, and what could not be read.

    `cut` has how many attributes each span lost that lost any, to a limit of the SDK.
    """

    spans: pl.DataFrame
    skipped: tuple[Skipped, ...]
    cut: tuple[int, ...] = ()


def read_spans(
    paths: Sequence[str],
    on_bytes: OnBytes = lambda _done, _all: None,
    processes: Processes | None = None,
) -> SpansRead:
    """Read the spans of files, folders, patterns and `-` for standard input.

    `on_bytes` is called again and again with the bytes that are done and the bytes in all, as
    they lie on disk. `processes` share the files of large input; what is read is the same. Bad
    input raises nothing: it is in `skipped`, and the rest is read.
    """
    sources, skipped = find_sources(paths)
    if processes is not None and processes.jobs > 1 and _can_share(sources):
        all_read = _read_in(processes, sources, on_bytes)
    else:
        all_read = _read(sources, on_bytes)
    spans, clashes = distinct_spans(all_read.spans)
    return SpansRead(spans, (*skipped, *all_read.skipped, *clashes), all_read.cut)


def _read(sources: Sequence[Source], on_bytes: OnBytes) -> SpansRead:
    """Read sources one after the other; a span may be there twice."""
    bytes_all = sum(source.bytes_on_disk for source in sources)
    bytes_before = 0
    skipped: list[Skipped] = []
    cut: list[int] = []
    table = _Table()
    for source in sources:
        problems = _Problems()
        on_read = _progress(source, on_bytes, bytes_before, bytes_all)
        for decoded in _decode(source, on_read):
            table.add(decoded.rows)
            problems.add(decoded)
            cut += decoded.cut
        skipped.extend(problems.skipped())
        on_read(source.bytes_on_disk)  # Also where it could not be read to its end.
        bytes_before += source.bytes_on_disk
    return SpansRead(table.frame(), tuple(skipped), tuple(cut))


def _progress(
    source: Source, on_bytes: OnBytes, before: int, bytes_all: int
) -> Callable[[int], None]:
    """Return a function that turns the bytes read of one source into those of all."""
    return lambda done: on_bytes(before + min(done, source.bytes_on_disk), bytes_all)


def _can_share(sources: Sequence[Source]) -> bool:
    """Return whether there are several files, so large that processes start sooner."""
    if len(sources) == 1 or any(source.path is None for source in sources):
        return False
    return sum(source.bytes_on_disk for source in sources) >= SHARED_BYTES_MIN


def _read_in(processes: Processes, sources: Sequence[Source], on_bytes: OnBytes) -> SpansRead:
    """Read sources in processes, each some that follow one another; returns what `_read` does."""
    bytes_all = sum(source.bytes_on_disk for source in sources)
    bytes_done = 0
    frames: list[pl.DataFrame] = []
    skipped: list[Skipped] = []
    cut: list[int] = []
    with TemporaryDirectory(prefix="looptrace-") as folder:
        pieces = list(_pieces(sources, bytes_all // (PIECES * processes.jobs), Path(folder)))
        for piece, of_piece in zip(pieces, processes.map(_read_piece, pieces), strict=True):
            frames.append(pl.read_ipc(piece.spans))
            piece.spans.unlink()
            skipped += of_piece.skipped
            cut += of_piece.cut
            bytes_done += sum(source.bytes_on_disk for source in piece.sources)
            on_bytes(bytes_done, bytes_all)
    return SpansRead(pl.concat(frames), tuple(skipped), tuple(cut))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Sources that one process reads, and the file to which it writes their spans."""

    sources: tuple[Source, ...]
    spans: Path


def _pieces(sources: Sequence[Source], bytes_min: int, folder: Path) -> Iterator[_Piece]:
    taken: list[Source] = []
    for number, source in enumerate(sources, 1):
        taken.append(source)
        if sum(each.bytes_on_disk for each in taken) >= bytes_min or number == len(sources):
            yield _Piece(tuple(taken), folder / f"{number}.spans")
            taken = []


def _read_piece(piece: _Piece) -> SpansRead:
    """Read a piece, and leave its spans in its file."""
    found = _read(piece.sources, lambda _done, _all: None)
    found.spans.write_ipc(piece.spans)
    return replace(found, spans=found.spans.clear())


def _decode(source: Source, on_read: Callable[[int], None]) -> Iterator[DecodedSpans]:
    """Yield what is in a source, piece by piece; if nothing, then why."""
    head, chunks, damage = _sniff(unpacked(source, on_read))
    decoded = None
    for decoded in _decode_by_form(source.name, head, chunks):
        yield decoded
    if decoded is None:
        yield DecodedSpans(problems=[Problem(source.name, damage or _EMPTY)])


def _sniff(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes], str | None]:
    """Return the first bytes of a stream, all of it again, and why it breaks off so early."""
    taken = list[bytes]()
    damage: DamagedError | None = None
    try:
        for chunk in chunks:
            taken.append(chunk)
            if sum(map(len, taken)) >= HEAD_BYTES:
                break
    except DamagedError as error:
        damage = error

    def again() -> Iterator[bytes]:
        yield from taken
        if taken and damage is not None:
            raise damage
        yield from chunks

    return b"".join(taken)[:HEAD_BYTES], again(), None if damage is None else str(damage)


def _decode_by_form(name: str, head: bytes, chunks: Iterator[bytes]) -> Iterator[DecodedSpans]:
    """Decode a stream by what it begins with, not by its name; as JSON where in doubt."""
    is_text = begins_document(head) or head.isspace()
    if begins_table(head):
        yield decode_table(name, chunks)
    elif not is_text and begins_message(head):
        yield decode_message(name, whole_message(chunks))
    elif not is_text and begins_prefixed(head):
        for message in prefixed_messages(chunks):
            yield _decode_message(name, message)
    else:
        yield from decoded_documents(name, documents(chunks))


def _decode_message(name: str, message: Frame) -> DecodedSpans:
    """Decode one of the messages that the collector's file exporter writes one after the other."""
    where = f"{name} message {message.number}"
    try:
        data = unpacked_message(message.data)
    except DamagedError as damage:
        return DecodedSpans(problems=[Problem(where, message.problem or str(damage))])
    if begins_document(data):
        return decode_document(where, Frame(1, data.strip(), message.problem))
    return decode_message(name, Frame(message.number, data, message.problem))


class _Problems:
    """What could not be read of one source; a run of parts that are no OTLP counts as one."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._repeats: list[int] = []
        self._is_foreign_run = False

    def add(self, decoded: DecodedSpans) -> None:
        """Take what is wrong with the next piece of the source."""
        self._is_foreign_run &= not decoded.rows
        for problem in decoded.problems:
            if problem.foreign and self._is_foreign_run:
                self._repeats[-1] += 1
                continue
            self._problems.append(problem)
            self._repeats.append(0)
            self._is_foreign_run = problem.foreign

    def skipped(self) -> Iterator[Skipped]:
        """Yield each problem as one line."""
        for problem, repeats in zip(self._problems, self._repeats, strict=True):
            more = f" (and so are {repeats:,} more)" if repeats else ""
            yield Skipped(problem.where, problem.why + more)


class _Table:
    """The span table while it grows: rows, turned into columns by and by."""

    def __init__(self) -> None:
        self._frames = [SPAN_SCHEMA.to_frame()]
        self._rows: list[SpanRow] = []

    def add(self, rows: list[SpanRow]) -> None:
        """Take rows, in their order."""
        self._rows += rows
        if len(self._rows) >= ROWS_HELD_MAX:
            self._flush()

    def frame(self) -> pl.DataFrame:
        """Return all rows as one table."""
        self._flush()
        return pl.concat(self._frames)

    def _flush(self) -> None:
        if self._rows:
            self._frames.append(span_table(self._rows))
            self._rows = []
