"""The names that a process follows on its stream: tasks that were asked for, and its traces."""

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from looptrace.analyzer.gates.notice import GateNotice
from looptrace.collector.api_paths import STREAM_NAMES_MAX

# A trace without an ended span for so long is no longer followed, unless its gate is open.
TRACE_IDLE_S = 600.0
# Names with an open gate that are kept however old they are.
WAITS_MAX = STREAM_NAMES_MAX // 2


@dataclass(slots=True)
class Names:
    """Names as a server reads them."""

    tasks: set[str] = field(default_factory=set)
    traces: set[str] = field(default_factory=set)


class Followed:
    """The names that a process follows, and those that its server already has.

    Of too many tasks or traces the least recently used are dropped. Any thread may use it.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, float] = {}  # when each was used last, the latest at the end
        self._traces: dict[str, float] = {}
        self._waits: set[str] = set()  # tasks and traces with an open gate
        # When code of the process began to wait for each name, once for each of its waits.
        self._waiting: dict[str, list[float]] = {}
        self._told_waiting: frozenset[str] = frozenset()
        self._told = Names()
        self._service: str | None = None
        self.renew()

    def renew(self) -> None:
        """Go on in a forked process, where no thread holds the parent's lock."""
        self._lock = threading.Lock()

    def add(
        self, *, tasks: Iterable[str] = (), traces: Iterable[str] = (), service: str | None = None
    ) -> bool:
        """Add names; return whether any must be sent to the server."""
        now_s = time.monotonic()
        with self._lock:
            self._service = service or self._service
            is_new = False
            for names, used, told in (
                (tasks, self._tasks, self._told.tasks),
                (traces, self._traces, self._told.traces),
            ):
                for name in names:
                    is_new |= name not in told
                    used.pop(name, None)
                    used[name] = now_s
            return is_new

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Note that code of the process waits for the gate of a name."""
        began_s = time.monotonic()
        with self._lock:
            self._waiting.setdefault(name, []).append(began_s)
        try:
            yield
        finally:
            with self._lock:
                self._waiting[name].remove(began_s)
                if not self._waiting[name]:
                    del self._waiting[name]

    def note(self, notice: GateNotice) -> None:
        """Keep names that wait for a person, until they do no longer."""
        names = {notice.task, notice.trace_id, *notice.names}
        with self._lock:
            if notice.type == "gate_opened" and len(self._waits) < WAITS_MAX:
                self._waits |= names & (self._tasks.keys() | self._traces.keys())
            elif notice.type == "gate_resolved":
                self._waits -= names

    def whole(self) -> dict[str, Any]:
        """Return the names with which a stream begins."""
        with self._lock:
            self._told = self._wanted()
            self._told_waiting = frozenset(self._waiting)
            return self._body(self._told, Names())

    def change(self) -> tuple[dict[str, Any], Names] | None:
        """Return the news for a running stream, and the names that it has then, or None.

        Dropped names are sent with the next new one.
        """
        with self._lock:
            wanted, told = self._wanted(), self._told
            new = Names(wanted.tasks - told.tasks, wanted.traces - told.traces)
            gone = Names(told.tasks - wanted.tasks, told.traces - wanted.traces)
            is_new = new.tasks or new.traces or self._told_waiting != self._waiting.keys()
            return (self._body(new, gone), wanted) if is_new else None

    def told(self, known: Names, waiting: Iterable[str] = ()) -> None:
        """Record the names that the server has now, and those that it knows to be waited for."""
        with self._lock:
            self._told, self._told_waiting = known, frozenset(waiting)

    def _wanted(self) -> Names:
        idle_s = time.monotonic() - TRACE_IDLE_S
        self._trim(self._tasks, -1.0)
        self._trim(self._traces, idle_s)
        return Names(set(self._tasks), set(self._traces))

    def _body(self, new: Names, gone: Names) -> dict[str, Any]:
        now_s = time.monotonic()
        waiting = {name: now_s - min(began_s) for name, began_s in self._waiting.items()}
        return {
            **{kind: sorted(names) for kind, names in asdict(new).items()},
            "dropped": sorted(gone.traces),
            "service": self._service,
            **({"waiting": waiting, "host": socket.gethostname()} if waiting else {}),
        }

    def _trim(self, used: dict[str, float], idle_s: float) -> None:
        """Drop the oldest names that are too many, or were not used since a time."""
        surplus = len(used) - STREAM_NAMES_MAX
        for name, at_s in list(used.items()):
            if surplus <= 0 and at_s >= idle_s:
                return
            if name not in self._waits:
                del used[name]
                surplus -= 1
