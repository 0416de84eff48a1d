"""Makes docs/schema.md: every column of a store, as the code writes it down and DuckDB shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from looptrace import queries
from looptrace.analyzer.schema.column import Column
from looptrace.analyzer.schema.columns import CODED, COUNTED
from looptrace.analyzer.schema.findings import FINDING_COLUMNS, LOOP_COLUMNS
from looptrace.analyzer.schema.spans import SPAN_COLUMNS, SPAN_SCHEMA, SPAN_TIES_COLUMNS
from looptrace.analyzer.schema.turns import TURN_COLUMNS
from looptrace.analyzer.settings.sections import default
from looptrace.collector.store import writer
from looptrace.collector.store.gate_views import GATE_VIEWS
from looptrace.collector.store.layout import GATES_FILE
from looptrace.collector.store.sql import connect

_HEAD = f"""# Schema of the store

<!-- Made from the columns in the code by `make docs`; edit them in analyzer/schema and in
collector/store/gate_views.py. -->

A store is a folder. Spans, turns and findings are Parquet files by day and bucket:
`TABLE/day=YYYY-MM-DD/bucket=NN/data*.parquet`, of which a busy day has several, and a table without
rows may have none. Events, gates, pivots, opinions and tasks are in `{GATES_FILE}`,
which is SQLite; SQL sees them as the views below, and programs should read them there, because the
tables of the file may change. Read everything with
[`looptrace query`](commands.md#looptrace-query):

```sh
looptrace ingest examples/traces --store store
looptrace query --store store --sql "SELECT rule, task, loop_count FROM findings"
```

Types are DuckDB's. Times are integers in nanoseconds since 1970 (UTC);
`make_timestamp(at_ns // 1000)` makes a timestamp of one. A column named `…_s` or `seconds` is in
seconds.
"""  # noqa: S608 - It is a page.

_PARTITIONS = (
    Column("day", pl.String(), "date, UTC", "folder of the row: the day on which it starts"),
    Column("bucket", pl.String(), "00 to 15", "folder of the row: a hash of its task"),
)
# By name: what one row is, and the columns.
TABLES: dict[str, tuple[str, tuple[Column, ...]]] = {
    "spans": (
        "One row a span, as it was received. `trace_id` and `span_id` are its key.",
        (*SPAN_COLUMNS, *SPAN_TIES_COLUMNS, *_PARTITIONS),
    ),
    "turns": (
        "One row a turn of an agent, computed from the spans. Null means that the trace does not "
        'say, or that turns of this kind have no such value; "" is a known empty text.',
        (*TURN_COLUMNS, *_PARTITIONS),
    ),
    "findings": ("One row a finding.", (*FINDING_COLUMNS, *_PARTITIONS, *LOOP_COLUMNS)),
    "events": ("One row a gate event. Rows are added and never deleted.", ()),
    "gates": ("One row a gate, in its state now.", ()),
    "pivots": ("One row a pivot.", ()),
    "opinions": ("One row a gate that a [judge](judge.md) was asked about.", ()),
    "tasks": ("One row a task with an event, in its state now.", ()),
}
TABLES |= {name: (TABLES[name][0], view.columns) for name, view in GATE_VIEWS.items()}


def page() -> str:
    """Return the page of all tables, the queries that ship, and the computed columns."""
    return "\n".join([*_stored(), *_shipped(), *_computed()])


def described() -> dict[str, dict[str, str]]:
    """Return the tables of an empty store as SQL sees them: the type of each column, by name."""
    with TemporaryDirectory() as folder:
        writer.ingest(SPAN_SCHEMA.to_frame(), Path(folder), default().policy)
        with connect(Path(folder)) as connection:
            names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
            return {
                table: {
                    name: str(kind)
                    for name, kind, *_ in connection.execute(f"DESCRIBE {table}").fetchall()
                }
                for table in names
            }


def _stored() -> Iterator[str]:
    yield _HEAD
    for table, types in sorted(described().items(), key=lambda item: list(TABLES).index(item[0])):
        about, columns = TABLES[table]
        by_name = {column.name: column for column in columns}
        rows = [(name, kind, *by_name[name][2:]) for name, kind in types.items()]
        yield from [f"## `{table}`", "", about, ""]
        yield from _table(("column", "type", "unit", "meaning", "null"), rows)


def _shipped() -> Iterator[str]:
    yield """## Queries that ship

`looptrace query NAME --store STORE` answers these, and the page of a server shows some. Their
columns, each with DuckDB's type:
"""
    for name in queries.names():
        query = queries.load(name)
        yield from [f"### `{name}`", "", query.purpose, ""]
        fields = [
            *(
                (f"${each.name}", each.type, f"parameter: {each.meaning}")
                for each in query.parameters
            ),
            *((each.name, each.type, each.meaning) for each in query.columns),
        ]
        yield from _table(("column", "type", "meaning"), fields)


def _computed() -> Iterator[str]:
    yield """## Computed columns

No store holds these: detection adds them to turns in memory, and rules read them
([writing a rule](writing-a-rule.md)). Codes compare for equality only; 0 is unknown.
"""
    for title, columns in (("Codes and marks", CODED), ("Counters", COUNTED)):
        yield from [f"### {title}", ""]
        rows = [(name, str(kind), *rest) for name, kind, *rest in columns]
        yield from _table(("column", "type", "unit", "meaning", "null"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str | None, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    for name, *rest in rows:
        cells = [f"`{name}`", *((each or "never").replace("|", r"\|") for each in rest)]
        yield f"| {' | '.join(cells)} |"
    yield ""
