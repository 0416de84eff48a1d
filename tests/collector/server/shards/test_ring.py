"""The ring of servers: who has what, how evenly, and what a further server changes."""

from collections import Counter
from zlib import crc32

import pytest

from looptrace.collector.server.shards.ring import Ring

NAMES = [f"looptrace-{number}.looptrace:4317" for number in range(5)]
SESSIONS = [f"session-{number}" for number in range(20_000)]


def exporter_picks(key: str, names: list[str]) -> int:
    """Pick as the load-balancing exporter is documented to: the next of 100 points of each."""
    at = crc32(key.encode()) % 36_000
    points = [
        ((crc32(name.encode() + bytes([n])) % 36_000 - at) % 36_000, number)
        for number, name in enumerate(names)
        for n in range(100)
    ]
    return min(points)[1]


@pytest.mark.parametrize(
    ("attribute", "form"), [("", "{}"), ("session.id", "session.id={}|"), ("{}", "{{}}={}|")]
)
def test_it_picks_as_the_exporter_does(attribute: str, form: str) -> None:
    """The nearest point clockwise; of two servers with the same point the first."""
    ring = Ring(NAMES[:3], attribute)
    keys = [*SESSIONS[:500], "", "größe", "{}", "a" * 1_000]
    picked = [exporter_picks(form.format(key), NAMES[:3]) for key in keys]
    assert [ring.owner(key) for key in keys] == picked


@pytest.mark.parametrize("servers", [1, 2, 3, 5])
def test_shares_are_about_even(servers: int) -> None:
    """No server has over a quarter more than its share, which a simulation takes as given."""
    ring = Ring(NAMES[:servers])
    counts = Counter(map(ring.owner, SESSIONS))
    assert len(counts) == servers
    assert max(counts.values()) < 1.25 * len(SESSIONS) / servers


def test_a_further_server_takes_its_share_and_moves_nothing_else() -> None:
    """About a fourth goes to the fourth; nothing moves between those that were there."""
    before, after = Ring(NAMES[:3]), Ring(NAMES[:4])
    moved = [key for key in SESSIONS if before.owner(key) != after.owner(key)]
    assert {after.owner(key) for key in moved} == {3}
    assert 0.15 < len(moved) / len(SESSIONS) < 0.35
