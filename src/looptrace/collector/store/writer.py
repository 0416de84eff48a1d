"""The store: spans, turns and findings as Parquet files that any engine can read.

A store is a folder with a marker file and, for each table, files by day and by bucket. A bucket
holds whole tasks, and whatever else their turns depend on, so that it is the unit of work.

Spans and what people decided are the truth, and turns, findings and gates are made from them. So a
killed ingest costs nothing: the next one brings every span to its bucket and makes the rest anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.ruleset import DEFAULT, RuleSet
from looptrace.analyzer.engine.batch import Judged, judged_of
from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness
from looptrace.analyzer.fingerprint.signatures import digest
from looptrace.analyzer.gates.recovery import DEFAULT as RECOVERY
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.gates.resolutions import decision_turns
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.normalize.span_fields import facts_of
from looptrace.analyzer.normalize.span_tree import groups
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, Skipped, distinct_spans
from looptrace.analyzer.schema.turns import IS_STEP, IS_USER, TURN_SCHEMA, numbered
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.content.policy import Content, content_key, with_content
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.locks import MARKER, NAME, StoreError, ingesting, reading
from looptrace.collector.store.parquet import (
    BUCKETS,
    FINDING_SCHEMA,
    STORED_SPAN_SCHEMA,
    TABLES,
    expire,
    prepare_files,
    read_bucket,
    sweep,
    write_bucket,
)

__all__ = [
    "Counts",
    "Ingested",
    "StoreError",
    "Writer",
    "counts",
    "expire",
    "gates_path",
    "ingest",
    "is_store",
    "open_gates",
    "prepare",
    "read_spans",
    "read_turns",
    "read_turns_of",
    "require_store",
    "worked",
    "writing",
]

_UNFINISHED = f"{NAME}.unfinished"  # There while turns and findings may lag behind the spans.
_RULES = f"{NAME}.rules"  # Hash of the settings that findings and gates come from.
_GATES = f"{NAME}.gates.db"
_SCHEMA_VERSION = 1

# More than enough to spread tasks evenly over the buckets.
_BUCKET_HASH_BYTES = 8
_ROW_KEY = ["trace_id", "span_id"]


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


Traces = set[str] | None  # of a bucket; None stands for all


@dataclass(frozen=True, slots=True)
class _Derived:
    """What was made anew: of these tasks, and what was judged of them."""

    tasks: set[str]
    judged: Judged


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a store holds."""

    spans: int
    sessions: int


def is_store(path: Path) -> bool:
    """Tell whether a path is a store's folder."""
    return (path / MARKER).is_file()


def prepare(store_dir: Path) -> None:
    """Make a store where there is none.

    Raises:
        StoreError: if the folder is something else, or another process writes to it.
    """
    with _locked(store_dir):
        pass


def require_store(store_dir: Path) -> None:
    """Check that a folder is a store that this version can read.

    Raises:
        StoreError: if it is none, or one of a newer version.
    """
    marker = store_dir / MARKER
    if not marker.is_file():
        raise StoreError(f"{store_dir}: is not a store; make one with `looptrace ingest`.")
    try:
        found = json.loads(marker.read_bytes())
        version, buckets = int(found["schema"]), int(found["buckets"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{marker}: cannot be read ({error}); make a new store from the traces."
        ) from error
    if version != _SCHEMA_VERSION or buckets != BUCKETS:
        raise StoreError(
            f"{store_dir}: was written by another version of looptrace (schema {version}, "
            f"{buckets} buckets; known is schema {_SCHEMA_VERSION}, {BUCKETS} buckets); "
            "update looptrace."
        )


def counts(store_dir: Path) -> Counts:
    """Count the spans of a store, and the sessions of its turns.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    sessions: set[str] = set()
    with reading(store_dir):
        for bucket in range(BUCKETS):
            sessions.update(read_bucket(store_dir, "turns", bucket, ["session"])["session"])
        return Counts(_count(store_dir, "spans", "span_id", pl.lit(value=True)), len(sessions))


def read_turns(store_dir: Path) -> Iterator[pl.DataFrame]:
    """Read the turns (`TURN_SCHEMA`) bucket by bucket, sorted by task and turn.

    A task is never split between two tables. Empty buckets are left out.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    for bucket in range(BUCKETS):
        with reading(store_dir):
            turns = read_bucket(store_dir, "turns", bucket)
        if not turns.is_empty():
            # A person's message has the number of the turn before it, and comes after it.
            yield turns.sort("task", "turn", IS_USER, "order_ns", maintain_order=True)


def read_turns_of(store_dir: Path, task: str) -> pl.DataFrame:
    """Read the turns (`TURN_SCHEMA`) of one task, sorted.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    mine = (turns.filter(pl.col("task") == task) for turns in read_turns(store_dir))
    return next((turns for turns in mine if turns.height), TURN_SCHEMA.to_frame())


def read_spans(store_dir: Path) -> Iterator[pl.DataFrame]:
    """Read the spans (`SPAN_SCHEMA`) bucket by bucket, sorted by trace and start.

    A trace is never split between two tables. Empty buckets are left out.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    for bucket in range(BUCKETS):
        with reading(store_dir):
            spans = read_bucket(store_dir, "spans", bucket, list(SPAN_SCHEMA))
        if not spans.is_empty():
            yield spans.sort("trace_id", "start_ns", "span_id")


def worked(store_dir: Path) -> pl.DataFrame:
    """Read which agents (`agent`) took turns in which tasks (`task`).

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    require_store(store_dir)
    columns = ["task", "agent", "kind"]
    with reading(store_dir):
        buckets = [read_bucket(store_dir, "turns", bucket, columns) for bucket in range(BUCKETS)]
    pairs = [turns.filter(IS_STEP).select("task", "agent").unique() for turns in buckets]
    return pl.concat(pairs)


def open_gates(store_dir: Path, webhooks: Sequence[Webhook] = ()) -> GateStore:
    """Open the gates of a store; what is recorded goes to the outbox of these webhooks.

    Raises:
        StoreError: if the folder is no store, or its gates cannot be read or were never written.
    """
    return GateStore.open(gates_path(store_dir), webhooks)


def gates_path(store_dir: Path) -> Path:
    """Return the file with the gates of a store.

    Raises:
        StoreError: if the folder is no store, or its gates were never written.
    """
    require_store(store_dir)
    path = store_dir / _GATES
    if not path.is_file():
        raise StoreError(f"{store_dir}: holds no gates yet; run `looptrace ingest` once more.")
    return path


def ingest(
    spans: pl.DataFrame,
    store_dir: Path,
    judging: RuleSet = DEFAULT,
    recovery: Recovery = RECOVERY,
    sameness: Sameness = NOTHING,
    webhooks: Sequence[Webhook] = (),
    content: Content = "full",
) -> Ingested:
    """Add spans to a store as `Writer.ingest` does; raises what `writing` and it raise.

    As much of their content is stored as the policy says.
    """
    with writing(store_dir, judging, recovery, sameness, webhooks) as writer:
        if content != "full":
            spans = with_content(spans, content, content_key(store_dir))
        return writer.ingest(spans)


@contextmanager
def writing(
    store_dir: Path,
    judging: RuleSet = DEFAULT,
    recovery: Recovery = RECOVERY,
    sameness: Sameness = NOTHING,
    webhooks: Sequence[Webhook] = (),
) -> Iterator[Writer]:
    """Be the one who writes to a store, which is made where there is none.

    Raises:
        StoreError: if the folder is something else than a store, a file cannot be read or
            written, or another process writes to it.
    """
    with _locked(store_dir):
        if not (store_dir / _GATES).exists():
            (store_dir / _UNFINISHED).touch()  # What the spans say of gates is not in it.
        with GateStore.open(store_dir / _GATES, webhooks) as gates:
            yield Writer(store_dir, (judging, recovery, sameness), gates)


class Writer:
    """The one who writes to a store."""

    def __init__(
        self, store_dir: Path, settings: tuple[RuleSet, Recovery, Sameness], gates: GateStore
    ) -> None:
        self._dir = store_dir
        self._settings = settings
        self._gates = gates
        self._said: set[str] = set()  # decisions that the turns hold

    def ingest(self, spans: pl.DataFrame) -> Ingested:
        """Add spans (`SPAN_SCHEMA`), and decide on gates.

        What the tables hold afterwards depends only on the set of all spans ever ingested and on
        what people decided, and the findings on the rules of the last ingest. Events of gates are
        only ever added, and new ones go to the outbox of the webhooks. One bucket is in memory at
        a time, beside the given spans. Whatever a writer that was killed left behind is repaired.

        Raises:
            StoreError: if a file cannot be read or written.
        """
        spans, skipped = distinct_spans(spans)
        unfinished, settings = self._dir / _UNFINISHED, _hash(*self._settings)
        stale = _stale(self._dir, settings)
        unfinished.touch()
        seq_before = self._gates.last_seq()
        known = _known(self._dir, spans)
        touched, replaced = _place(self._dir, spans.with_columns(ties=_ties(spans)))
        said = self._gates.resolutions()
        touched |= dict.fromkeys(stale | _decided(self._dir, self._gates))
        opened = 0
        for bucket, traces in sorted(touched.items()):
            opened += self._decide(self._derive(bucket, traces))
        _forget_tasks(self._dir, self._gates)
        self._said.update(each.id for each in said)
        (self._dir / _RULES).write_text(settings, encoding="utf-8")
        unfinished.unlink()
        return Ingested(
            spans_new=spans.height - known,
            spans_known=known,
            turns=_count(self._dir, "turns", "kind", IS_STEP),
            findings=_count(self._dir, "findings", "id", pl.lit(value=True)),
            gates_opened=opened,
            gates_open=len(self._gates.gates("open")),
            seq_before=seq_before,
            skipped=(*skipped, *replaced),
        )

    def has_decisions(self) -> bool:
        """Tell whether people decided something that the turns do not hold yet."""
        return any(each.id not in self._said for each in self._gates.resolutions())

    def add(self, spans: pl.DataFrame) -> None:
        """Add spans, and what people decided, where somebody else decides on gates.

        The store was ingested into before.

        Raises:
            StoreError: if a file cannot be read or written.
        """
        spans, _ = distinct_spans(spans)
        said = [each for each in self._gates.resolutions() if each.id not in self._said]
        (self._dir / _UNFINISHED).touch()
        touched, _ = _place(self._dir, spans.with_columns(ties=_ties(spans)))
        if said:
            for bucket in _buckets_with(self._dir, {each.trace_id for each in said}):
                touched[bucket] = None
        for bucket, traces in sorted(touched.items()):
            self._derive(bucket, traces)
        self._said.update(each.id for each in said)
        (self._dir / _UNFINISHED).unlink()

    def expire(self, days_max: int, bytes_max: int) -> list[str]:
        """Delete the days before the last `days_max`, and the oldest where that is not enough.

        Returned are the days. Gates and what people decided are kept.

        Raises:
            StoreError: if a file cannot be deleted.
        """
        return expire(self._dir, days_max, bytes_max)

    def _derive(self, bucket: int, traces: Traces) -> _Derived:
        """Make the turns and findings of a bucket's traces anew from its spans.

        What normalising remarks on concerns how spans are read, not whether they are stored, so
        that it is left to whoever analyses them.
        """
        judging, recovery, sameness = self._settings
        spans = read_bucket(self._dir, "spans", bucket)
        mine = _of_traces(_tied(spans, traces))
        turns, _ = turns_of(spans.filter(mine).select(list(SPAN_SCHEMA)), sameness)
        stored = read_bucket(self._dir, "turns", bucket)
        tasks = {*turns["task"], *stored.filter(mine)["task"]}
        others = ~pl.col("task").is_in(tasks)
        said = decision_turns(each for each in self._gates.resolutions() if each.task in tasks)
        turns = numbered(pl.concat([turns, said]))
        every = numbered(pl.concat([stored.filter(others), turns]))
        write_bucket(self._dir, "turns", bucket, every, every["start_ns"])
        judged = judged_of(turns, judging, recovery)
        kept = read_bucket(self._dir, "findings", bucket).filter(others)
        findings = pl.concat([kept, _finding_table(judged.findings)]).sort(
            "task", "turn_first", "turn_last", "rule", "id"
        )
        starts = every.filter(~IS_USER).select("task", "start_ns", turn_first="turn")
        started = findings.join(
            starts, on=["task", "turn_first"], how="left", maintain_order="left"
        )
        write_bucket(self._dir, "findings", bucket, findings, started["start_ns"])
        return _Derived(tasks, judged)

    def _decide(self, derived: _Derived) -> int:
        """Record what was judged; returns how many gates opened."""
        loops_no_more = (self._gates.tasks() & derived.tasks) - {
            state.task for state in derived.judged.states
        }
        states = [*derived.judged.states, *map(TaskState, sorted(loops_no_more))]
        new = self._gates.record(derived.judged.events, states, time.time_ns())
        return sum(event.type == "gate_opened" for event in new)


@contextmanager
def _locked(store_dir: Path) -> Iterator[None]:
    """Make the store where there is none, and keep other ingests out meanwhile."""
    try:
        store_dir.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in store_dir.iterdir()} - set(TABLES)
        if not is_store(store_dir) and not all(name.startswith(NAME) for name in names):
            raise StoreError(f"{store_dir}: is a folder of something else; give a new one.")
        with ingesting(store_dir):
            _prepare(store_dir)
            yield
    except OSError as error:
        raise StoreError(
            f"{error.filename or store_dir}: cannot be used ({error.strerror}); "
            "check space and permissions, then try again."
        ) from error


def _prepare(store_dir: Path) -> None:
    """Sweep what a killed ingest left, and make a new store's marker, last."""
    sweep(store_dir)
    if is_store(store_dir):
        require_store(store_dir)
        return
    prepare_files(store_dir)
    aside = store_dir / f"{MARKER}.tmp"
    marker = {"schema": _SCHEMA_VERSION, "buckets": BUCKETS}
    aside.write_text(f"{json.dumps(marker)}\n", encoding="utf-8")
    aside.replace(store_dir / MARKER)


def _place(store_dir: Path, spans: pl.DataFrame) -> tuple[dict[int, Traces], list[Skipped]]:
    """Bring every span, given or stored, to the bucket where its trace belongs.

    Returned are the buckets that changed, with the traces that spans came to; None stands for all.

    What comes anew can tie stored traces together, or untie them by replacing a span, so stored
    traces can move. They are added to the one bucket before they are taken from the other, so
    that a kill loses none; it may leave them in both, which the next call puts right.
    """
    touched: dict[int, Traces] = {}
    replaced: list[Skipped] = []
    while True:
        stored = _stored_ties(store_dir)
        buckets = _buckets_of(pl.concat([stored.drop("bucket"), _tie_rows(spans)]))
        strays = stored.join(buckets, on="trace_id").filter(pl.col("bucket") != pl.col("target"))
        strays = strays.select("bucket", "trace_id").unique()
        if spans.is_empty() and strays.is_empty():
            return touched, replaced
        left = set(strays["bucket"])
        spans = pl.concat([spans, *(_split(store_dir, bucket, strays)[0] for bucket in left)])
        arriving = spans.join(buckets, on="trace_id").partition_by(
            "target", as_dict=True, include_key=False
        )
        for (bucket,), part in arriving.items():
            replaced += _add(store_dir, bucket, part)
            came = touched.setdefault(bucket, set())
            if came is not None:
                came.update(part["trace_id"])
        for bucket in left:
            _write_spans(store_dir, bucket, _split(store_dir, bucket, strays)[1])
        touched |= dict.fromkeys(left)
        spans = spans.clear()


def _add(store_dir: Path, bucket: int, spans: pl.DataFrame) -> list[Skipped]:
    """Merge spans into a bucket; returned are those that lost against another of the same id."""
    both = pl.concat([read_bucket(store_dir, "spans", bucket), spans])
    # The same span may have been stored by a version that saw other ties.
    both = both.unique(list(SPAN_SCHEMA), keep="last", maintain_order=True)
    kept, replaced = distinct_spans(both)
    _write_spans(store_dir, bucket, kept)
    return replaced


def _split(store_dir: Path, bucket: int, strays: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read a bucket's spans: those of traces that belong elsewhere, and the others."""
    spans = read_bucket(store_dir, "spans", bucket)
    traces = strays.filter(pl.col("bucket") == bucket)["trace_id"]
    leaves = spans["trace_id"].is_in(traces.implode())
    return spans.filter(leaves), spans.filter(~leaves)


def _known(store_dir: Path, spans: pl.DataFrame) -> int:
    """Count the given spans whose ids the store has."""
    ids = spans.select(_ROW_KEY)
    stored = (read_bucket(store_dir, "spans", bucket, _ROW_KEY) for bucket in range(BUCKETS))
    return pl.concat([rows.join(ids, on=_ROW_KEY, how="semi") for rows in stored]).unique().height


def _ties(spans: pl.DataFrame) -> pl.Series:
    found = [
        sorted({tie for tie in (span.session, span.task, span.task_parent, *span.links) if tie})
        for span in facts_of(spans)
    ]
    return pl.Series(found, dtype=STORED_SPAN_SCHEMA["ties"])


def _tie_rows(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of a trace and what it is tied to; every trace is tied to itself."""
    rows = spans.select("trace_id", "ties").explode("ties", empty_as_null=True)
    return rows.with_columns(pl.col("ties").fill_null(pl.col("trace_id"))).unique()


def _stored_ties(store_dir: Path) -> pl.DataFrame:
    """Return the pairs of all stored traces, with the bucket in which they stand."""
    return pl.concat(
        _tie_rows(read_bucket(store_dir, "spans", bucket, ["trace_id", "ties"])).with_columns(
            bucket=pl.lit(bucket)
        )
        for bucket in range(BUCKETS)
    )


def _buckets_of(ties: pl.DataFrame) -> pl.DataFrame:
    """Return the bucket (`target`) of every trace: the same for all that are tied together."""
    group = groups(ties.iter_rows())
    traces = ties["trace_id"].unique()
    targets = [_bucket_of(group[trace]) for trace in traces]
    return pl.DataFrame([traces, pl.Series("target", targets, dtype=pl.Int32)])


def _bucket_of(group: str) -> int:
    """Hash a group's name in a way that is the same in every version and on every machine."""
    digest = blake2b(group.encode(), digest_size=_BUCKET_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") % BUCKETS


def _stale(store_dir: Path, settings: str) -> set[int]:
    """Return the buckets whose findings may be none of these settings, or lag behind the spans."""
    noted = store_dir / _RULES
    same = noted.is_file() and noted.read_bytes() == settings.encode()
    whole = not (store_dir / _UNFINISHED).exists()
    return set() if same and whole else set(range(BUCKETS))


def _hash(*settings: RuleSet | Recovery | Sameness) -> str:
    return digest(repr(settings))


def _decided(store_dir: Path, gates: GateStore) -> set[int]:
    """Return the buckets in which a gate was resolved since they were judged."""
    traces = gates.pending()
    return _buckets_with(store_dir, traces) if traces else set()


def _buckets_with(store_dir: Path, traces: set[str]) -> set[int]:
    return set(_stored_ties(store_dir).filter(pl.col("trace_id").is_in(traces))["bucket"])


def _tied(spans: pl.DataFrame, traces: Traces) -> Traces:
    """Return the traces of a bucket that are tied to these, and these."""
    if traces is None:
        return None
    group = groups(_tie_rows(spans).iter_rows())
    meant = {group[trace] for trace in traces if trace in group}
    return traces | {trace for trace in group if group[trace] in meant}


def _of_traces(traces: Traces) -> pl.Expr:
    return pl.lit(value=True) if traces is None else pl.col("trace_id").is_in(traces)


def _forget_tasks(store_dir: Path, gates: GateStore) -> None:
    """Let tasks wait for nothing that turned out to be parts of others."""
    buckets = (read_bucket(store_dir, "turns", bucket, ["task"]) for bucket in range(BUCKETS))
    gone = gates.tasks().difference(*(turns["task"].unique() for turns in buckets))
    gates.record((), map(TaskState, sorted(gone)), time.time_ns())


def _finding_table(findings: Sequence[Finding]) -> pl.DataFrame:
    return pl.DataFrame([_flat(asdict(finding)) for finding in findings], schema=FINDING_SCHEMA)


def _flat(finding: dict[str, Any]) -> dict[str, Any]:
    cost = finding.pop("cost")
    return {**finding, **{f"cost_{name}": value for name, value in cost.items()}}


def _write_spans(store_dir: Path, bucket: int, spans: pl.DataFrame) -> None:
    spans = spans.sort("trace_id", "start_ns", "span_id")
    write_bucket(store_dir, "spans", bucket, spans, spans["start_ns"])


def _count(store_dir: Path, table: str, column: str, which: pl.Expr) -> int:
    """Count the rows of a table that fulfil a condition on one of its columns."""
    buckets = (read_bucket(store_dir, table, bucket, [column]) for bucket in range(BUCKETS))
    return sum(rows.filter(which).height for rows in buckets)
