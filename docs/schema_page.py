"""Makes docs/schema.md: every column of a store, as the code writes it down and DuckDB shows it."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from looptrace.analyzer.schema.column import Column
from looptrace.analyzer.schema.findings import FINDING_COLUMNS, LOOP_COLUMNS
from looptrace.analyzer.schema.spans import SPAN_COLUMNS, SPAN_SCHEMA, SPAN_TIES_COLUMNS
from looptrace.analyzer.schema.turns import MONEY_COLUMN, TURN_COLUMNS
from looptrace.analyzer.settings.sections import default
from looptrace.collector.store import writer
from looptrace.collector.store.layout import GATES_FILE
from looptrace.collector.store.sql.connection import connect
from looptrace.collector.store.sql.gate_views import GATE_VIEWS

_HEAD = f"""# Schema of the store

<!-- Made from the columns in the code by `make docs`; edit them in analyzer/schema and in
collector/store/sql/gate_views.py. -->

A store is a folder. Spans, turns and findings are Parquet files by day and bucket:
`TABLE/day=YYYY-MM-DD/bucket=NN/data*.parquet`. The other tables are in `{GATES_FILE}`, a file of
SQLite whose tables may change; the views below do not. Read everything with
[`looptrace query`](commands.md#looptrace-query):

```sh
looptrace ingest examples/traces --store store
looptrace query --store store --sql "SELECT rule, task, loop_count FROM findings"
```

A column without a type is VARCHAR. One with a `?` may be null, where the trace does not say unless
another reason is named. A time `…_ns` is BIGINT, nanoseconds since 1970 (UTC);
`make_timestamp(at_ns // 1000)` makes a timestamp of it. `…_s` and `seconds` are seconds. Spans,
turns and findings also have their folder: `day` (of their start, UTC) and `bucket` (00 to 15, a
hash of the task).
"""  # noqa: S608 - It is a page.

# Units that the type or the meaning says already.
_PLAIN_UNITS = {
    *("boolean", "code", "count", "events", "gates", "flag", "id", "ids", "list", "name", "names"),
    *("pivots", "tasks", "tests", "text", "times", "tokens", "turns", "ns since 1970, UTC"),
}
# What the head of the page says of null.
_UNKNOWN_NULL = "the trace does not say"
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
        "One row a turn of an agent, computed from the spans. Turns of some kinds have no such "
        'value, which is null, too; "" is a known empty text.',
        (*TURN_COLUMNS, *_PARTITIONS, MONEY_COLUMN),
    ),
    "findings": ("One row a finding.", (*FINDING_COLUMNS, *_PARTITIONS, *LOOP_COLUMNS)),
    "events": ("One row a gate event. Rows are added and never deleted.", ()),
    "gates": ("One row a gate, in its state now.", ()),
    "incidents": ("One row an incident: the gates of the same loop. Made from the gates.", ()),
    "pivots": ("One row a pivot.", ()),
    "opinions": ("One row a gate that a [judge](judge.md) was asked about.", ()),
    "tasks": ("One row a task with an event, in its state now.", ()),
}
TABLES |= {name: (TABLES[name][0], view.columns) for name, view in GATE_VIEWS.items()}


def page() -> str:
    """Return the page of all tables and of the queries that ship."""
    return "\n".join([*_stored(), _SHIPPED])


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
        parts = {column.name for column in _PARTITIONS}
        yield from [f"## `{table}`", "", about, ""]
        for name, kind in types.items():
            if name not in parts:
                mark = "?" if by_name[name].null else ""
                shown = "" if kind == "VARCHAR" or name.endswith("_ns") else f" {kind}"
                yield f"- `{name}`{mark}{shown}: {_meaning(by_name[name])}"
        yield ""


def _meaning(column: Column) -> str:
    """Return what a column means, with a unit that says more, and what null means in it."""
    unit = f" ({column.unit})" if column.unit not in _PLAIN_UNITS else ""
    null = f"; null: {column.null}" if column.null not in {None, _UNKNOWN_NULL} else ""
    return f"{column.meaning}{unit}{null}"


_SHIPPED = """## Queries that ship

`looptrace query` lists them with what each answers, `looptrace query NAME --store STORE` runs one
(`--param` gives a parameter), and the header of `queries/NAME.sql` names its columns.
"""
