"""Export of gates, as spans in the traces of the agents that loop.

Each event of a store becomes a span `looptrace.gate` below the span of its turn, with links to the
turns of the loop. Its id is made from the event's, so sending it twice makes one span. The store
keeps the position of each receiver.
"""

import logging
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext

from looptrace.analyzer.gates.directives import Directives, notice_of
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.display import plain
from looptrace.collector.gate_attributes import SAMPLED, attributes_of
from looptrace.collector.store import reader
from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.layout import put_note, read_note
from looptrace.collector.store.locks import NAME, StoreError, reading
from looptrace.collector.store.tables.parquet import read_bucket
from looptrace.collector.worker import Worker
from looptrace.errors import InputError, UnavailableError
from looptrace.semconv import GATE_EVENT, SCOPE

_logger = logging.getLogger(__name__)

BATCH_EVENTS = 256
# As many as the SDK keeps for a span; of more, those in the middle are left out.
LINKS_MAX = 128
TIMEOUT_S = 10.0
RETRY_S, RETRY_S_MAX = 1.0, 60.0
POLL_S = 5.0

_EXPORTERS = "opentelemetry.exporter"
# What an exporter says besides: of a connection, of an answer over HTTP, and of one over gRPC.
_REASON = re.compile(
    r".*(?:\[(?:Errno -?\d+|SSL: \w+)\]|remote host:) ([\w ]+)|.*(?:reason|error details): (.+)"
)
_REASON_CHARS_MAX = 200

_LINKED = ["task", "turn", "trace_id", "span_id"]
_GATES = frozenset({"gate_opened", "gate_resolved"})
_PROGRESS_FILE = f"{NAME}.exports.json"
_TRACES_PATH = "/v1/traces"
_SCHEMES = ("http", "https", "grpc", "grpcs")


class ExportError(UnavailableError):
    """The gates cannot be sent; the message is one line that says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """The receiver of spans, and the events to send: only those of gates, or all.

    The scheme of `url` is that of OTLP over HTTP, or `grpc`, or `grpcs` with TLS. Without `content`
    a signature is a hash, and no text is sent that an agent may have written.
    """

    url: str
    every: bool = False
    content: bool = False


@dataclass(frozen=True, slots=True)
class Exported:
    """The number of sent spans, and the number of the last event that was read."""

    spans: int
    seq: int


def exporter_of(url: str) -> SpanExporter:
    """Return the official exporter for a URL; the OTEL_* variables set everything else.

    Raises:
        InputError: if spans cannot be sent to the URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise InputError(
            "the address is not one of OTLP; it begins with "
            f"{', '.join(f'{scheme}://' for scheme in _SCHEMES)} and has a host."
        )
    if parts.scheme in ("grpc", "grpcs"):
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as over_grpc  # noqa: PLC0415

        insecure = parts.scheme == "grpc"
        return over_grpc.OTLPSpanExporter(parts.netloc, insecure=insecure, timeout=TIMEOUT_S)
    from opentelemetry.exporter.otlp.proto.http import trace_exporter as over_http  # noqa: PLC0415

    whole = parts._replace(path=_TRACES_PATH) if parts.path in ("", "/") else parts
    return over_http.OTLPSpanExporter(whole.geturl(), timeout=TIMEOUT_S)


def export(store_dir: Path, target: Target, *, again: bool = False) -> Exported:
    """Send the events that were not sent to a target yet, or all of them `again`.

    Raises:
        ExportError: if the target does not accept them; accepted ones are recorded.
    """
    sender = _Sender(store_dir, target)
    seq = 0 if again else sender.seq()
    spans = 0
    refusals = _Refusals()
    exporters = logging.getLogger(_EXPORTERS)
    exporters.addHandler(refusals)
    try:
        for batch in sender.batches(seq):
            seq, sent = batch[-1][0], sender.send(batch)
            if sent is None:
                raise ExportError(
                    f"{urlsplit(target.url).netloc.rpartition('@')[2]} does not accept the spans "
                    f"({refusals.why()}); check that a receiver of OTLP listens there, and export "
                    "again: it goes on after the last accepted span."
                )
            spans += sent
    finally:
        exporters.removeHandler(refusals)
        sender.close()
    return Exported(spans, seq)


class _Refusals(logging.Handler):
    """The reasons for which spans were not accepted; exporters only log them, in long lines."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append(record.getMessage())

    def why(self) -> str:
        """Return the last reason."""
        found = (_REASON.search(text) for text in reversed(self._texts))
        reasons = [next(filter(None, match.groups())) for match in found if match]
        last = [*reasons, *self._texts[-1:], "it gave no reason"][0]
        return plain(last, _REASON_CHARS_MAX)


class GateExporter:
    """Sends events as they are recorded, on a thread of its own, until it is closed.

    Unsent events stay in the store, so nothing piles up in memory, and after a kill the next
    exporter goes on from there. The pauses between tries of an unreachable target grow.
    """

    def __init__(self, store_dir: Path, target: Target) -> None:
        """Prepare to send.

        Raises:
            InputError: if spans cannot be sent to the URL.
        """
        self.spans = 0  # sent
        self.failures = 0  # batches that were not accepted
        self._sender = _Sender(store_dir, target)
        self._worker = Worker("looptrace-export", self._run)
        self.start, self.wake = self._worker.start, self._worker.wake

    def close(self, timeout_s: float) -> bool:
        """Send what is possible, stop, and return whether it ended in time."""
        self._worker.close(timeout_s / 2)
        self._sender.close()  # Ends the waiting within an export.
        return self._worker.close(timeout_s / 2)

    def _run(self) -> Generator[float, None, None]:
        retry_s = RETRY_S
        while True:
            if self._round():
                retry_s = RETRY_S
                yield POLL_S
            else:
                self.failures += 1
                self._worker.pause(retry_s)
                retry_s = min(retry_s * 2, RETRY_S_MAX)
                yield 0.0

    def _round(self) -> bool:
        """Send all waiting events; returns whether all were accepted."""
        try:
            for batch in self._sender.batches(self._sender.seq()):
                sent = self._sender.send(batch)
                if sent is None:
                    return False
                self.spans += sent
        except StoreError as error:
            _logger.warning("%s", error)
            return False
        return True


class _Sender:
    """Sends events of one store to one target, and records its position."""

    def __init__(self, store_dir: Path, target: Target) -> None:
        self._dir = store_dir
        self._target = target
        self._exporter = exporter_of(target.url)

    def close(self) -> None:
        self._exporter.shutdown()

    def seq(self) -> int:
        """Return the number of the last event that the target accepted."""
        return _progress(self._dir).get(_name(self._target), 0)

    def batches(self, after_seq: int) -> Iterator[list[tuple[int, GateEvent]]]:
        with reader.open_gates(self._dir) as gates:
            events = gates.events(after_seq)
            while batch := list(islice(events, BATCH_EVENTS)):
                yield batch

    def send(self, batch: list[tuple[int, GateEvent]]) -> int | None:
        """Send a batch, and record it; returns its number of spans, None if it was not accepted."""
        events = [event for _, event in batch if self._is_wanted(event)]
        turns = _turns_of(self._dir, {event.task for event in events})
        spans = spans_of(events, turns, content=self._target.content)
        if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            return None
        seqs = _progress(self._dir) | {_name(self._target): batch[-1][0]}
        put_note(self._dir / _PROGRESS_FILE, seqs)
        return len(spans)

    def _is_wanted(self, event: GateEvent) -> bool:
        has_place = bool(event.trace_id and event.span_id)
        return has_place and (self._target.every or event.type in _GATES)


def spans_of(
    events: Iterable[GateEvent], turns: pl.DataFrame, *, content: bool
) -> list[ReadableSpan]:
    """Return a span for each event, with links to those turns (`TURN_SCHEMA`) that loop."""
    by_task = turns.partition_by("task", as_dict=True)
    return [_span(event, by_task.get((event.task,)), content=content) for event in events]


def _turns_of(store_dir: Path, tasks: set[str]) -> pl.DataFrame:
    """Read the turns of some tasks, as far as links need them: a store may be large."""
    linked = TURN_SCHEMA.to_frame().select(_LINKED)
    for bucket in range(BUCKETS) if tasks else ():
        with reading(store_dir):
            turns = read_bucket(store_dir, "turns", bucket, _LINKED)
        linked = linked.vstack(turns.filter(pl.col("task").is_in(list(tasks))))
    return linked.sort("task", "turn", maintain_order=True)


def _span(event: GateEvent, turns: pl.DataFrame | None, *, content: bool) -> ReadableSpan:
    trace_id = int(event.trace_id, 16)
    return ReadableSpan(
        GATE_EVENT,
        _context(trace_id, _span_id(event)),
        parent=_context(trace_id, int(event.span_id, 16)),
        resource=Resource.create({SERVICE_NAME: SCOPE}),
        attributes=attributes_of(notice_of(event, Directives()), content=content),
        links=[Link(_context(*ids)) for ids in _linked(event, turns)],
        instrumentation_scope=InstrumentationScope(SCOPE),
        start_time=event.at_ns,
        end_time=event.at_ns,
    )


def _linked(event: GateEvent, turns: pl.DataFrame | None) -> list[tuple[int, int]]:
    """Return trace and span of a loop's turns, each once; those of the event if none is known."""
    known: list[tuple[str, str]] = []
    if turns is not None:
        within = pl.col("turn").is_between(event.turn_first, event.turn)
        pairs = turns.filter(within).select("trace_id", "span_id")
        known = pairs.unique(maintain_order=True).rows()
    known = known or [(event.trace_id, event.span_id)]
    if len(known) > LINKS_MAX:
        known = [*known[: LINKS_MAX // 2], *known[-LINKS_MAX // 2 :]]
    return [(int(trace_id, 16), int(span_id, 16)) for trace_id, span_id in known]


def _span_id(event: GateEvent) -> int:
    """Return an id that the event always has; 0 is none."""
    return int(digest(f"{event.trace_id} {event.id}"), 16) or 1


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=SAMPLED)


def _name(target: Target) -> str:
    """Name a target without its URL, which may hold a password."""
    return digest(f"{target.url} {'all' if target.every else 'gates'}")


def _progress(store_dir: Path) -> dict[str, int]:
    what_then = "delete it, and all events are sent again"
    return read_note(store_dir / _PROGRESS_FILE, dict[str, int], what_then) or {}
