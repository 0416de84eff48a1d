"""The tasks of a request: by a task's own id, or by a session's id and its service."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from looptrace.analyzer.text.session_names import SeveralServicesError, bounded_name, session_name
from looptrace.collector.store import reader


@dataclass(frozen=True, slots=True)
class Asked:
    """The request of a follower: tasks, sessions without their service, and traces, or all.

    Each such session has its task, None where no gate knows it so far.
    """

    tasks: tuple[str, ...] = ()
    sessions: Mapping[str, str | None] = field(default_factory=dict)
    traces: tuple[str, ...] = ()
    is_all: bool = False


def asked_of(
    store_dir: Path, names: Iterable[str], service: str | None, *, refuses: bool = True
) -> Asked:
    """Return the request for names among a store's gates.

    Where it does not refuse, a session of several services is left out.

    Raises:
        SeveralServicesError: if a name is a session of several services, and no service is given.
    """
    tasks: list[str] = []
    sessions: dict[str, str | None] = {}
    with reader.open_gates(store_dir) as gates:
        for name in map(bounded_name, names):
            try:
                _, *of_session = named = gates.tasks_named(name, service)
            except SeveralServicesError:
                if refuses:
                    raise
                tasks.append(name)
                continue
            tasks += [*named, *gates.renamed(name)]
            if session_name(name, service) == name:
                sessions[name] = next(iter(of_session), None)
    return Asked(tuple(dict.fromkeys(tasks)), sessions)


def tasks_of(store_dir: Path, name: str, service: str | None) -> list[str]:
    """Return the tasks that a name may mean, from gates and turns, those of a trace first.

    It may be the name of a task, now or before, of a session, or of a trace.

    Raises:
        SeveralServicesError: if it is a session of several services, and no service is given.
    """
    name = bounded_name(name)
    with reader.open_gates(store_dir) as gates:
        tasks = [*gates.tasks_named(name, service), *gates.renamed(name)]
    if session_name(name, service) == name:
        tasks += reader.tasks_of_session(store_dir, name)
    tasks += reader.tasks_of_trace(store_dir, name)
    return list(dict.fromkeys(reversed(tasks)))
