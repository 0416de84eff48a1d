"""The store: spans, turns and findings as Parquet files that any engine can read.

A store is a folder with a marker file and, for each table, files by day and by bucket. A bucket
holds whole tasks, and whatever else their turns depend on, so that it is the unit of work.

Spans and what people decided are the truth, and turns, findings and gates are made from them. So a
killed ingest costs nothing: the next one brings every span to its bucket and makes the rest anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from looptrace.analyzer.engine.batch import Detection, detect
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.fingerprint.source import fingerprint_source
from looptrace.analyzer.gates.resolutions import with_decisions
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.normalize.span_tree import joined_names
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, Skipped, distinct_spans
from looptrace.analyzer.schema.turns import IS_STEP, IS_USER, numbered
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.analyzer.text.digests import digest
from looptrace.collector.content.policy import Content, with_content
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.key import content_key
from looptrace.collector.store.layout import (
    GATES_FILE,
    RULES_FILE,
    UNFINISHED_FILE,
    is_store,
    write_marker,
    write_note,
)
from looptrace.collector.store.locks import NAME, StoreError, ingesting, make_folder
from looptrace.collector.store.migration import migrate
from looptrace.collector.store.parquet import (
    BUCKETS,
    TABLES,
    bucket_made_with,
    expire,
    finding_table,
    prepare_files,
    read_bucket,
    sweep,
    write_bucket,
)
from looptrace.collector.store.placement import (
    Traces,
    buckets_with,
    count_known,
    of_traces,
    place,
    tied_traces,
)
from looptrace.collector.store.reader import count_rows

# Buckets are normalised together until they have so many spans; they are in memory at a time.
SPANS_AT_ONCE = 20_000
# What the file of an unfinished `add` begins with, before the buckets that traces were moved from.
_ADDING = "adding"


OnJudged = Callable[[int, int], None]  # buckets judged, and those in all


@dataclass(frozen=True, slots=True)
class Ingested:
    """What one ingest did, and how many turns, findings and open gates the store holds after it.

    `spans_known` were there before. `seq_before` is the number of the last event before those that
    this ingest recorded. `skipped` are the spans that lost against another with the same id.
    """

    spans_new: int
    spans_known: int
    turns: int
    findings: int
    gates_opened: int
    gates_open: int
    seq_before: int
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class _Changed:
    """A bucket to be made anew: of these traces, which are tied to others, and their spans."""

    bucket: int
    traces: Traces
    spans: pl.DataFrame  # SPAN_SCHEMA


@dataclass(frozen=True, slots=True)
class _Derived:
    """What was made anew: of these tasks, and what was detected in them."""

    tasks: set[str]
    detection: Detection


def prepare(store_dir: Path) -> None:
    """Make a store where there is none.

    Raises:
        StoreError: if the folder is something else, or another process writes to it.
    """
    with _locked(store_dir):
        pass


def ingest(
    spans: pl.DataFrame,
    store_dir: Path,
    policy: DetectionPolicy = DEFAULT,
    webhooks: Sequence[Webhook] = (),
    content: Content = "full",
    on_judged: OnJudged = lambda _done, _all: None,
) -> Ingested:
    """Add spans to a store as `Writer.ingest` does; raises what `writing` and it raise.

    As much of their content is stored as the policy says.
    """
    with writing(store_dir, policy, webhooks) as writer:
        if content != "full":
            spans = with_content(spans, content, content_key(store_dir))
        return writer.ingest(spans, on_judged)


@contextmanager
def writing(
    store_dir: Path,
    policy: DetectionPolicy = DEFAULT,
    webhooks: Sequence[Webhook] = (),
) -> Iterator[Writer]:
    """Be the one who writes to a store, which is made where there is none.

    Raises:
        StoreError: if the folder is something else than a store, a file cannot be read or
            written, or another process writes to it.
    """
    with _locked(store_dir):
        if not (store_dir / GATES_FILE).exists():
            (store_dir / UNFINISHED_FILE).touch()  # What the spans say of gates is not in it.
        with GateStore.open(store_dir / GATES_FILE, webhooks) as gates:
            yield Writer(store_dir, policy, gates)


class Writer:
    """The one who writes to a store."""

    def __init__(self, store_dir: Path, policy: DetectionPolicy, gates: GateStore) -> None:
        self._dir = store_dir
        self._policy = policy
        self._gates = gates
        self._resolution_ids: set[str] = set()  # decisions that the turns hold

    def ingest(
        self, spans: pl.DataFrame, on_judged: OnJudged = lambda _done, _all: None
    ) -> Ingested:
        """Add spans (`SPAN_SCHEMA`), and decide on gates; buckets judged are told as they are.

        What the tables hold afterwards depends only on the set of all spans ever ingested and on
        what people decided, and the findings on the rules of the last ingest. Events of gates are
        only ever added, and new ones go to the outbox of the webhooks. One bucket, or some small
        ones, are in memory at a time, beside the given spans. Whatever a writer that was killed
        left behind is repaired.

        Raises:
            StoreError: if a file cannot be read or written.
        """
        spans, skipped = distinct_spans(spans)
        unfinished, settings = self._dir / UNFINISHED_FILE, _hash(self._policy)
        stale = _stale(self._dir, settings)
        unfinished.touch()
        seq_before = self._gates.last_seq()
        known = count_known(self._dir, spans)
        touched, replaced = place(self._dir, spans)
        resolutions = self._gates.resolutions()
        touched |= dict.fromkeys(stale | _decided_or_renamed(self._dir, self._gates))
        opened = 0
        for count, derived in enumerate(self._derive(touched), 1):
            opened += self._decide(derived)
            on_judged(count, len(touched))
        gone = _tasks_gone(self._dir, self._gates)
        self._gates.record((), map(TaskState, sorted(gone)), time.time_ns())
        self._resolution_ids.update(each.id for each in resolutions)
        write_note(self._dir / RULES_FILE, settings)
        unfinished.unlink()
        return Ingested(
            spans_new=spans.height - known,
            spans_known=known,
            turns=count_rows(self._dir, "turns", "kind", IS_STEP),
            findings=count_rows(self._dir, "findings", "id", pl.lit(value=True)),
            gates_opened=opened,
            gates_open=len(self._gates.gates("open")),
            seq_before=seq_before,
            skipped=(*skipped, *replaced),
        )

    def has_decisions(self) -> bool:
        """Return whether the turns lack a decision that people made."""
        return any(each.id not in self._resolution_ids for each in self._gates.resolutions())

    def needs_ingest(self) -> bool:
        """Return whether the store must be judged anew before spans may be added to it.

        It must be where other settings judged it or an ingest was killed, not where an `add` was.
        """
        unfinished = self._dir / UNFINISHED_FILE
        was_ingesting = unfinished.exists() and not unfinished.read_bytes()
        return was_ingesting or not _is_of(self._dir, _hash(self._policy))

    def give_up_ingest(self) -> None:
        """Let an ingest that failed be none, where the store did not need it."""
        write_note(self._dir / UNFINISHED_FILE, _ADDING)

    def add(self, spans: pl.DataFrame) -> None:
        """Add spans, and what people decided, where somebody else decides on gates.

        The store was ingested into before. The spans of an `add` that was killed are to be added
        again.

        Raises:
            StoreError: if a file cannot be read or written.
        """
        spans, _ = distinct_spans(spans)
        resolutions = [
            each for each in self._gates.resolutions() if each.id not in self._resolution_ids
        ]
        unfinished = self._dir / UNFINISHED_FILE
        left = _left_by_killed(unfinished)

        def note(buckets: set[int]) -> None:
            left.update(buckets)
            write_note(unfinished, " ".join([_ADDING, *map(str, sorted(left))]))

        note(left)
        touched, _ = place(self._dir, spans, note)
        touched |= dict.fromkeys(left)
        if resolutions:
            for bucket in buckets_with(self._dir, {each.trace_id for each in resolutions}):
                touched[bucket] = None
        for _ in self._derive(touched):
            pass  # Somebody else decides.
        self._resolution_ids.update(each.id for each in resolutions)
        unfinished.unlink()

    def expire(self, days_max: int, bytes_max: int) -> list[str]:
        """Delete the days before the last `days_max`, and the oldest where that is not enough.

        Returned are the days. Gates and what people decided are kept.

        Raises:
            StoreError: if a file cannot be deleted.
        """
        return expire(self._dir, days_max, bytes_max)

    def _derive(self, touched: dict[int, Traces]) -> Iterator[_Derived]:
        """Make the turns and findings of traces anew from their spans, bucket by bucket.

        Small buckets are normalised together, because each call costs as much as some hundred
        spans do. They share no task, so that their turns do not depend on each other.
        """
        waiting: list[_Changed] = []
        for bucket, traces in sorted(touched.items()):
            spans = read_bucket(self._dir, "spans", bucket)
            tied = tied_traces(spans, traces)
            mine = spans.filter(of_traces(tied))
            self._gates.add_session_names(joined_names(mine, self._policy.sameness.sessions))
            waiting.append(_Changed(bucket, tied, mine.select(list(SPAN_SCHEMA))))
            if sum(changed.spans.height for changed in waiting) >= SPANS_AT_ONCE:
                yield from self._derive_together(waiting)
                waiting = []
        yield from self._derive_together(waiting)

    def _derive_together(self, buckets: Sequence[_Changed]) -> Iterator[_Derived]:
        """Normalise and detect once for all these buckets, and write each of them.

        What normalising remarks on concerns how spans are read, not whether they are stored, so
        that it is left to whoever analyses them.
        """
        if not buckets:
            return
        spans = pl.concat([changed.spans for changed in buckets])
        turns, _ = turns_of(spans, self._policy.sameness)
        turns = numbered(with_decisions(turns, self._gates.resolutions(), self._policy.sameness))
        detection = detect(turns, self._policy)
        for changed in buckets:
            yield self._write(changed, turns, detection)

    def _write(self, changed: _Changed, turns: pl.DataFrame, detection: Detection) -> _Derived:
        """Replace the stored rows of a bucket's traces by new ones."""
        bucket, of_task = changed.bucket, pl.col("task").is_in
        traces = changed.spans["trace_id"].unique().implode()
        own = set(turns.filter(pl.col("trace_id").is_in(traces))["task"])
        stored = read_bucket(self._dir, "turns", bucket)
        tasks = own | set(stored.filter(of_traces(changed.traces))["task"])
        others = stored.filter(~of_task(tasks))
        every = numbered(pl.concat([others, turns.filter(of_task(own))]))
        source = fingerprint_source(self._policy.sameness)
        if not others.is_empty() and bucket_made_with(self._dir, "turns", bucket) != source:
            source = ""
        write_bucket(self._dir, "turns", bucket, every, every["start_ns"], source)
        detection = _of_tasks(detection, own)
        kept = read_bucket(self._dir, "findings", bucket).filter(~of_task(tasks))
        findings = pl.concat([kept, finding_table(detection.findings)]).sort(
            "task", "turn_first", "turn_last", "rule", "id"
        )
        starts = every.filter(~IS_USER).select("task", "start_ns", turn_first="turn")
        started = findings.join(
            starts, on=["task", "turn_first"], how="left", maintain_order="left"
        )
        write_bucket(self._dir, "findings", bucket, findings, started["start_ns"])
        return _Derived(tasks, detection)

    def _decide(self, derived: _Derived) -> int:
        """Record what was detected; returns how many gates opened."""
        detection = derived.detection
        loops_no_more = (self._gates.tasks() & derived.tasks) - {s.task for s in detection.states}
        states = [*detection.states, *map(TaskState, sorted(loops_no_more))]
        new = self._gates.record(detection.events, states, time.time_ns(), detection.openings)
        return sum(event.type == "gate_opened" for event in new)


@contextmanager
def _locked(store_dir: Path) -> Iterator[None]:
    """Make the store where there is none, and keep other ingests out meanwhile."""
    try:
        make_folder(store_dir)
        names = {entry.name for entry in store_dir.iterdir()} - set(TABLES)
        if not is_store(store_dir) and not all(name.startswith(NAME) for name in names):
            raise StoreError(f"{store_dir}: has files and is not a store; name an empty folder.")
        with ingesting(store_dir):
            _prepare(store_dir)
            yield
    except OSError as error:
        raise StoreError(
            f"{error.filename or store_dir}: cannot be used ({error.strerror}); "
            "check space and permissions, then try again."
        ) from error


def _prepare(store_dir: Path) -> None:
    """Sweep what a killed ingest left; migrate a store, or make a new one's marker, last."""
    sweep(store_dir)
    if is_store(store_dir):
        migrate(store_dir)
        return
    prepare_files(store_dir)
    write_marker(store_dir)


def _stale(store_dir: Path, settings: str) -> set[int]:
    """Return the buckets whose findings may be none of these settings, or lag behind the spans."""
    whole = not (store_dir / UNFINISHED_FILE).exists()
    return set() if whole and _is_of(store_dir, settings) else set(range(BUCKETS))


def _is_of(store_dir: Path, settings: str) -> bool:
    """Return whether these settings judged the store the last time."""
    noted = store_dir / RULES_FILE
    return noted.is_file() and noted.read_bytes() == settings.encode()


def _left_by_killed(unfinished: Path) -> set[int]:
    """Return the buckets that a killed `add` moved traces from."""
    return set(map(int, unfinished.read_bytes().split()[1:])) if unfinished.exists() else set()


def _hash(policy: DetectionPolicy) -> str:
    return digest(repr(policy))


def _tasks_gone(store_dir: Path, gates: GateStore) -> set[str]:
    """Return the recorded tasks that turned out to be parts of others, or got another name."""
    buckets = (read_bucket(store_dir, "turns", bucket, ["task"]) for bucket in range(BUCKETS))
    return gates.tasks().difference(*(turns["task"].unique() for turns in buckets))


def _decided_or_renamed(store_dir: Path, gates: GateStore) -> set[int]:
    """Return the buckets with gates that were resolved, or whose task was named, since judging."""
    traces = gates.pending() | gates.traces_of(_tasks_gone(store_dir, gates))
    return buckets_with(store_dir, traces) if traces else set()


def _of_tasks(detection: Detection, tasks: set[str]) -> Detection:
    return Detection(
        findings=tuple(finding for finding in detection.findings if finding.task in tasks),
        events=tuple(event for event in detection.events if event.task in tasks),
        states=tuple(state for state in detection.states if state.task in tasks),
        openings=detection.openings,
    )
