"""Names of sessions, which belong to services; this module needs the standard library alone.

Two services that number their sessions alike have different tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from looptrace.errors import InputError

# What OpenTelemetry's SDKs call a service that nobody has named.
_UNKNOWN_SERVICE = "unknown_service"
_NAMES_KEPT = 1024  # Each span asks for its own.


class SeveralServicesError(InputError):
    """A session id is that of several services, and nobody said which is meant."""


class Session(NamedTuple):
    """A session, by the id that spans give it, and the name of its task."""

    id: str
    name: str


@lru_cache(maxsize=_NAMES_KEPT)
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


def session_task(session: str, tasks: Iterable[str]) -> list[str]:
    """Return the one of some tasks that is a session of a service, or none.

    Raises:
        SeveralServicesError: if the session is that of several services.
    """
    of_services = {task: service for task in tasks if (service := service_of(task, session))}
    if len(of_services) > 1:
        services = ", ".join(map(repr, sorted(of_services.values())))
        raise SeveralServicesError(
            f"session {session!r} is one of each of these services: {services}; say which is meant."
        )
    return list(of_services)


def _quoted(service: str) -> str:
    return service.replace("%", "%25").replace("@", "%40")
