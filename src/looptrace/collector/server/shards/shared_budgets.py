"""Sums of budgets that several servers count together."""

from looptrace.analyzer.detect.budgets.ledger import Ledger
from looptrace.collector.server.shards.spending import SpendingNews
from looptrace.collector.store.buckets.spending import hear
from looptrace.collector.store.gates import GateStore


class SharedBudgets:
    """The spending of other servers, and the sums to send them."""

    def __init__(
        self, ledger: Ledger, gates: GateStore, news: SpendingNews, *, is_shared: bool
    ) -> None:
        """Count what others told before; later news count only where servers share budgets."""
        self._ledger, self._gates, self._news = ledger, gates, news
        self._own = ledger.keep_shares() if is_shared else None
        self._heard_seq = hear(ledger, gates, 0)

    def hear(self) -> bool:
        """Count what others told; return whether there was news."""
        if self._own is None:
            return False
        before, self._heard_seq = self._heard_seq, hear(self._ledger, self._gates, self._heard_seq)
        return self._heard_seq > before

    def tell(self) -> None:
        """Tell others what was spent here since the last call."""
        if self._own and self._news.tell and (shares := self._own.take()):
            self._news.tell(shares)
