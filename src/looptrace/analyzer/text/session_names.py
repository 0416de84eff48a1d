"""Names of sessions: a session belongs to its service; this stands on the standard library alone.

Two services that number their sessions alike have different tasks.
"""

from __future__ import annotations

from typing import NamedTuple

# What OpenTelemetry's SDKs call a service that nobody has named.
_UNKNOWN_SERVICE = "unknown_service"


class Session(NamedTuple):
    """A session, by the id that spans give it, and the name of its task."""

    id: str
    name: str


def session_name(session: str, service: str | None) -> str:
    """Return the name of the task of a service's session.

    A session of an unknown service goes by its id alone.
    """
    if not service or service.partition(":")[0] == _UNKNOWN_SERVICE:
        return session
    return f"{session}@{service.replace('%', '%25').replace('@', '%40')}"
