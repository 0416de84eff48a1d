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
    return f"{session}@{_quoted(service)}"


def service_of(name: str, session: str) -> str | None:
    """Return the service of a name, None where it names no session of this id and a service."""
    before, _, service = name.rpartition("@")
    return service.replace("%40", "@").replace("%25", "%") if before == session else None


def session_of(name: str, service: str | None) -> str:
    """Return the session that a service calls by a name; the name itself where it is no such."""
    return name.removesuffix(f"@{_quoted(service)}") if service else name


def _quoted(service: str) -> str:
    return service.replace("%", "%25").replace("@", "%40")
