"""Several servers count one budget: each its own responses, and the sums that others tell."""

import random
from collections.abc import Sequence

import pytest

from looptrace.analyzer.detect.budgets.charges import OwnShares, Share
from looptrace.analyzer.detect.budgets.ledger import Ledger
from looptrace.analyzer.engine.batch import ledger_of, spending_rows
from looptrace.analyzer.schema.turns import AT, TURN_KEY, TurnTuple
from looptrace.rules.vocabulary import NS_PER_S
from tests.analyzer.detect.test_budgets import decided, fires, settings, spending, together

URLS = ("http://a", "http://b", "http://c")


class Servers:
    """The ledgers of some servers, each with what it has to tell."""

    def __init__(self, **limits: float) -> None:
        budgets = settings(**limits).policy.budgets
        self.ledgers = {url: Ledger(budgets, None) for url in URLS}
        self.own: dict[str, OwnShares] = {u: each.keep_shares() for u, each in self.ledgers.items()}
        self.told: list[tuple[str, Share]] = []

    def take(self, url: str, rows: Sequence[TurnTuple]) -> None:
        """Let a server count turns, and tell the others."""
        self.ledgers[url].take(rows)
        self.tell(url, self.own[url].take())

    def tell(self, url: str, shares: Sequence[Share]) -> None:
        """Let a server tell the others."""
        self.told += [(url, share) for share in shares]
        for other, ledger in self.ledgers.items():
            if other != url:
                ledger.hear(url, shares)
                ledger.take([])


# Of nine responses in turn, a second apart, the tenth thousand is that of no server alone.
TURNS = together(*(spending(12, task, since_s=0.3 * n) for n, task in enumerate("abc")))
OF = {task: [row for row in spending_rows(TURNS) if row[AT["task"]] == task] for task in "abc"}


@pytest.mark.parametrize("limit", ["session_tokens", "service_tokens", "session_minute_tokens"])
@pytest.mark.parametrize("seed", range(3))
def test_each_gates_where_one_server_would(limit: str, seed: int) -> None:
    """At most the responses of one second earlier or later; whatever is told first, or twice."""
    chance, servers = random.Random(seed), Servers(**{limit: 20_000})
    rows = [(url, row) for url, task in zip(URLS, "abc", strict=True) for row in OF[task]]
    if seed:
        chance.shuffle(rows)
    for url, row in rows:
        servers.take(url, [row])
    again = {(url, share.key): share for url, share in servers.told}
    for (url, _), share in again.items():
        servers.tell(url, [share])

    alone = fires(ledger_of(TURNS, settings(**{limit: 20_000}).policy), *"abc")
    for url, task in zip(URLS, "abc", strict=True):
        found = fires(servers.ledgers[url], task)
        wanted = {key: title for key, title in alone.items() if key[0] == task}
        assert len(found) == pytest.approx(len(wanted), abs=1)
        for key in found.keys() & wanted.keys():
            ((title, percent),), ((same, whole),) = found[key], wanted[key]
            assert title == same
            assert whole - 10 <= percent <= whole  # Two others, 1,000 tokens each.


def test_what_is_taken_back_or_comes_late_is_told_otherwise() -> None:
    """A share replaces what was told of its second before."""
    servers = Servers(service_tokens=1_000_000)
    servers.take(URLS[0], OF["a"])
    first = OF["a"][0]
    servers.ledgers[URLS[0]].take([], [tuple(first[AT[name]] for name in TURN_KEY)])
    (less,) = servers.own[URLS[0]].take()
    assert less.tokens == 0
    servers.tell(URLS[0], [less])
    servers.take(URLS[0], [first])

    kept = {(url, share.key): share for url, share in servers.told}
    assert sum(share.tokens for share in kept.values()) == 12_000
    assert all((share.at_ns + 1) % NS_PER_S == 0 for share in kept.values())
    # Names that no limit asks for stay here.
    assert {(s.session, s.user, s.agent, s.service) for s in kept.values()} == {("", "", "", "api")}


def test_an_addition_counts_once_however_it_comes() -> None:
    """It is told by its server, and is then a decision on the gates of the other, too."""
    last_ns = max(row[AT["end_ns"]] for row in OF["a"])
    rows = [
        row
        for row in spending_rows(decided(TURNS, last_ns + NS_PER_S, 7_000.0))
        if row[AT["kind"]] == "user"
    ]
    servers = Servers(session_tokens=10_000)
    for url, task in zip(URLS, "abc", strict=True):
        servers.take(url, OF[task])
    servers.take(URLS[0], rows)
    (added,) = [share for _, share in servers.told if share.budget]
    servers.tell(URLS[0], [added])
    here = list(rows[0])
    here[AT["result"]] = here[AT["result"]].replace("null}", f"{added.at_ns}}}")
    assert str(added.at_ns) in here[AT["result"]]
    here[AT["end_ns"]] += 5 * NS_PER_S
    servers.ledgers[URLS[1]].take([tuple(here)])
    assert servers.own[URLS[1]].take() == []

    later = spending(1, "d", since_s=60)
    servers.take(URLS[1], list(spending_rows(together(later))))
    ((_, found),) = fires(servers.ledgers[URLS[1]], "d").items()
    assert found == [("tokens of session s", 37_000 * 100 // 43_000)]
