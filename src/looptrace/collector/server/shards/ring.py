"""A ring of servers: which of them has a session.

It is the ring of the Collector's load-balancing exporter, so that what one sends by session arrives
where it belongs. Of N servers, one more takes about 1/(N + 1) of the sessions from the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from zlib import crc32

# Both are the exporter's; others would send nearly every span to another server than it does.
_POINTS_A_SERVER = 100
POSITIONS = 36_000


class Ring:
    """Servers by their names, each at many points of a circle."""

    def __init__(self, names: Sequence[str], attribute: str = "") -> None:
        """Place servers; where two have a point in common it is the first one's.

        Where an attribute is named, the exporter counts its name with each value.
        """
        self._attribute = attribute
        points: dict[int, int] = {}
        for server, name in enumerate(names):
            for number in range(_POINTS_A_SERVER):
                points.setdefault(_position(name.encode() + bytes([number])), server)
        self._points = sorted(points)
        self._servers = [points[point] for point in self._points]

    def owner(self, key: str) -> int:
        """Return the number of the server that has a key."""
        return self.at(position_of(f"{self._attribute}={key}|" if self._attribute else key))

    def at(self, position: int) -> int:
        """Return the number of the server that has a position: that of the next point."""
        return self._servers[bisect_left(self._points, position) % len(self._servers)]


def position_of(key: str) -> int:
    """Return where on the circle a key is."""
    return _position(key.encode("utf-8", "surrogatepass"))


def _position(data: bytes) -> int:
    return crc32(data) % POSITIONS
