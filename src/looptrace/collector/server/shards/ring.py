"""A ring of servers, which maps sessions to servers.

It is the ring of the Collector's load-balancing exporter, so that spans that it shares by session
arrive at their server. One more server takes about 1/(N + 1) of the sessions of N servers.
"""

from bisect import bisect_left
from collections.abc import Sequence
from zlib import crc32

# Both numbers are the exporter's; others would send nearly every span to another server.
_POINTS_A_SERVER = 100
POSITIONS = 36_000


class Ring:
    """Servers by their names, each at many points of a circle."""

    def __init__(self, names: Sequence[str], attribute: str = "") -> None:
        """Place servers; a point of two servers belongs to the first.

        With an attribute, the exporter hashes its name together with each value.
        """
        self._attribute = attribute
        points: dict[int, int] = {}
        for server, name in enumerate(names):
            for number in range(_POINTS_A_SERVER):
                points.setdefault(_position(name.encode() + bytes([number])), server)
        self._points = sorted(points)
        self._servers = [points[point] for point in self._points]

    def owner(self, key: str) -> int:
        """Return the number of the server of a key."""
        return self.at(position_of(f"{self._attribute}={key}|" if self._attribute else key))

    def at(self, position: int) -> int:
        """Return the number of the server of a position, which is that of the next point."""
        return self._servers[bisect_left(self._points, position) % len(self._servers)]


def position_of(key: str) -> int:
    """Return the position of a key on the circle."""
    return _position(key.encode("utf-8", "surrogatepass"))


def _position(data: bytes) -> int:
    return crc32(data) % POSITIONS
