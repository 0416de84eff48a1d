"""What was decided, as SQL sees it: events, gates, pivots, opinions and tasks, out of SQLite.

DuckDB's extension for SQLite is none of its wheel and would be fetched, so that the tables are
read by Python and handed over whole; they are few beside the turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import duckdb
import polars as pl

from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.layout import GATES_FILE

_TEXT, _INT = pl.String(), pl.Int64()

GATE_VIEWS: dict[str, tuple[str, pl.Schema]] = {
    "events": (
        """
        SELECT seq, id, type, task, agent, rule, finding, at_ns,
            json_extract(body, '$.action'), json_extract(body, '$.turn'),
            json_extract(body, '$.attempts'), json_extract(body, '$.loop_count'),
            json_extract(body, '$.signature'), json_extract(body, '$.reason'),
            json_extract(body, '$.gate'), json_extract(body, '$.decision'),
            json_extract(body, '$.note'), json_extract(body, '$.trace_id'),
            json_extract(body, '$.span_id')
        FROM events
        """,
        pl.Schema(
            {"seq": _INT}
            | dict.fromkeys(("id", "type", "task", "agent", "rule", "finding"), _TEXT)
            | {"at_ns": _INT, "action": _TEXT}
            | dict.fromkeys(("turn", "attempts", "loop_count"), _INT)
            | dict.fromkeys(("signature", "reason", "gate", "decision", "note"), _TEXT)
            | dict.fromkeys(("trace_id", "span_id"), _TEXT)
        ),
    ),
    "gates": (
        """
        SELECT id, event, task, rule, signature, why, loop_count, opened_ns, status, resolved_ns,
            decision, note
        FROM gates
        """,
        pl.Schema(
            dict.fromkeys(("id", "event", "task", "rule", "signature", "why"), _TEXT)
            | {"loop_count": _INT, "opened_ns": _INT, "status": _TEXT, "resolved_ns": _INT}
            | {"decision": _TEXT, "note": _TEXT}
        ),
    ),
    "pivots": (
        "SELECT event, task, pivot_count, entropy_count, at_ns FROM pivots",
        pl.Schema(
            {"event": _TEXT, "task": _TEXT}
            | dict.fromkeys(("pivot_count", "entropy_count", "at_ns"), _INT)
        ),
    ),
    "opinions": (
        """
        SELECT gate, at_ns, is_regressive, no_progress, is_external, reasoning, no_opinion
        FROM opinions
        """,
        pl.Schema(
            {"gate": _TEXT, "at_ns": _INT}
            | dict.fromkeys(("is_regressive", "no_progress", "is_external"), _INT)
            | {"reasoning": _TEXT, "no_opinion": _TEXT}
        ),
    ),
    "tasks": (
        "SELECT task, status, pivot_count, loop_count, updated_ns FROM tasks",
        pl.Schema(
            {"task": _TEXT, "status": _TEXT}
            | dict.fromkeys(("pivot_count", "loop_count", "updated_ns"), _INT)
        ),
    ),
}


def create_gate_views(connection: duckdb.DuckDBPyConnection, stores: Iterable[Path]) -> None:
    """Copy the tables of stores' gates into a DuckDB; empty ones where nothing was decided.

    Raises:
        StoreError: if the file of the gates cannot be read.
    """
    frames = {name: [schema.to_frame()] for name, (_, schema) in GATE_VIEWS.items()}
    for path in (store_dir / GATES_FILE for store_dir in stores):
        if path.is_file():
            with GateStore.open(path) as gates:
                for name, view in GATE_VIEWS.items():
                    frames[name].append(gates.table(*view))
    for name, parts in frames.items():
        frame = pl.concat(parts)
        # The stream itself, because DuckDB reads a frame by pyarrow, which is not asked for.
        connection.register("frame", frame.__arrow_c_stream__())
        connection.execute(f"CREATE TEMP TABLE {name} AS FROM frame")
        connection.unregister("frame")
