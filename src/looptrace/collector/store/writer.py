"""The store: spans, turns and findings as Parquet files that any engine can read.

A store is a folder with a marker file and, for each table, files by day and by bucket. A bucket
holds whole tasks, and everything on which their turns depend, so that it is the unit of work.

Spans and decisions are the source of truth, and turns, findings and gates are derived from them. So
a killed ingest costs nothing: the next one brings every span to its bucket and derives the rest
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec
import polars as pl

from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.normalize.span_ties import tie_rows, with_ties
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, Skipped
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.content.policy import Content, with_content
from looptrace.collector.store.buckets.derivation import ChangedBucket, Derivation, Derived
from looptrace.collector.store.buckets.evaluated import (
    EvaluatedBucket,
    evaluated_of,
    read_evaluated,
    write_evaluated,
)
from looptrace.collector.store.buckets.gated_tasks import decided_or_renamed, tasks_gone
from looptrace.collector.store.buckets.placement import (
    Placed,
    Traces,
    groups_of,
    place,
    stored_ties,
    tied_to,
    together,
)
from looptrace.collector.store.buckets.spending import StoreLedger
from looptrace.collector.store.evaluation import StoreEvaluation
from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.key import content_key
from looptrace.collector.store.layout import (
    GATES_FILE,
    UNFINISHED_FILE,
    gates_path,
    is_store,
    put_note,
)
from looptrace.collector.store.locks import NAME, StoreError, ingesting, make_folder
from looptrace.collector.store.migration import prepare_store
from looptrace.collector.store.promises.withdrawn import policy_in
from looptrace.collector.store.reader import count_rows
from looptrace.collector.store.retention import ExpiringDay, KeptTimes, Retention, expire
from looptrace.collector.store.sqlite_file import is_read_only
from looptrace.collector.store.tables.parquet import TABLES, buckets_with_files, count_bucket
from looptrace.collector.store.tables.removal import sweep
from looptrace.typed_json import decoded

OnEvaluated = Callable[[int, int], None]  # derived buckets, and all buckets


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of an ingest, and the turns, findings and open gates in the store after it.

    `spans_known` were stored before. `seq_before` is the number of the last event before this
    ingest. `skipped` are the spans that lost against another with the same id. `losses` are
    sentences on parts of the store that were lost, and how much of them was found again.
    """

    spans_new: int
    spans_known: int
    turns: int
    findings: int
    gates_opened: int
    gates_open: int
    seq_before: int
    skipped: tuple[Skipped, ...]
    losses: tuple[str, ...] = ()


def prepare(store_dir: Path) -> None:
    """Create a store where there is none; one that cannot be written must be there.

    Raises:
        StoreError: if the folder is something else, or another process writes to it.
    """
    if is_read_only(store_dir):
        gates_path(store_dir)
        return
    with _locked(store_dir):
        pass


def ingest(
    spans: pl.DataFrame,
    store_dir: Path,
    policy: DetectionPolicy = DEFAULT,
    webhooks: Sequence[Webhook] = (),
    content: Content = "full",
) -> Ingested:
    """Add spans to a store as `Writer.ingest` does; raises what `writing` and it raise."""
    with SpanSpool() as spool, writing(store_dir, policy, webhooks) as writer:
        spool.add(spans)
        return writer.ingest(spool, content)


@contextmanager
def writing(
    store_dir: Path,
    policy: DetectionPolicy = DEFAULT,
    webhooks: Sequence[Webhook] = (),
    threads: int = 1,
) -> Iterator[Writer]:
    """Open a store, or create it, as its only writer; limits that it withdrew only warn.

    `threads` share the making of turns.

    Raises:
        StoreError: if the folder is something else than a store, a file cannot be read or
            written, or another process writes to it.
    """
    with _locked(store_dir), GateStore.open(store_dir / GATES_FILE, webhooks) as gates:
        yield Writer(store_dir, policy_in(store_dir, policy), gates, threads)


class Writer:
    """The only writer of a store."""

    def __init__(
        self, store_dir: Path, policy: DetectionPolicy, gates: GateStore, threads: int
    ) -> None:
        self._dir = store_dir
        self._policy = policy
        self._gates = gates
        self._evaluation = StoreEvaluation(store_dir, gates, policy)
        self._threads = threads
        self._spending = StoreLedger(store_dir, policy)
        self._resolution_ids: set[str] = set()  # decisions in the turns
        # Of all stored traces: an `add` that read them again would take as long as the store is.
        self._ties: pl.DataFrame | None = None

    def ingest(
        self,
        spool: SpanSpool,
        content: Content = "full",
        on_evaluated: OnEvaluated = lambda _done, _all: None,
    ) -> Ingested:
        """Add spans (`SPAN_SCHEMA`), and decide on gates; progress is reported by bucket.

        The policy decides how much of their content is stored. The spool is consumed.

        The tables depend only on the set of all spans ever ingested and on the decisions, and the
        findings on the rules of the last ingest. Events of gates are only ever added, and new ones
        go to the outbox of the webhooks. One bucket, or some small ones, are in memory at a time.
        The state left by a killed writer is repaired.

        Raises:
            StoreError: if a file cannot be read or written.
            UnavailableError: if there is no room for temporary files.
        """
        unfinished, evaluation = self._dir / UNFINISHED_FILE, self._evaluation
        is_stale = unfinished.exists() or not evaluation.is_current()
        unfinished.touch()
        seq_before, opened = self._gates.last_seq(), 0
        with evaluation.finding_again():
            placed = self._place(spool, content)
            resolutions, evaluated = evaluation.resolutions(), read_evaluated(self._dir)
            stale = buckets_with_files(self._dir) if is_stale else ()
            again = dict.fromkeys([*stale, *evaluation.buckets_short(evaluated)])
            decided = decided_or_renamed(self._dir, self._gates)
            touched = together(together(placed.touched, decided), again)
            for count, derived in enumerate(self._derive(touched, evaluated, placed.spans), 1):
                opened += self._decide(derived)
                on_evaluated(count, len(touched))
            gone = tasks_gone(self._dir, self._gates)
            self._gates.record((), map(TaskState, sorted(gone)), time.time_ns())
        self._resolution_ids.update(each.id for each in resolutions)
        write_evaluated(self._dir, evaluated)
        self._evaluation.note()
        unfinished.unlink()
        return Ingested(
            spans_new=placed.new,
            spans_known=placed.known,
            turns=count_rows(self._dir, "turns", "kind", IS_STEP),
            findings=sum(count_bucket(self._dir, "findings", bucket) for bucket in range(BUCKETS)),
            gates_opened=opened,
            gates_open=len(self._gates.gates("open")),
            seq_before=seq_before,
            skipped=tuple(placed.skipped),
            losses=self._losses(),
        )

    def find_again(self) -> Sequence[str]:
        """Make lost turns and findings again; return sentences on what was lost.

        Raises:
            StoreError: if a file cannot be read or written.
        """
        evaluated = read_evaluated(self._dir)
        if short := self._evaluation.buckets_short(evaluated):
            self.add(SPAN_SCHEMA.to_frame(), dict.fromkeys(short))
        elif self._evaluation.losses:
            write_evaluated(self._dir, evaluated)
        return self._losses()

    def _losses(self) -> tuple[str, ...]:
        losses, self._evaluation.losses = tuple(self._evaluation.losses), []
        return losses

    def _place(
        self,
        spool: SpanSpool,
        content: Content = "full",
        on_touched: Callable[[Mapping[int, Traces]], None] = lambda _: None,
        ties: pl.DataFrame | None = None,
    ) -> Placed:
        """Bring spans to their buckets."""
        key = b"" if content == "full" else content_key(self._dir)
        given, dialects = list[pl.DataFrame](), self._policy.dialects

        def as_stored(spans: pl.DataFrame) -> pl.DataFrame:
            spans = with_ties(with_content(spans, content, key, dialects), dialects)
            given.append(tie_rows(spans))  # Here, because reading large input again takes long.
            return spans

        spool.change(as_stored)
        self._ties = None  # Until all spans are where they belong.
        return place(self._dir, spool, pl.concat(given).unique(), on_touched, ties)

    def has_decisions(self) -> bool:
        """Return whether the turns lack a person's decision."""
        return any(each.id not in self._resolution_ids for each in self._gates.resolutions())

    def needs_ingest(self) -> bool:
        """Return whether the store must be evaluated again before spans may be added to it.

        It must be after other settings or a killed ingest, but not after a killed `add`.
        """
        unfinished = self._dir / UNFINISHED_FILE
        was_ingesting = unfinished.exists() and not unfinished.read_bytes()
        return was_ingesting or not self._evaluation.is_current()

    def give_up_ingest(self) -> None:
        """Undo the mark of a failed ingest, where the store did not need one."""
        if self.needs_ingest():
            put_note(self._dir / UNFINISHED_FILE, {})

    def finish_add(self) -> None:
        """Finish a killed `add`, so that the turns are those of the stored spans.

        Raises:
            StoreError: if a file cannot be read or written.
        """
        if _unfinished_add(self._dir):
            self.add(SPAN_SCHEMA.to_frame())

    def groups(self, ties: pl.DataFrame) -> Mapping[str, str]:
        """Return the group of traces with these ties (`tie_rows`), and of the stored ones they tie.

        `add` makes the turns of whole groups.

        Raises:
            StoreError: if a file cannot be read.
        """
        return groups_of(ties, stored_ties(self._dir) if self._ties is None else self._ties)

    def add(
        self, spans: pl.DataFrame, also: Mapping[int, Traces] = MappingProxyType({})
    ) -> Mapping[str, int]:
        """Add spans and decisions, where another part decides on gates.

        The turns of other traces are made `also`. The store has had an ingest before. The caller
        adds the spans of a killed `add` again. Returns of how many spans the turns of each trace
        were made.

        Raises:
            StoreError: if a file cannot be read or written.
        """
        resolutions = [
            each for each in self._gates.resolutions() if each.id not in self._resolution_ids
        ]
        touched: dict[int, Traces] = dict(_unfinished_add(self._dir))

        def note(more: Mapping[int, Traces]) -> None:
            touched.update(together(touched, more))
            put_note(self._dir / UNFINISHED_FILE, touched)

        with SpanSpool() as spool:
            spool.add(spans)
            placed = self._place(spool, on_touched=note, ties=self._ties)
        self._ties = placed.ties
        if also:
            note(also)
        if resolutions:
            note(tied_to(self._dir, {each.trace_id for each in resolutions}, self._ties))
        evaluated = read_evaluated(self._dir)
        made: dict[str, int] = {}
        for derived in self._derive(touched, evaluated, placed.spans):
            made |= derived.spans
            # Another part decides on gates, and may have no turn any more that gets its agent late.
            self._gates.add_agents(derived.detection.events, time.time_ns())
            self._gates.put_money(derived.money)
        self._resolution_ids.update(each.id for each in resolutions)
        write_evaluated(self._dir, evaluated)
        self._evaluation.note()
        (self._dir / UNFINISHED_FILE).unlink()
        return made

    def expire(
        self, limits: KeptTimes, bytes_max: int, now_ns: int
    ) -> tuple[Retention, Sequence[ExpiringDay]]:
        """Announce and delete days as `retention.expire` does; gates and decisions are kept.

        Raises:
            StoreError: if a file cannot be read or deleted, or the note cannot be written.
        """
        noted = read_evaluated(self._dir).items()
        evaluated = {
            b: each for b, each in noted if each == evaluated_of(self._dir, b, each.source)
        }
        retention, gone = expire(self._dir, limits, bytes_max, now_ns)
        if gone:  # The first turn of a task shows what is left of it.
            self._ties = None
            self._spending.forget()
            left = {b: evaluated_of(self._dir, b, each.source) for b, each in evaluated.items()}
            write_evaluated(self._dir, left)
        return retention, gone

    def _derive(
        self,
        touched: Mapping[int, Traces],
        evaluated: dict[int, EvaluatedBucket],
        spans: Mapping[int, pl.DataFrame],
    ) -> Iterator[Derived]:
        """Derive the turns and findings of traces again from their spans, bucket by bucket.

        Those in `spans` are not read. The notes in `evaluated` are updated.
        """
        buckets = [ChangedBucket(*each) for each in sorted(touched.items())]
        resolutions = self._evaluation.resolutions()
        how = (self._policy, resolutions, dict(evaluated), self._spending, self._threads, spans)
        for derived in Derivation(self._dir, *how).of(buckets):
            self._gates.add_session_names(derived.joined_names)
            evaluated.pop(derived.bucket, None)
            if derived.evaluated is not None:
                evaluated[derived.bucket] = derived.evaluated
            yield derived

    def _decide(self, derived: Derived) -> int:
        """Record the detected loops; return the number of opened gates."""
        detection = derived.detection
        loops_no_more = (self._gates.tasks() & derived.tasks) - {s.task for s in detection.states}
        states = [*detection.states, *map(TaskState, sorted(loops_no_more))]
        new = self._gates.record(
            detection.events, states, time.time_ns(), detection.openings, is_whole=True
        )
        self._gates.put_money(derived.money)
        return sum(event.type == "gate_opened" for event in new)


@contextmanager
def _locked(store_dir: Path) -> Iterator[None]:
    """Create the store where there is none, and keep other ingests out meanwhile."""
    try:
        make_folder(store_dir)
        names = {entry.name for entry in store_dir.iterdir()} - set(TABLES)
        if not is_store(store_dir) and not all(name.startswith(NAME) for name in names):
            raise StoreError(f"{store_dir}: has files and is not a store; name an empty folder.")
        with ingesting(store_dir):
            sweep(store_dir)
            prepare_store(store_dir)
            yield
    except OSError as error:
        raise StoreError(
            f"{error.filename or store_dir}: cannot be used ({error.strerror}); "
            "check space and permissions, then try again."
        ) from error


def _unfinished_add(store_dir: Path) -> dict[int, Traces]:
    """Return the traces whose turns a killed `add` may have left behind their spans, by bucket."""
    unfinished = store_dir / UNFINISHED_FILE
    if not unfinished.exists():
        return {}
    try:
        return decoded(unfinished.read_bytes(), dict[int, set[str] | None])
    except msgspec.DecodeError:  # It is from an earlier version, or from an ingest.
        return dict.fromkeys(range(BUCKETS))
