"""Migration of the store of an earlier version by its next writer."""

from __future__ import annotations

from pathlib import Path

from looptrace.analyzer.normalize.span_ties import with_ties
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.collector.store.layout import (
    COLUMNS_VERSION,
    SCHEMA_VERSION,
    require_store,
    write_marker,
)
from looptrace.collector.store.tables.writing import rewrite


def migrate(store_dir: Path) -> None:
    """Bring a store up to `SCHEMA_VERSION`; the caller is its only writer.

    Schema 1 had the ties of a span's trace to others in one list, `ties`; schema 2 had turns
    without `TURN_COLUMNS_ADDED`; schema 3 had one file for each day and bucket. A migration that
    was killed goes on with the next call, and readers see whole files meanwhile.

    Raises:
        StoreError: if it is not a store, of a newer version, or a file cannot be read or written.
    """
    version = require_store(store_dir)
    if version < COLUMNS_VERSION:
        rewrite(store_dir, "spans", SPAN_SCHEMA, with_ties)
        rewrite(store_dir, "turns", TURN_SCHEMA)
    if version < SCHEMA_VERSION:
        write_marker(store_dir)
