"""Reads traces: whatever paths name, OTLP or an export, to one table of spans.

Bad input raises nothing. Each part that cannot be read is reported once, and the rest is read.
"""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, iterdecode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from looptrace._core import begins_json, begins_protobuf
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.schema.distinct_spans import distinct_spans
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, Skipped
from looptrace.collector.files.sources import Source, find_sources, unpacked, unpacked_message
from looptrace.collector.importers.console.lines import with_printed_spans
from looptrace.collector.importers.documents import decoded_documents, empty_text
from looptrace.collector.otlp.frames import DamagedError, Frame
from looptrace.collector.otlp.json import decode_document
from looptrace.collector.otlp.json_documents import documents
from looptrace.collector.otlp.protobuf import (
    begins_prefixed,
    decode_message,
    message_pieces,
    prefixed_messages,
    whole_message,
)
from looptrace.collector.otlp.span_rows import DecodedSpans, Problem, placeless_text
from looptrace.collector.otlp.span_table import Block, joined_table

# How many spans, and bytes in them, are held before they become a table.
ROWS_HELD_MAX = 50_000
CHARS_HELD_MAX = 16 << 20
# How much of a source is looked at to tell its form.
HEAD_BYTES = 4096

OnBytes = Callable[[int, int], None]
Keep = Callable[[pl.DataFrame], None]

_UTF16 = (BOM_UTF16_LE, BOM_UTF16_BE)
_PARQUET = b"PAR1"  # So a Parquet file begins.
# So a table as CSV begins, with the names of columns; also with a mark of the order of bytes.
_CSV = re.compile(rb'(?:\xef\xbb\xbf)?"?[\w.@ ]+"?(?:,"?[\w.@ ]+"?){2}')
# How the files of Aider begin, which are prose (aider-chat 0.86.2: aider/io.py).
_PROSE = (b"# aider chat started at", b"TO LLM ")
_AIDER = "Aider's files are prose; give logs of its requests, such as those of LiteLLM's proxy"
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
    """Remarks on the spans that were read, beside them in `SpansRead`."""

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
    notes = _read(sources, on_bytes, tables.append)
    spans, clashes = distinct_spans(pl.concat(tables))
    skipped = (*missing, *notes.skipped, *clashes)
    return SpansRead(spans, skipped, notes.cut, notes.empty, len(sources))


def spool_spans(
    paths: Sequence[str], spool: SpanSpool, on_bytes: OnBytes = lambda _done, _all: None
) -> ReadNotes:
    """Read spans as `read_spans` does into a spool, where a span may be twice.

    Raises:
        UnavailableError: if there is no room for temporary files.
    """
    sources, missing = find_sources(paths)
    notes = _read(sources, on_bytes, spool.add)
    return ReadNotes((*missing, *notes.skipped), notes.cut, notes.empty, len(sources))


def _read(sources: Sequence[Source], on_bytes: OnBytes, keep: Keep) -> ReadNotes:
    """Read sources one after the other, and give away the spans table by table."""
    bytes_all = sum(source.bytes_on_disk for source in sources)
    bytes_before = 0
    skipped: list[Skipped] = []
    cut: list[int] = []
    empty: list[Skipped] = []
    held = _HeldSpans(keep)
    for source in sources:
        problems, placeless = _Problems(), list[int]()
        on_read = _progress(source, on_bytes, bytes_before, bytes_all)
        for decoded in _decode(source, on_read):
            held.add(decoded)
            problems.add(decoded)
            cut += decoded.cut
            placeless += decoded.placeless
            empty += [Skipped(source.name, decoded.empty)] if decoded.empty else []
        skipped.extend(problems.skipped())
        skipped += [Skipped(source.name, placeless_text(len(placeless)))] if placeless else []
        on_read(source.bytes_on_disk)  # Also where it could not be read to its end.
        bytes_before += source.bytes_on_disk
    held.flush()
    return ReadNotes(tuple(skipped), tuple(cut), tuple(empty))


def _progress(
    source: Source, on_bytes: OnBytes, before: int, bytes_all: int
) -> Callable[[int], None]:
    """Return a function that turns the bytes read of one source into those of all."""
    return lambda done: on_bytes(before + min(done, source.bytes_on_disk), bytes_all)


def _decode(source: Source, on_read: Callable[[int], None]) -> Iterator[DecodedSpans]:
    """Yield what is in a source, piece by piece; if nothing, then why."""
    head, chunks, damage = _sniff(unpacked(source, on_read))
    decoded, is_empty = None, True
    for decoded in _decode_by_form(source.name, head, chunks):
        has_more = bool(decoded.problems or decoded.placeless)
        is_empty &= not decoded.is_any and not has_more
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
    if head.startswith(_UTF16):  # PowerShell writes what a command prints so.
        texts = iterdecode(chunks, "utf-16", errors="replace")
        chunks = (text.encode() for text in texts)
    if head.lstrip().startswith(_PROSE):
        yield DecodedSpans(problems=[Problem(name, _AIDER)])
        return
    is_text = begins_json(head) or head.isspace() or head.startswith(_UTF16)
    if head.startswith(_PARQUET):
        # Exports as tables are rare, and so are the forms of records that this imports.
        from looptrace.collector.importers.tables import decode_table  # noqa: PLC0415

        yield from decode_table(name, chunks)
    elif not is_text and begins_protobuf(head):
        yield from _decode_message(name, whole_message(chunks))
    elif not is_text and begins_prefixed(head):
        for message in prefixed_messages(chunks):
            yield from _decode_prefixed(name, message)
    elif not is_text and _CSV.match(head) and (table := _csv_decoder(head)):
        yield from table(name, chunks)
    else:
        yield from decoded_documents(name, with_printed_spans(documents(chunks)))


def _csv_decoder(head: bytes) -> Callable[[str, Iterator[bytes]], Iterator[DecodedSpans]] | None:
    """Return the decoder of a table as CSV, by its first line; None for other text."""
    from looptrace.collector.importers.tables import begins_csv, decode_csv  # noqa: PLC0415

    return decode_csv if begins_csv(head) else None


def _decode_message(name: str, message: Frame) -> Iterator[DecodedSpans]:
    """Decode a protobuf message; a large one piece by piece."""
    for piece in message_pieces(message):
        yield _decode_spans_or_logs(name, message, piece)


def _decode_spans_or_logs(
    name: str, message: Frame, piece: tuple[int, int, int] | None
) -> DecodedSpans:
    """Return the rows of a protobuf message of spans or of logs, which differ in their records."""
    decoded = decode_message(name, message, piece)
    if decoded.spans is not None or not decoded.problems:
        return decoded
    # Most sources hold spans alone.
    from looptrace.collector.coding_agents.otlp_logs import decode_proto  # noqa: PLC0415

    logged = decode_proto(message.data[piece[0] : piece[1]] if piece else message.data, name)
    return logged if logged.rows or logged.placeless else decoded


def _decode_prefixed(name: str, message: Frame) -> Iterator[DecodedSpans]:
    """Decode a message of the collector's file exporter, which writes many after each other."""
    where = f"{name} message {message.number}"
    try:
        data = unpacked_message(message.data)
    except DamagedError as damage:
        yield DecodedSpans(problems=[Problem(where, message.problem or str(damage))])
        return
    if begins_json(data):
        yield decode_document(where, Frame(1, data.strip(), message.problem))
    else:
        yield from _decode_message(name, replace(message, data=data))


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
            more = f" ({repeats:,} more like it)" if repeats else ""
            yield Skipped(problem.where, problem.why + more)


class _HeldSpans:
    """Spans that were read, which become one table for `keep` when there are many."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._blocks: list[Block] = []
        self._count = 0
        self._size = 0  # of columns in bytes, of rows in characters, nearly all in attributes

    def add(self, decoded: DecodedSpans) -> None:
        if decoded.spans is not None:
            self._blocks.append(decoded.spans)
            self._size += decoded.spans.size
            self._count += len(decoded.spans)
        if decoded.rows:
            self._blocks.append(decoded.rows)
            self._size += sum(len(attributes) for *_, attributes, _, _ in decoded.rows)
            self._count += len(decoded.rows)
        if self._count >= ROWS_HELD_MAX or self._size >= CHARS_HELD_MAX:
            self.flush()

    def flush(self) -> None:
        if self._blocks:
            self._keep(joined_table(self._blocks))
            self._blocks, self._count, self._size = [], 0, 0
