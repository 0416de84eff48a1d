"""What the tasks of a store have spent of their budgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from looptrace.analyzer.detect.budgets.ledger import SPENDING_COLUMNS, SPENDING_KINDS, Ledger
from looptrace.analyzer.engine.batch import ledger_of, spending_rows
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.schema.turns import TURN_SCHEMA, Turn
from looptrace.collector.store.reader import read_rows


def stored_spending(store_dir: Path) -> Iterator[Turn]:
    """Return the turns of a store that ledgers read.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    which = pl.col("kind").is_in(SPENDING_KINDS)
    return spending_rows(read_rows(store_dir, "turns", which, [*SPENDING_COLUMNS]))


def stored_ledger(
    store_dir: Path, policy: DetectionPolicy, turns: pl.DataFrame | None = None
) -> Ledger:
    """Return the ledger of a store, in which `turns` (`TURN_SCHEMA`) replace those of their traces.

    Raises:
        StoreError: if the folder is no store, or a file in it cannot be read.
    """
    if not policy.budgets.limits:
        return ledger_of(TURN_SCHEMA.to_frame(), policy)
    turns = TURN_SCHEMA.to_frame() if turns is None else turns
    is_other = ~pl.col("trace_id").is_in(turns["trace_id"].unique().to_list())
    which = pl.col("kind").is_in(SPENDING_KINDS) & is_other
    others = read_rows(store_dir, "turns", which, [*SPENDING_COLUMNS])
    return ledger_of(pl.concat([turns.select(SPENDING_COLUMNS), others]), policy)
