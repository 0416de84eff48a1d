"""The erasure of a store: what is chosen goes from its files, and the rest is evaluated again.

A killed erasure leaves a store whose next ingest evaluates what is there; run again, the command
goes on.
"""

from dataclasses import dataclass, field
from pathlib import Path

from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.fields.dialect_table import DialectTable
from looptrace.analyzer.normalize.span_ties import with_ties
from looptrace.analyzer.text.digests import digest
from looptrace.collector.erasure.choice import (
    Choice,
    Wanted,
    names_of,
    traces_named,
    traces_of_turns,
)
from looptrace.collector.erasure.gate_rows import GateRows
from looptrace.collector.erasure.log_rows import forget_in_log, logged_spans
from looptrace.collector.erasure.proof import left_of
from looptrace.collector.store import audit
from looptrace.collector.store.buckets.placement import replace_spans
from looptrace.collector.store.file_names import BUCKETS
from looptrace.collector.store.layout import (
    GATES_FILE,
    UNFINISHED_FILE,
    gates_path,
    read_evaluated,
    write_evaluated,
    write_note,
)
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.objects.snapshot import fetch_tables
from looptrace.collector.store.publishing.copying import change_copies
from looptrace.collector.store.tables.file_contents import Having
from looptrace.collector.store.tables.parquet import TABLES, read_bucket
from looptrace.collector.store.tables.removal import damaged_files
from looptrace.collector.store.writer import Writer, writing

_NAMED = ["trace_id", "session", "task", "service"]


@dataclass(frozen=True, slots=True)
class Found:
    """What a store has of what is wanted: rows by their kind."""

    choice: Choice
    rows: dict[str, int] = field(default_factory=dict)

    @property
    def is_any(self) -> bool:
        """Whether there is anything."""
        return any(self.rows.values())


def find(store_dir: Path, wanted: Wanted, dialects: DialectTable) -> Found:
    """Return what a store and its log have of what is wanted."""
    with GateRows.open(gates_path(store_dir)) as gates:
        names = names_of(wanted, gates.renamed())
    choice = Choice(wanted)
    columns = _NAMED + (["attributes", "events"] if wanted.kind == "user" else [])
    for bucket in range(BUCKETS):
        spans = read_bucket(store_dir, "spans", bucket, columns)
        choice.traces |= traces_named(spans, wanted)
        turns = read_bucket(store_dir, "turns", bucket, _NAMED)
        choice.traces |= traces_of_turns(turns, wanted, names)
    for spans in logged_spans(store_dir):
        choice.traces |= traces_named(with_ties(spans, dialects), wanted)
    return _with_tasks(store_dir, choice)


def _with_tasks(store_dir: Path, choice: Choice) -> Found:
    """Add the tasks of the chosen turns, and count what goes."""
    of_others, rows = set[str](), dict.fromkeys(("spans", "turns", "spans of the log"), 0)
    is_chosen = choice.is_chosen()
    for bucket in range(BUCKETS):
        spans = read_bucket(store_dir, "spans", bucket, ["trace_id", "service"])
        rows["spans"] += spans.filter(is_chosen).height
        turns = read_bucket(store_dir, "turns", bucket, _NAMED)
        chosen = turns.filter(is_chosen)
        rows["turns"] += chosen.height
        choice.tasks |= {*chosen["task"]}
        of_others |= {*turns.filter(~is_chosen)["task"]}
    for spans in logged_spans(store_dir):
        rows["spans of the log"] += spans.filter(is_chosen).height
    choice.tasks_left = choice.tasks & of_others
    choice.tasks -= of_others
    return Found(choice, rows)


def forget_in_copies(store_dir: Path, wanted: Wanted, policy: DetectionPolicy) -> list[str]:
    """Erase what is wanted from the copies of a store on object storage; return their addresses.

    They may have days that are no longer in the store.

    Raises:
        StoreError: if what is at an address is not the store's copy, or something is left.
        UnavailableError: if the server does not answer, or there is no room.
    """

    def work(folder: Path) -> bool:
        fetch_tables(folder, *TABLES)
        return forget(folder, wanted, policy).is_any

    return change_copies(store_dir, work)


def forget(
    store_dir: Path, wanted: Wanted, policy: DetectionPolicy, who: str | None = None
) -> Found:
    """Erase what a store has of what is wanted, as somebody asked; return what was erased.

    Webhooks get nothing. Nobody else may use the store meanwhile.

    Raises:
        StoreError: if another process writes to the store, a file cannot be read or written, or
            something is left.
    """
    with writing(store_dir, policy) as writer:
        found = find(store_dir, wanted, policy.dialects)
        if not found.is_any:
            return found
        choice = _with_logged_tasks(store_dir, writer, found, policy)
        # The next process that opens the store evaluates it from the remaining spans.
        write_note(store_dir / UNFINISHED_FILE, "")
        write_evaluated(store_dir, read_evaluated(store_dir)._replace(events=0, decisions=0))
        name = digest(wanted.name)
        audit.note(store_dir, "erased", who, kind=wanted.kind, hash=name, **found.rows)
        rows = {**found.rows, **_erase(store_dir, choice)}
        with SpanSpool() as spool:
            writer.ingest(spool)
        if left := left_of(store_dir, choice):
            raise StoreError(
                f"{store_dir}: {wanted} is not forgotten: something is left in {', '.join(left)}; "
                "run the command again, and report a bug if this error comes again."
            )
    return Found(choice, rows)


def _with_logged_tasks(
    store_dir: Path, writer: Writer, found: Found, policy: DetectionPolicy
) -> Choice:
    """Store the chosen spans of the log, and return the choice with their tasks.

    A server decides on spans before it stores them, so the gates know tasks that no turn names.
    """
    if not found.rows["spans of the log"]:
        return found.choice
    is_chosen = found.choice.is_chosen()
    with SpanSpool() as spool:
        for spans in logged_spans(store_dir):
            spool.add(spans.filter(is_chosen))
        writer.ingest(spool)
    return find(store_dir, found.choice.wanted, policy.dialects).choice


def _erase(store_dir: Path, choice: Choice) -> dict[str, int]:
    with GateRows.open(store_dir / GATES_FILE) as gates:
        rows = gates.forget(choice)
    for bucket in range(BUCKETS):
        ids = read_bucket(store_dir, "spans", bucket, _NAMED)
        traces = ids.filter(choice.is_chosen())["trace_id"].unique()
        spans = read_bucket(store_dir, "spans", bucket, which=Having("trace_id", traces))
        replace_spans(store_dir, {bucket: (traces, spans.filter(~choice.is_chosen()))})
    damaged = damaged_files(store_dir)  # Nobody can say whose spans they have.
    for path in damaged:
        path.unlink()
    return {**rows, **forget_in_log(store_dir, choice), "damaged files": len(damaged)}
