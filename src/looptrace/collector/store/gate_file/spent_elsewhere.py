"""What other servers have spent of the budgets that all share, as they told."""

from collections.abc import Iterable
from typing import NamedTuple

from looptrace.analyzer.detect.budgets.charges import Share
from looptrace.analyzer.detect.budgets.rules import BUDGET_NAMES
from looptrace.analyzer.detect.counters import DAY_S
from looptrace.analyzer.gates.decisions import GO_ON
from looptrace.collector.store.gate_file.budgets import with_amount
from looptrace.collector.store.gate_file.incidents import Incidents
from looptrace.collector.store.gate_file.queries import OPEN_GATES_OF_BUDGET
from looptrace.rules.vocabulary import NS_PER_S

# Days count until they end, with what comes late; sessions for as long as they may go on.
_KEPT_NS, _SESSIONS_KEPT_NS = 2 * DAY_S * NS_PER_S, 30 * DAY_S * NS_PER_S

# What is told again as it was keeps its number, and so is no news.
_PUT = """
    INSERT INTO spent_elsewhere
        (server, at_ns, session, user, agent, service, budget, tokens, money, added)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (server, at_ns, session, user, agent, service, budget) DO UPDATE SET
        seq = (SELECT max(seq) + 1 FROM spent_elsewhere),
        tokens = excluded.tokens,
        money = excluded.money
    WHERE tokens <> excluded.tokens OR money <> excluded.money
"""
_OLD = """
    DELETE FROM spent_elsewhere
    WHERE server = ?1 AND at_ns < ?2 AND (session = '' OR at_ns < ?3)
        AND seq < (SELECT max(seq) FROM spent_elsewhere)
"""
_TOLD = """
    SELECT seq, server, at_ns, session, user, agent, service, budget, tokens, money, added
    FROM spent_elsewhere WHERE seq > ? ORDER BY seq
"""


class ToldShare(NamedTuple):
    """What a server told, and its number, which grows when it tells otherwise."""

    seq: int
    server: str
    share: Share


class SpentElsewhere(Incidents):
    """The shares of other servers, beside the gates."""

    def note_spent(self, server: str, shares: Iterable[Share], now_ns: int) -> bool:
        """Note what another server tells; return whether anything is new.

        A person's decision there to go on is one on the open gates of its budget here.

        Raises:
            GateError: if an added amount is none.
        """
        is_new = False
        with self._transaction():
            for share in shares:
                row = (server, *share.key, share.tokens, share.money, share.added)
                changed = self._sql.execute(_PUT, row).rowcount > 0
                if changed and share.budget:
                    self._go_on(share, now_ns)
                is_new |= changed
            self._sql.execute(_OLD, (server, now_ns - _KEPT_NS, now_ns - _SESSIONS_KEPT_NS))
        return is_new

    def spent_elsewhere(self, after_seq: int = 0) -> list[ToldShare]:
        """Return what other servers told after a number, the newest last."""
        return [
            ToldShare(seq, server, Share(*share))
            for seq, server, *share in self._rows(_TOLD, after_seq)
        ]

    def _go_on(self, share: Share, now_ns: int) -> None:
        for (gate_id,) in self._rows(OPEN_GATES_OF_BUDGET, None, share.budget):
            gate = self.gate(gate_id).gate
            if gate.rule in BUDGET_NAMES:
                note = with_amount(None, gate, share.added)
                self._resolve(gate, GO_ON, note, now_ns, None, share.added, share.at_ns)
