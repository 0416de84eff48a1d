"""Stored traces for programs and notebooks: typed objects, Polars frames, SQL, and the strip."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import polars as pl

from looptrace import queries
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.report.strips.notebook import notebook_html
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.schema.turn import Turn
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.settings.given import SettingsLike, settings_of
from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.analyzer.text.task_lookup import task_named
from looptrace.collector.files.reader import spool_spans
from looptrace.collector.store import reader, writer
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.collector.store.layout import gates_path, is_store, require_store
from looptrace.collector.store.objects.client import is_object_url
from looptrace.collector.store.objects.snapshot import make_folder_of, stored_at
from looptrace.collector.store.sql.connection import QueryResult, ask_query, ask_typed
from looptrace.collector.store_analysis import analyse_store
from looptrace.engines import Engine
from looptrace.errors import InputError

# Loops of a store that a notebook shows; `findings` has all.
LOOPS_SHOWN_MAX = 5

T = TypeVar("T")
StrPath = str | os.PathLike[str]
_ALL = pl.lit(value=True)
_GATE_SCHEMA = pl.Schema(
    dict.fromkeys(("id", "task", "rule", "signature", "why", "agent", "reason"), pl.String())
    | {"loop_count": pl.Int64(), "opened_ns": pl.Int64(), "status": pl.String()}
    | {"resolved_ns": pl.Int64()}
    | dict.fromkeys(("decision", "note", "resolved_by", "incident", "service_version"), pl.String())
)


class Records(Sequence[T], Generic[T]):
    """Objects of one type, made from the rows of a frame when they are read."""

    def __init__(self, frame: pl.DataFrame, make: Callable[..., T]) -> None:
        self._frame = frame
        self._make = make

    def __len__(self) -> int:
        return self._frame.height

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Records[T]: ...

    def __getitem__(self, index: int | slice) -> T | Records[T]:
        if isinstance(index, slice):
            return Records(self._frame[index], self._make)
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._make(**self._frame.row(index, named=True))

    def __iter__(self) -> Iterator[T]:
        return (self._make(**row) for row in self._frame.iter_rows(named=True))

    def __repr__(self) -> str:
        return repr(self._frame)

    def to_polars(self) -> pl.DataFrame:
        """Return the same as a frame, a row an object."""
        return self._frame

    def _repr_html_(self) -> str:
        return self._frame._repr_html_()


@dataclass(frozen=True, slots=True)
class Task:
    """A task with its turns, findings and gates; a notebook shows its strip."""

    id: str
    turns: Records[Turn]
    findings: tuple[Finding, ...]
    events: tuple[GateEvent, ...]

    def _repr_html_(self) -> str:
        return notebook_html(self.turns.to_polars(), self.findings, self.events)


class TraceStore:
    """A store, read again at each access, so that it shows what a server wrote meanwhile."""

    def __init__(self, folder: Path, skipped: Sequence[Skipped] = ()) -> None:
        self.folder = folder
        self.skipped = tuple(skipped)  # parts of the input that could not be read

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of all tasks, in alphabetical order."""
        return tuple(self.sql("SELECT DISTINCT task FROM turns ORDER BY task")["task"])

    @property
    def turns(self) -> Records[Turn]:
        """The turns of all tasks, which must fit in memory; `task` reads the turns of one."""
        return Records(
            pl.concat([pl.DataFrame(schema=TURN_SCHEMA), *reader.read_turns(self.folder)]), Turn
        )

    @property
    def findings(self) -> Records[Finding]:
        """The findings, by task and turn."""
        rows = reader.read_rows(self.folder, "findings", _ALL)
        return Records(rows.sort("task", "turn_first", "turn_last", "rule", "id"), _finding)

    @property
    def gates(self) -> Records[StoredGate]:
        """The gates as they stand, the open ones first, then the newest."""
        gates: list[StoredGate] = []
        if gates_path(self.folder).is_file():
            with reader.open_gates(self.folder) as store:
                gates = store.gates()
        return Records(pl.DataFrame([asdict(gate) for gate in gates], _GATE_SCHEMA), StoredGate)

    def task(self, task: str) -> Task:
        """Return one task, by its id or that of its session.

        Raises:
            InputError: if the store has no task of this id, or several services have the session.
        """
        task = task_named(task, reader.tasks_named(self.folder, task))
        turns = reader.read_turns_of(self.folder, task)
        findings = reader.read_findings_of_tasks(self.folder, [task])
        events: list[GateEvent] = []
        if gates_path(self.folder).is_file():
            with reader.open_gates(self.folder) as gates:
                events = [event for _, event in gates.events(task=task)]
        return Task(task, Records(turns, Turn), tuple(findings), tuple(events))

    def detect(self, settings: SettingsLike | None = None, engine: Engine = map) -> Analysis:
        """Find the loops with these settings, without writing to the store.

        `engine` is called like `map`, with a function and the 16 buckets of the store, which share
        no task; both can be pickled, so a cluster may do the work.

        Raises:
            InputError: if a file of the store or of the settings cannot be read.
        """
        return analyse_store(self.folder, settings_of(settings), engine)

    def sql(self, sql: str) -> pl.DataFrame:
        """Return the result of one statement of DuckDB's SQL, which can only read.

        Its tables: `spans`, `turns`, `findings`, `events`, `gates`, `incidents`, `pivots`,
        `opinions`, `tasks`.

        Raises:
            InputError: if DuckDB refuses the statement, or it takes too much time or memory.
        """
        with ask_typed(self.folder, sql) as answer:
            return _frame(answer)

    def query(self, name: str, **parameters: str) -> pl.DataFrame:
        """Return the result of a query of looptrace, like `looptrace query`.

        Raises:
            InputError: if there is no query or task of this name, or if it has other parameters.
        """
        if name not in queries.names():
            raise InputError(f"There is no query {name!r}. {did_you_mean(name, queries.names())}")
        query = queries.load(name)
        wanted = {parameter.name for parameter in query.parameters}
        if wanted != parameters.keys():
            needs = ", ".join(sorted(wanted)) or "none"
            raise InputError(f"The query {name} has other parameters; it takes: {needs}.")
        with ask_query(self.folder, query, parameters) as answer:
            return _frame(answer)

    def __repr__(self) -> str:
        return f"TraceStore({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        findings = self.findings
        named = dict.fromkeys(finding.task for finding in findings)
        shown = [self.task(task)._repr_html_() for task in list(named)[:LOOPS_SHOWN_MAX]]
        more = len(named) - len(shown)
        rest = f"<p>{more:,} more tasks have findings: see findings and task(id).</p>"
        return "".join(shown) + (rest if more > 0 else "" if named else "<p>No loops found.</p>")


def open(store: StrPath) -> TraceStore:  # noqa: A001 - read as `looptrace.open`
    """Open a store of `looptrace ingest` or `looptrace serve`; needs `[analyzer]`.

    One on object storage (`s3://bucket/prefix`; needs `[objects]`) stays as it is when it is
    opened, and what is read of it is kept in a temporary folder for as long as it is used.

    Raises:
        StoreError: if the folder is not a store, or there is none at the address.
        UnavailableError: if the server of the address does not answer.
    """
    if is_object_url(store):
        folder = make_folder_of(stored_at(os.fspath(store)))
        return _until_dropped(TraceStore(folder))
    folder = Path(store)
    require_store(folder)
    return TraceStore(folder)


def analyze(paths: StrPath | Sequence[StrPath], settings: SettingsLike | None = None) -> TraceStore:
    """Find the loops in files, folders and patterns, with these settings; needs `[analyzer]`.

    The result uses a temporary folder, which is deleted with it. Input that cannot be read is in
    `skipped`.

    Raises:
        InputError: if a path is a store, which `open` reads, or settings are wrong.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    names = [os.fspath(path) for path in given]
    for name in names:
        if is_object_url(name) or is_store(Path(name)):
            raise InputError(f"{name} is a store; looptrace.open reads it.")
    policy = settings_of(settings).policy
    folder = Path(tempfile.mkdtemp(prefix="looptrace-"))
    try:
        with SpanSpool() as spool, writer.writing(folder, policy) as writing:
            read = spool_spans(names, spool)
            done = writing.ingest(spool)
    except BaseException:
        shutil.rmtree(folder)
        raise
    store = TraceStore(folder, (*read.skipped, *done.skipped))
    return _until_dropped(store)


def _until_dropped(store: TraceStore) -> TraceStore:
    """Delete the store's folder when nobody uses the store any more."""
    weakref.finalize(store, shutil.rmtree, store.folder, ignore_errors=True)
    return store


def _finding(**row: Any) -> Finding:
    return reader.finding_of_row(row)


def _frame(answer: QueryResult) -> pl.DataFrame:
    """Return rows as a frame; Polars sees their types, because DuckDB's Arrow needs pyarrow."""
    rows = list(chain.from_iterable(answer.batches))
    return pl.DataFrame(rows, answer.columns, orient="row", infer_schema_length=None)
