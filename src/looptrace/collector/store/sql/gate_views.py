"""The decisions as SQL views: events, gates, incidents, pivots, opinions and tasks, from SQLite.

DuckDB's wheel does not contain its extension for SQLite, which would be downloaded. So Python reads
the tables and hands them over whole; they are small beside the turns.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, get_args

import duckdb
import polars as pl

from looptrace.analyzer.gates.decisions import Decision
from looptrace.analyzer.gates.events import EventType, GateCause, TaskStatus
from looptrace.analyzer.gates.incidents import IncidentState
from looptrace.analyzer.schema.column import Column, schema_of
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.layout import GATES_FILE, read_evaluated
from looptrace.collector.store.reader import open_gates

_TEXT, _INT = pl.String(), pl.Int64()
_NS = "ns since 1970, UTC"


def _names(literal: object) -> str:
    return ", ".join(get_args(literal))


_DECISION = f"decision of a person: {_names(Decision)}"


class View(NamedTuple):
    """One view: its query for SQLite ("" for incidents, which are derived), and its columns."""

    sql: str
    columns: tuple[Column, ...]


_EVENT_COLUMNS = (
    Column("seq", _INT, "events", "number of the event in the order of recording, from 1"),
    Column("id", _TEXT, "id", "the event; the same turns give the same id"),
    Column("type", _TEXT, "name", f"type of the event: {_names(EventType)}"),
    Column("task", _TEXT, "id", "task of the event"),
    Column("agent", _TEXT, "name", 'agent of the loop; "" where the whole task loops'),
    Column("rule", _TEXT, "name", 'rule that found the loop; "" of a reset'),
    Column("finding", _TEXT, "id", 'the finding; "" of a reset'),
    Column("at_ns", _INT, _NS, "end of the turn, or time of the resolution"),
    Column("action", _TEXT, "name", "action for the agent", "a resolution or a reset"),
    Column("turn", _INT, "turns", "turn of the task; a message has the turn before it"),
    Column("attempts", _INT, "times", "attempts since the last reset or order to move on"),
    Column("loop_count", _INT, "times", "repeats since then; of a reset the repeats that it ended"),
    Column("signature", _TEXT, "text", "short form of what repeats"),
    Column("reason", _TEXT, "text", "the loop in words; for a reset `person`, `completed`, `idle`"),
    Column("gate", _TEXT, "id", 'gate that the event opens or resolves, else ""'),
    Column("decision", _TEXT, "name", f"{_DECISION}; or withdrawn", "neither"),
    Column("note", _TEXT, "text", "what the person wrote", "no person wrote a note"),
    Column("trace_id", _TEXT, "id", "trace of the turn"),
    Column("span_id", _TEXT, "id", "span of the turn"),
)
_UNRESOLVED = "unresolved"
_GATE_COLUMNS = (
    Column("id", _TEXT, "id", "the gate"),
    Column("event", _TEXT, "id", "event that opened it: `events.id`"),
    Column("task", _TEXT, "id", "task that it stops"),
    Column("rule", _TEXT, "name", "rule that found the loop"),
    Column("signature", _TEXT, "text", "short form of what repeats"),
    Column("why", _TEXT, "name", f"its cause: {_names(GateCause)}"),
    Column("loop_count", _INT, "times", "repeats when it opened"),
    Column("opened_ns", _INT, _NS, "time of the opening"),
    Column("status", _TEXT, "name", "open, resolved or withdrawn"),
    Column("resolved_ns", _INT, _NS, "time of the resolution", _UNRESOLVED),
    Column(
        "decision",
        _TEXT,
        "name",
        _DECISION,
        f"{_UNRESOLVED}, or a message in the trace resolved it",
    ),
    Column("note", _TEXT, "text", "what the person wrote", f"{_UNRESOLVED}, or without a note"),
    Column("incident", _TEXT, "id", "the incident: `incidents.id`"),
    Column("service_version", _TEXT, "name", "version of the service", "it is unknown"),
)
_INCIDENT_COLUMNS = (
    Column("id", _TEXT, "id", "the incident, the same in every store"),
    Column("state", _TEXT, "name", f"its state: {_names(IncidentState)}"),
    Column("family", _TEXT, "name", "folder of the rules that see its loop, or one rule"),
    Column("tool", _TEXT, "name", 'tools of one round, "" for none'),
    Column("signature", _TEXT, "text", "short form of what repeats"),
    Column("agent", _TEXT, "name", 'agent of the loop; "" where the whole task loops'),
    Column("service", _TEXT, "name", "service (`service.name`)"),
    Column("reason", _TEXT, "text", "the newest loop in words"),
    Column("first_ns", _INT, _NS, "opening of its first gate"),
    Column("last_ns", _INT, _NS, "opening of its last gate"),
    Column("tasks", _INT, "tasks", "tasks with a gate of it"),
    Column("gates", _INT, "gates", "gates, without those that were withdrawn"),
    Column("gates_open", _INT, "gates", "those on which nobody has decided"),
    Column("seconds", pl.Float64(), "s", "what its loops had lasted at their gates"),
    Column("input_tokens", _INT, "tokens", "tokens that models had read meanwhile"),
    Column("output_tokens", _INT, "tokens", "tokens that models had written meanwhile"),
    Column("owner", _TEXT, "name", "the owner", "without an owner"),
    Column(
        "versions", pl.List(pl.String()), "names", "versions of the service (`service.version`)"
    ),
    Column(
        "resolved_in",
        _TEXT,
        "name",
        'of one that is resolved or back again: the last version before; "" for none known',
    ),
    Column("money", pl.Float64(), "`currency`", "what models cost meanwhile", "nothing was priced"),
    Column("currency", _TEXT, "name", 'that of the prices; "" without prices'),
    Column("back_in", _TEXT, "name", 'the version that brought it back; "" for none'),
)
_PIVOT_COLUMNS = (
    Column("event", _TEXT, "id", "event that issued it: `events.id`"),
    Column("task", _TEXT, "id", "task that it was issued to"),
    Column("pivot_count", _INT, "pivots", "pivots of the task so far, including this one"),
    Column("entropy_count", _INT, "times", "attempts of its loop since the previous pivot"),
    Column("at_ns", _INT, _NS, "time of the pivot"),
)
_SILENT = "no opinion"
_OPINION_COLUMNS = (
    Column("gate", _TEXT, "id", "gate of the judge's opinion: `gates.id`"),
    Column("at_ns", _INT, _NS, "time of the answer"),
    Column("is_regressive", _INT, "0 or 1", "whether the turns undid or broke something", _SILENT),
    Column(
        "no_progress", _INT, "0 or 1", "whether they made no progress towards the goal", _SILENT
    ),
    Column("is_external", _INT, "0 or 1", "whether the obstacle is outside the agent", _SILENT),
    Column("reasoning", _TEXT, "text", "why, in the judge's words", _SILENT),
    Column("no_opinion", _TEXT, "text", "why there is no opinion", "there is an opinion"),
)
_TASK_COLUMNS = (
    Column("task", _TEXT, "id", "task with at least one event"),
    Column("status", _TEXT, "name", f"state of the task: {_names(TaskStatus)}"),
    Column("pivot_count", _INT, "pivots", "pivots since the last reset"),
    Column("loop_count", _INT, "times", "repeats of its longest loop since the last reset"),
    Column("updated_ns", _INT, _NS, "time of its last event"),
)

GATE_VIEWS = {
    "events": View(
        """
        SELECT seq, id, type, task, agent, rule, finding, at_ns,
            json_extract(body, '$.action'), json_extract(body, '$.turn'),
            json_extract(body, '$.attempts'), json_extract(body, '$.loop_count'),
            json_extract(body, '$.signature'), json_extract(body, '$.reason'),
            json_extract(body, '$.gate'), json_extract(body, '$.decision'),
            json_extract(body, '$.note'), json_extract(body, '$.trace_id'),
            json_extract(body, '$.span_id')
        FROM events WHERE type NOT IN ('endpoint_disabled', 'endpoint_enabled', 'promise_withdrawn')
        """,
        _EVENT_COLUMNS,
    ),
    "gates": View(
        """
        SELECT id, event, task, rule, signature, why, loop_count, opened_ns, status, resolved_ns,
            decision, note, incident,
            (SELECT nullif(body ->> 'service_version', '') FROM events WHERE id = gates.event)
        FROM gates
        """,
        _GATE_COLUMNS,
    ),
    "pivots": View(
        "SELECT event, task, pivot_count, entropy_count, at_ns FROM pivots", _PIVOT_COLUMNS
    ),
    "opinions": View(
        """
        SELECT gate, at_ns, is_regressive, no_progress, is_external, reasoning, no_opinion
        FROM opinions
        """,
        _OPINION_COLUMNS,
    ),
    "incidents": View("", _INCIDENT_COLUMNS),
    "tasks": View(
        "SELECT task, status, pivot_count, loop_count, updated_ns FROM tasks", _TASK_COLUMNS
    ),
}


def create_gate_views(connection: duckdb.DuckDBPyConnection, stores: Iterable[Path]) -> None:
    """Copy the gate tables of stores into a DuckDB; empty ones where nothing was decided."""
    schemas = {name: schema_of(view.columns) for name, view in GATE_VIEWS.items()}
    frames = {name: [schema.to_frame()] for name, schema in schemas.items()}
    for store_dir in stores:
        # Without events, the first ingest may not have come to the gates.
        if (store_dir / GATES_FILE).is_file() or read_evaluated(store_dir).events:
            with open_gates(store_dir) as gates:
                for name, view in GATE_VIEWS.items():
                    table = gates.table(view.sql, schemas[name]) if view.sql else None
                    frames[name].append(_incidents(gates) if table is None else table)
    for name, parts in frames.items():
        create_table(connection, name, pl.concat(parts))


def _incidents(gates: GateStore) -> pl.DataFrame:
    schema = schema_of(_INCIDENT_COLUMNS)
    rows = [[getattr(each, name) for name in schema] for each in gates.incidents()]
    return pl.DataFrame(rows, schema, orient="row")


def create_table(connection: duckdb.DuckDBPyConnection, name: str, rows: pl.DataFrame) -> None:
    """Copy rows into a new table of a DuckDB."""
    # DuckDB takes the stream itself, because it would need pyarrow to read a frame.
    connection.register("frame", rows.__arrow_c_stream__())
    connection.execute(f"CREATE TABLE {name} AS FROM frame")
    connection.unregister("frame")
