"""Connections without an accepted request yet: where there is no more room, one of them is closed.

So connections that ask for nothing, or may not, do not prevent agents from being served, and agents
that all connect at the same moment are not taken for such.
"""

from collections.abc import MutableMapping
from typing import Any, Protocol

# The key of a scope with what is called once its request is accepted.
_ACCEPT = "looptrace.accept"


class Connection(Protocol):
    """A connection of an HTTP server."""

    def drop(self) -> None:
        """Close it at once."""


class Strangers:
    """The connections of one server, and those among them without an accepted request."""

    def __init__(self, connections_max: int, connections: set[Connection]) -> None:
        """Keep the open connections in `connections`, which others count."""
        self._connections_max = connections_max
        self._connections = connections
        self._strangers: dict[Connection, None] = {}  # oldest first

    def add(self, connection: Connection) -> bool:
        """Add a new connection; return whether there is room for it.

        Where there is none, the oldest stranger is closed for it.
        """
        if len(self._connections) >= self._connections_max and self._strangers:
            oldest = next(iter(self._strangers))
            self.remove(oldest)
            oldest.drop()
        has_room = len(self._connections) < self._connections_max
        self._connections.add(connection)
        self._strangers[connection] = None
        return has_room

    def remove(self, connection: Connection) -> None:
        """Remove a connection that ended."""
        self._strangers.pop(connection, None)
        self._connections.discard(connection)

    def watch(self, connection: Connection, scope: MutableMapping[str, Any]) -> None:
        """Let `accepted(scope)` end that a connection is a stranger."""
        scope[_ACCEPT] = lambda: self._strangers.pop(connection, None)


def accepted(scope: MutableMapping[str, Any]) -> None:
    """Note that a request is accepted, so that its connection stays."""
    if accept := scope.get(_ACCEPT):
        accept()
