"""What the tasks of a store have spent of their budgets."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from looptrace.analyzer.detect.budgets.ledger import SPENDING_COLUMNS, SPENDING_KINDS, Ledger
from looptrace.analyzer.engine.batch import ledger_of, spending_rows
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.schema.turns import TURN_SCHEMA, TurnTuple
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.layout import GATES_FILE
from looptrace.collector.store.reader import read_rows

# Spans of a long session may be stored later than others of the same time.
_MOVES_S = 900


class StoreLedger:
    """The ledger of a store, which its only writer reads once and then adds to."""

    def __init__(self, store_dir: Path, policy: DetectionPolicy) -> None:
        """Keep the budgets of a policy; nothing is read where there are none."""
        self._dir, self._policy = store_dir, policy
        self._ledger: Ledger | None = None
        self._heard_seq = 0

    def replace(self, turns: pl.DataFrame, stored: pl.DataFrame) -> Ledger:
        """Count turns (`TURN_SCHEMA`) that replace `stored` ones; return the ledger."""
        if self._ledger is None:
            prices = self._policy.rule_set.counting.prices
            self._ledger = Ledger(self._policy.budgets, prices, _MOVES_S)
            self._heard_seq = _hear(self._ledger, self._dir, 0)
            self._ledger.take(stored_spending(self._dir))
        self._heard_seq = _hear(self._ledger, self._dir, self._heard_seq)
        self._ledger.take(spending_rows(turns), replaced=spending_rows(stored))
        return self._ledger

    def forget(self) -> None:
        """Read the store again, of which turns are gone or which other ones may have changed."""
        self._ledger = None


def stored_spending(store_dir: Path) -> Iterator[TurnTuple]:
    """Return the turns of a store that ledgers read."""
    which = pl.col("kind").is_in(SPENDING_KINDS)
    return spending_rows(read_rows(store_dir, "turns", which, [*SPENDING_COLUMNS]))


def stored_ledger(store_dir: Path, policy: DetectionPolicy) -> Ledger:
    """Return what the turns of a store have spent."""
    if not policy.budgets.limits:
        return ledger_of(TURN_SCHEMA.to_frame(), policy)
    ledger = Ledger(policy.budgets, policy.rule_set.counting.prices)
    _hear(ledger, store_dir, 0)
    ledger.take(stored_spending(store_dir))
    return ledger


def _hear(ledger: Ledger, store_dir: Path, after_seq: int) -> int:
    """Let a ledger count what other servers told after a number; return the last number."""
    path = store_dir / GATES_FILE
    if not (path.is_file() and path.stat().st_size):
        return after_seq
    with GateStore.open(path, create=False) as gates:
        return hear(ledger, gates, after_seq)


def hear(ledger: Ledger, gates: GateStore, after_seq: int) -> int:
    """Let a ledger count what other servers told after a number; return the last number."""
    for seq, server, share in gates.spent_elsewhere(after_seq):
        ledger.hear(server, [share])
        after_seq = seq
    return after_seq
