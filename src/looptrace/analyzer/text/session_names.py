"""Names of sessions, which belong to services; this module needs only the standard library.

Two services with the same session numbers have different tasks.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from looptrace.analyzer.text.digests import DIGEST_BYTES, digest
from looptrace.errors import InputError

# The name that OpenTelemetry's SDKs give to a service without one.
_UNKNOWN_SERVICE = "unknown_service"
# Names are shown, listed and compared everywhere; a longer one is cut, and ends with a hash of it.
NAME_CHARS_MAX = 256
_NAMES_KEPT = 1024  # Each span looks up its own.


class SeveralServicesError(InputError):
    """Several services have this session id, and the request names none of them."""


class Session(NamedTuple):
    """A session: its id in spans, and the name of its task."""

    id: str
    name: str


def bounded_name(name: str) -> str:
    """Return a name of at most `NAME_CHARS_MAX` characters; other long names have other ones."""
    if len(name) <= NAME_CHARS_MAX:
        return name
    return f"{name[: NAME_CHARS_MAX - 2 * DIGEST_BYTES - 1]}~{digest(name)}"


@lru_cache(maxsize=_NAMES_KEPT)
def session_name(session: str, service: str | None) -> str:
    """Return the name of the task of a service's session.

    A session of an unknown service has its id as name.
    """
    if not service or service.partition(":")[0] == _UNKNOWN_SERVICE:
        return session
    return f"{session}@{_quoted(service)}"


def service_of(name: str, session: str) -> str | None:
    """Return the service in a name, None where the name is not that of a service's session."""
    before, _, service = name.rpartition("@")
    return service.replace("%40", "@").replace("%25", "%") if before == session else None


def session_of(name: str, service: str | None) -> str:
    """Return the session id in a name of this service, else the name itself."""
    return name.removesuffix(f"@{_quoted(service)}") if service else name


def session_task(session: str, tasks: Iterable[str]) -> list[str]:
    """Return a list of the task that is a session of a service, empty where there is none.

    Raises:
        SeveralServicesError: if several services have the session.
    """
    of_services = [task for task in tasks if service_of(task, session)]
    if len(of_services) > 1:
        raise SeveralServicesError(
            f"session {session!r} is one of several services; name the task, which is one of: "
            f"{', '.join(sorted(of_services))}."
        )
    return of_services


def _quoted(service: str) -> str:
    return service.replace("%", "%25").replace("@", "%40")
