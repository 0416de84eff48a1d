"""What the next writer of a store does first: it makes lost files again, and migrates old ones."""

from pathlib import Path

from looptrace.analyzer.normalize.span_ties import with_ties
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.layout import (
    COLUMNS_VERSION,
    EVENTS_LOST,
    GATES_FILE,
    SCHEMA_VERSION,
    read_evaluated,
    require_store,
    write_evaluated,
    write_marker,
)
from looptrace.collector.store.locks import MARKER
from looptrace.collector.store.tables.parquet import TIES_VERSION
from looptrace.collector.store.tables.writing import rewrite


def prepare_store(store_dir: Path) -> None:
    """Make a store of this version, with all of its files; the caller is its only writer.

    Raises:
        StoreError: if it is of a newer version, or a file cannot be read or written.
    """
    if not (store_dir / MARKER).is_file():
        write_marker(store_dir, 1)  # It may have been lost, and files may have any schema.
    migrate(store_dir)
    gates, noted = store_dir / GATES_FILE, read_evaluated(store_dir)
    if noted.settings and not (gates.is_file() and gates.stat().st_size):
        write_evaluated(store_dir, noted._replace(events=EVENTS_LOST))
    GateStore.open(gates).close()


def migrate(store_dir: Path) -> None:
    """Bring a store up to `SCHEMA_VERSION`; the caller is its only writer.

    Schema 1 had the ties of a span's trace to others in one list, `ties`; schemas 2 and 4
    to 7 had turns without some columns; schema 3 had one file for each day and bucket. A migration
    that was killed goes on with the next call, and readers see whole files meanwhile.

    Raises:
        StoreError: if it is not a store, of a newer version, or a file cannot be read or written.
    """
    version = require_store(store_dir)
    if version < TIES_VERSION:
        rewrite(store_dir, "spans", SPAN_SCHEMA, with_ties)
    if version < COLUMNS_VERSION:
        rewrite(store_dir, "turns", TURN_SCHEMA)
    if version < SCHEMA_VERSION:
        write_marker(store_dir)
