"""Connections without an accepted request yet: few, and the oldest is closed first.

So silent connections do not prevent agents from being served.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol

from looptrace.analyzer.settings.server_limits import Limits

# Set in the scope of an accepted request.
KNOWN = "looptrace.known"
# The largest share of strangers among all connections.
_SHARE = 2


class Connection(Protocol):
    """A connection of an HTTP server."""

    @property
    def is_known(self) -> bool:
        """Whether a request on it was accepted."""

    def drop(self) -> None:
        """Close it at once."""


class Strangers:
    """The unknown connections of one server, by address, oldest first."""

    def __init__(self, limits: Limits) -> None:
        self._of_address_max = limits.strangers_max
        self._max = max(1, limits.connections_max // _SHARE)
        self._all: dict[Connection, str] = {}
        self._of: dict[str, dict[Connection, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: Connection, address: str) -> None:
        """Add a new connection; close the oldest if there are too many."""
        self._all[connection] = address
        self._of[address][connection] = None
        while len(self._of[address]) > self._of_address_max:
            self._let_go(next(iter(self._of[address])))
        while len(self._all) > self._max:
            self._let_go(next(iter(self._all)))

    def remove(self, connection: Connection) -> None:
        """Remove a connection that ended."""
        address = self._all.pop(connection, None)
        if address is None:
            return
        of_address = self._of[address]
        del of_address[connection]
        if not of_address:
            del self._of[address]

    def _let_go(self, connection: Connection) -> None:
        self.remove(connection)
        if not connection.is_known:
            connection.drop()
