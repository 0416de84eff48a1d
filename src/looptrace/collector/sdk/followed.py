"""The names that a process follows on its stream: tasks that were asked for, and its traces."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
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
            return _body(self._told, Names(), self._service)

    def change(self) -> tuple[dict[str, Any], Names] | None:
        """Return the new names for a running stream, and the names that it has then, or None.

        Dropped names are sent with the next new one.
        """
        with self._lock:
            wanted, told = self._wanted(), self._told
            new = Names(wanted.tasks - told.tasks, wanted.traces - told.traces)
            gone = Names(told.tasks - wanted.tasks, told.traces - wanted.traces)
            is_new = new.tasks or new.traces
            return (_body(new, gone, self._service), wanted) if is_new else None

    def told(self, known: Names) -> None:
        """Record the names that the server has now."""
        with self._lock:
            self._told = known

    def _wanted(self) -> Names:
        idle_s = time.monotonic() - TRACE_IDLE_S
        self._trim(self._tasks, -1.0)
        self._trim(self._traces, idle_s)
        return Names(set(self._tasks), set(self._traces))

    def _trim(self, used: dict[str, float], idle_s: float) -> None:
        """Drop the oldest names that are too many, or were not used since a time."""
        surplus = len(used) - STREAM_NAMES_MAX
        for name, at_s in list(used.items()):
            if surplus <= 0 and at_s >= idle_s:
                return
            if name not in self._waits:
                del used[name]
                surplus -= 1


def _body(new: Names, gone: Names, service: str | None) -> dict[str, Any]:
    lists = {kind: sorted(names) for kind, names in asdict(new).items()}
    return lists | {"dropped": sorted(gone.traces), "service": service}
