"""The open gates of the other servers that share the sessions, for the page of any of them."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

from looptrace.collector.gates_client import RemoteGates
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.errors import LooptraceError

# A page waits no longer for a server that hangs.
_ANSWER_S = 1.0
# Pages that are looked at together ask the others once in this time.
_KEPT_S = 2.0


@dataclass(frozen=True, slots=True)
class OtherServer:
    """Another server as it answered: its gates that wait for a person, or why none are known."""

    url: str
    gates: tuple[StoredGate, ...] = ()
    error: str = ""


class OtherServers:
    """What the other servers answered last; they are asked while somebody looks at the page."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._lock = Lock()
        self._asked_s: float | None = None
        self._answers: tuple[OtherServer, ...] = ()
        self.changes = 0

    def look(self) -> tuple[OtherServer, ...]:
        """Return what each of the others answers, or answered a moment ago."""
        with self._lock:
            is_new = self._asked_s is not None and time.monotonic() < self._asked_s + _KEPT_S
            if self._servers and not is_new:
                with ThreadPoolExecutor(len(self._servers)) as pool:
                    answers = tuple(pool.map(_ask, self._servers))
                self.changes += answers != self._answers
                self._answers, self._asked_s = answers, time.monotonic()
            return self._answers


def _ask(server: Server) -> OtherServer:
    try:
        gates = RemoteGates(server, timeout_s=_ANSWER_S).gates("open")
    except LooptraceError as error:
        return OtherServer(server.url, error=str(error))
    return OtherServer(server.url, tuple(gate for gate in gates if gate.decision is None))
