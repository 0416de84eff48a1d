"""What the processes of agents say on their streams: where they wait, and that they end.

It is kept in memory alone: after a restart of the server they say it again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from looptrace.analyzer.gates.agent_states import AgentKey, AgentWait, Heard
from looptrace.bounded_dict import BoundedDict

# Names of processes that ended; of more, the first are forgotten.
ENDED_MAX = 10_000


Waits = Mapping[AgentKey, AgentWait]
NO_WAITS: Waits = MappingProxyType({})


@dataclass(slots=True)
class Hearing:
    """The waits by stream, and the ends by name; written on the event loop, read on any thread."""

    tell: Callable[[], None]  # wakes those who show it
    changes: int = 0
    _waits: dict[str, Waits] = field(default_factory=dict)
    _ended: BoundedDict[AgentKey, int] = field(default_factory=lambda: BoundedDict(ENDED_MAX))

    def waits(self, stream_id: str, waits: Waits) -> None:
        """Replace the waits of a stream."""
        before = self._waits.get(stream_id, {})
        if waits:
            self._waits[stream_id] = waits
        else:
            self._waits.pop(stream_id, None)
        if waits != before:
            self._changed()

    def begins(self, keys: Iterable[AgentKey | None]) -> None:
        """Note that a process works on these names, which may have ended before."""
        for key in keys:
            if key is not None:
                self._ended.pop(key, None)

    def ends(self, keys: Iterable[AgentKey | None], at_ns: int) -> None:
        """Note that a process with these names ended by itself."""
        self._ended.update((key, at_ns) for key in keys if key is not None)
        self._changed()

    def heard(self) -> Heard:
        """Return all that is known now; of several waits for one name the first."""
        waits: dict[AgentKey, AgentWait] = {}
        for each in list(self._waits.values()):
            for key, wait in each.items():
                if key not in waits or wait.since_ns < waits[key].since_ns:
                    waits[key] = wait
        return Heard(waits, dict(self._ended))

    def _changed(self) -> None:
        self.changes += 1
        self.tell()
