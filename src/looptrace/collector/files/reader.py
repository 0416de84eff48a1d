"""Reads traces: whatever paths name, OTLP or an export, to one table of spans.

Bad input raises nothing. Each part that cannot be read is reported once, and the rest is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from looptrace.analyzer.engine.span_spool import SpanFile, SpanSpool, write_spans
from looptrace.analyzer.schema.attribute_lists import concat_spans, with_json
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, Skipped, SpanRow, distinct_spans
from looptrace.collector.files.sources import Source, find_sources, unpacked, unpacked_message
from looptrace.collector.importers.console.lines import with_printed_spans
from looptrace.collector.importers.documents import decoded_documents, empty_text
from looptrace.collector.importers.tables import begins_table, decode_table
from looptrace.collector.otlp.frames import FRAME_BYTES_MAX, DamagedError, Frame
from looptrace.collector.otlp.json import decode_document
from looptrace.collector.otlp.json_documents import begins_document, documents
from looptrace.collector.otlp.protobuf import (
    begins_message,
    begins_prefixed,
    decode_message,
    prefixed_messages,
    request_pieces,
    whole_message,
)
from looptrace.collector.otlp.protobuf_columns import can_read_columns, span_columns
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem
from looptrace.collector.otlp.span_table import span_table
from looptrace.errors import InputError
from looptrace.processes import Processes

# How many rows, and characters in them, are held as Python objects before they become columns.
ROWS_HELD_MAX = 50_000
CHARS_HELD_MAX = 16 << 20
# Protobuf messages are read by columns together, up to so many bytes. What reads them takes as long
# to load as a smaller input to be read.
RUN_BYTES = 4 << 20
COLUMNS_BYTES_MIN = 1 << 20
# Files of fewer bytes are read before processes have started.
SHARED_BYTES_MIN = 16 << 20
# Pieces of the files for each process, so that none waits long for the one with the largest.
PIECES = 4
# How much of a source is looked at to tell its form.
HEAD_BYTES = 4096

OnBytes = Callable[[int, int], None]
Keep = Callable[[pl.DataFrame], None]

_EMPTY = "the file is empty; check that the exporter was flushed before its process ended"


@dataclass(frozen=True, slots=True)
class SpansRead:
    """The spans that were read, as SPAN_SCHEMA has them, and what could not be read.

    `cut` has how many attributes each span lost that lost any, to a limit of the SDK. `empty` has
    the sources without spans that were read to their ends, and what they are; `sources` is the
    number of sources that the paths name.
    """

    spans: pl.DataFrame
    skipped: tuple[Skipped, ...]
    cut: tuple[int, ...] = ()
    empty: tuple[Skipped, ...] = ()
    sources: int = 1


@dataclass(frozen=True, slots=True)
class ReadNotes:
    """What was remarked while spans were read: what `SpansRead` says beside them."""

    skipped: tuple[Skipped, ...]
    cut: tuple[int, ...] = ()
    empty: tuple[Skipped, ...] = ()
    sources: int = 1  # that the paths name


def read_spans(paths: Sequence[str], on_bytes: OnBytes = lambda _done, _all: None) -> SpansRead:
    """Read the spans of files, folders, patterns and `-` for standard input.

    `on_bytes` is called again and again with the bytes that are done and the bytes in all, as
    they lie on disk. Bad input raises nothing: it is in `skipped`, and the rest is read.
    """
    sources, missing = find_sources(paths)
    tables = [SPAN_SCHEMA.to_frame()]
    notes = _read(sources, on_bytes, lambda spans: tables.append(with_json(spans)))
    spans, clashes = distinct_spans(pl.concat(tables))
    skipped = (*missing, *notes.skipped, *clashes)
    return SpansRead(spans, skipped, notes.cut, notes.empty, len(sources))


def spool_spans(
    paths: Sequence[str], spool: SpanSpool, processes: Processes, on_bytes: OnBytes
) -> ReadNotes:
    """Read spans as `read_spans` does into a spool, where a span may be twice.

    `processes` share the files of large input; what is read is the same.

    Raises:
        UnavailableError: if there is no room for temporary files.
    """
    sources, missing = find_sources(paths)
    if processes.jobs > 1 and _can_share(sources):
        notes = _spool_in(processes, sources, spool, on_bytes)
    else:
        notes = _read(sources, on_bytes, spool.add)
    return ReadNotes((*missing, *notes.skipped), notes.cut, notes.empty, len(sources))


def _read(sources: Sequence[Source], on_bytes: OnBytes, keep: Keep) -> ReadNotes:
    """Read sources one after the other, and give away the spans table by table."""
    bytes_all = sum(source.bytes_on_disk for source in sources)
    bytes_before = 0
    skipped: list[Skipped] = []
    cut: list[int] = []
    empty: list[Skipped] = []
    held = _Held(keep)
    for source in sources:
        problems = _Problems()
        on_read = _progress(source, on_bytes, bytes_before, bytes_all)
        for decoded in _decode(source, on_read):
            held.add(decoded)
            problems.add(decoded)
            cut += decoded.cut
            empty += [Skipped(source.name, decoded.empty)] if decoded.empty else []
        skipped.extend(problems.skipped())
        on_read(source.bytes_on_disk)  # Also where it could not be read to its end.
        bytes_before += source.bytes_on_disk
    held.flush()
    return ReadNotes(tuple(skipped), tuple(cut), tuple(empty))


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


def _spool_in(
    processes: Processes, sources: Sequence[Source], spool: SpanSpool, on_bytes: OnBytes
) -> ReadNotes:
    """Read sources in processes, each some that follow one another; returns what `_read` does."""
    bytes_all = sum(source.bytes_on_disk for source in sources)
    bytes_done = 0
    skipped: list[Skipped] = []
    cut: list[int] = []
    empty: list[Skipped] = []
    pieces = list(_pieces(sources, bytes_all // (PIECES * processes.jobs), spool.folder))
    for piece, of_piece in zip(pieces, processes.map(_spool_piece, pieces), strict=True):
        spool.add_files(of_piece.files)
        skipped += of_piece.notes.skipped
        cut += of_piece.notes.cut
        empty += of_piece.notes.empty
        bytes_done += sum(source.bytes_on_disk for source in piece.sources)
        on_bytes(bytes_done, bytes_all)
    return ReadNotes(tuple(skipped), tuple(cut), tuple(empty))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Sources that one process reads, and how the files begin to which it writes their spans."""

    sources: tuple[Source, ...]
    spans: Path


@dataclass(frozen=True, slots=True)
class _PieceRead:
    """The files that a process has written, and what it remarked."""

    files: list[SpanFile]
    notes: ReadNotes


def _pieces(sources: Sequence[Source], bytes_min: int, folder: Path) -> Iterator[_Piece]:
    taken: list[Source] = []
    for number, source in enumerate(sources, 1):
        taken.append(source)
        if sum(each.bytes_on_disk for each in taken) >= bytes_min or number == len(sources):
            yield _Piece(tuple(taken), folder / f"piece-{number}")
            taken = []


def _spool_piece(piece: _Piece) -> _PieceRead:
    """Read a piece, and leave its spans in files."""
    files: list[SpanFile] = []

    def keep(spans: pl.DataFrame) -> None:
        files.append(write_spans(spans, piece.spans.with_suffix(f".{len(files)}.spans")))

    notes = _read(piece.sources, lambda _done, _all: None, keep)
    return _PieceRead(files, notes)


def _decode(source: Source, on_read: Callable[[int], None]) -> Iterator[DecodedSpans]:
    """Yield what is in a source, piece by piece; if nothing, then why."""
    head, chunks, damage = _sniff(unpacked(source, on_read))
    decoded, is_empty = None, True
    for decoded in _decode_by_form(source.name, head, chunks):
        is_empty &= not decoded.rows and decoded.table is None and not decoded.problems
        yield decoded
    if decoded is None:
        yield DecodedSpans(problems=[Problem(source.name, damage or _EMPTY)])
    elif is_empty:
        yield DecodedSpans(empty=empty_text(head))


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
        yield from _decode_messages(name, [whole_message(chunks)])
    elif not is_text and begins_prefixed(head):
        for messages in _runs(prefixed_messages(chunks)):
            yield from _decode_messages(name, messages)
    else:
        yield from decoded_documents(name, with_printed_spans(documents(chunks)))


def _runs(messages: Iterator[Frame]) -> Iterator[list[Frame]]:
    """Yield messages that follow one another, as many as are read together."""
    run: list[Frame] = []
    size = 0
    for message in messages:
        if run and size + len(message.data) > RUN_BYTES:
            yield run
            run, size = [], 0
        run.append(message)
        size += len(message.data)
    if run:
        yield run


def _decode_messages(name: str, messages: Sequence[Frame]) -> Iterator[DecodedSpans]:
    """Decode protobuf messages by columns; each for itself where that cannot be."""
    try:
        requests = _whole_requests(messages)
        if len(requests) == 1:
            yield from _decode_pieces(name, replace(messages[0], data=requests[0]))
            return
        decoded = _by_columns(requests)
    except InputError:  # Damaged, or no protobuf: the careful reader says which.
        decoded = None
    if decoded is None:
        yield from (_decode_message(name, message) for message in messages)
    else:
        yield decoded


def _whole_requests(messages: Sequence[Frame]) -> list[bytes]:
    """Unpack messages to read them by columns; none where they are few or one is cut off.

    Raises InputError where one cannot be unpacked.
    """
    is_large = sum(len(message.data) for message in messages) >= COLUMNS_BYTES_MIN
    if not is_large or any(message.problem for message in messages) or not can_read_columns():
        return []
    requests: list[bytes] = []
    for message in messages:
        requests.append(unpacked_message(message.data))
        if sum(map(len, requests)) > FRAME_BYTES_MAX:
            return []
    return requests


def _decode_pieces(name: str, message: Frame) -> Iterator[DecodedSpans]:
    """Decode a large message piece by piece; raises InputError before the first."""
    for piece in request_pieces(message.data, RUN_BYTES):
        decoded = _by_columns([message.data[piece.start : piece.stop]])
        yield decode_message(name, message, piece) if decoded is None else decoded


def _by_columns(requests: Sequence[bytes]) -> DecodedSpans | None:
    """Return the spans of requests in columns; None where one of them needs care."""
    read = span_columns(requests) if requests else None
    return None if read is None else DecodedSpans(table=read[0], cut=read[1])


def _decode_message(name: str, message: Frame) -> DecodedSpans:
    """Decode one message; the collector's file exporter writes many, one after the other."""
    if not message.number:
        return decode_message(name, message)
    where = f"{name} message {message.number}"
    try:
        data = unpacked_message(message.data)
    except DamagedError as damage:
        return DecodedSpans(problems=[Problem(where, message.problem or str(damage))])
    if begins_document(data):
        return decode_document(where, Frame(1, data.strip(), message.problem))
    return decode_message(name, Frame(message.number, data, message.problem))


class _Problems:
    """What could not be read of one source.

    A run of parts that are no OTLP counts as one, also where an agent prints its spans between.
    """

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._repeats: list[int] = []
        self._is_foreign_run = False

    def add(self, decoded: DecodedSpans) -> None:
        """Take what is wrong with the next piece of the source."""
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


class _Held:
    """Spans that were read, which become one table for `keep` when there are many."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._tables: list[pl.DataFrame] = []
        self._rows: list[SpanRow] = []  # after those of the tables
        self._size = 0  # of tables in bytes, of rows in characters, nearly all in attributes

    def add(self, decoded: DecodedSpans) -> None:
        """Take spans, in their order."""
        if decoded.table is not None:
            self._end_rows()
            self._tables.append(decoded.table)
            self._size += int(decoded.table.estimated_size())
        self._rows += decoded.rows
        self._size += sum(len(attributes) for *_, attributes, _, _ in decoded.rows)
        count = len(self._rows) + sum(table.height for table in self._tables)
        if count >= ROWS_HELD_MAX or self._size >= CHARS_HELD_MAX:
            self.flush()

    def flush(self) -> None:
        """Give away the spans that are held."""
        self._end_rows()
        if self._tables:
            self._keep(concat_spans(self._tables))
            self._tables, self._size = [], 0

    def _end_rows(self) -> None:
        if self._rows:
            self._tables.append(span_table(self._rows))
            self._rows = []
