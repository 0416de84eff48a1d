"""The rows of a server's log: spans that were acknowledged and are not in the store's files yet."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import polars as pl

from looptrace.collector.erasure.choice import Choice
from looptrace.collector.server.ingest.packed_spans import LOG, packed, unpacked
from looptrace.collector.store.layout import LOG_FILE
from looptrace.collector.store.sqlite_file import connect, explained

_KEYS = {"requests": "seq", "postponed": "number"}
_NUMBERS = "SELECT {key} FROM {table} ORDER BY {key}"
_BODY = "SELECT digest, body FROM {table} WHERE {key} = ?"
_PUT = "UPDATE {table} SET spans = ?, digest = ?, body = ? WHERE {key} = ?"
_DROP = "DELETE FROM {table} WHERE {key} = ?"


def logged_spans(store_dir: Path) -> Iterator[pl.DataFrame]:
    """Yield the spans (`SPAN_SCHEMA`) that wait in the log, row by row."""
    if (store_dir / LOG_FILE).exists():
        with _log(store_dir) as sql:
            yield from (spans for *_, spans in _rows(sql) if spans is not None)


def forget_in_log(store_dir: Path, choice: Choice) -> dict[str, int]:
    """Delete the chosen spans of the log; return the number of spans, and of damaged rows.

    Damaged rows go as well: nobody can say whose spans they have.
    """
    if not (store_dir / LOG_FILE).exists():
        return {}
    spans_gone = 0
    with _log(store_dir) as sql:
        sql.execute("PRAGMA secure_delete = ON")
        with sql:
            sql.execute("BEGIN IMMEDIATE")
            damaged = sql.execute("DELETE FROM damaged").rowcount
            for table, number, spans in _rows(sql):
                kept = None if spans is None else spans.filter(~choice.is_chosen())
                if kept is None or spans is None:
                    damaged += 1
                else:
                    spans_gone += spans.height - kept.height
                _put(sql, table, number, kept)
        sql.execute("VACUUM")
        sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return {"spans of the log": spans_gone, "damaged rows of the log": damaged}


def _put(sql: sqlite3.Connection, table: str, number: int, spans: pl.DataFrame | None) -> None:
    """Replace the spans of a row; one without any goes."""
    names = {"table": table, "key": _KEYS[table]}
    if spans is None or spans.is_empty():
        sql.execute(_DROP.format(**names), (number,))
        return
    row = packed(spans)
    sql.execute(_PUT.format(**names), (row.spans, row.digest, row.body, number))


@contextmanager
def _log(store_dir: Path) -> Iterator[sqlite3.Connection]:
    path = store_dir / LOG_FILE
    with explained(path, LOG), closing(connect(path, LOG, create=False)) as sql:
        yield sql


def _rows(sql: sqlite3.Connection) -> Iterator[tuple[str, int, pl.DataFrame | None]]:
    """Yield the table and number of each row with its spans; none where it is damaged."""
    for table, key in _KEYS.items():
        names = {"table": table, "key": key}
        for (number,) in sql.execute(_NUMBERS.format(**names)).fetchall():
            # A server that runs may have stored the row meanwhile.
            for check, body in sql.execute(_BODY.format(**names), (number,)).fetchall():
                yield table, number, unpacked(check, body)
