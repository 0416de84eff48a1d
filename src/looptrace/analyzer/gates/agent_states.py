"""The agent of an open gate: it waits, has ended, went on without asking, or is not known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.text.session_names import service_of
from looptrace.analyzer.text.times import utc_s

# The states in the order in which a person should look at their gates.
AgentDoing = Literal["waits", "unknown", "went_on", "ended"]
# A task or a trace, or a session without its service.
AgentKey = str | tuple[str, str | None]
_SESSION = "session"


@dataclass(frozen=True, slots=True)
class AgentState:
    """The state of the agent at an open gate.

    `since_ns` is the start of its wait, the time of its end, or the start of its last call.
    """

    state: AgentDoing = "unknown"
    since_ns: int | None = None
    host: str | None = None  # of the process that waits
    calls: int = 0  # that began after the gate had opened

    @property
    def has_ended(self) -> bool:
        """Whether no agent is left that a decision could reach."""
        return self.state == "ended"

    @property
    def text(self) -> str:
        """Return the state in words."""
        before, after = self.around_time
        return before + ("" if self.since_ns is None else f"{utc_s(self.since_ns)} UTC") + after

    @property
    def around_time(self) -> tuple[str, str]:
        """Return the words before its time, and after it."""
        calls = f"{self.calls} call{'' if self.calls == 1 else 's'} since the gate opened"
        match self.state:
            case "waits":
                return "its agent waits since ", f", on {self.host}" if self.host else ""
            case "ended":
                return "its agent ended at ", f", {calls}" if self.calls else ""
            case "went_on":
                return f"its agent went on without asking: {calls}, the last at ", ""
            case _:
                return "not known whether an agent waits", ""


def by_agent(state: AgentState | None) -> int:
    """Return the place of a gate in a list: those for which an agent waits come first."""
    return get_args(AgentDoing).index(state.state if state else "unknown")


@dataclass(frozen=True, slots=True)
class AgentWait:
    """A wait of an agent's process."""

    since_ns: int
    host: str | None


@dataclass(frozen=True, slots=True)
class Heard:
    """What processes of agents said: where they wait, and when they ended."""

    waits: Mapping[AgentKey, AgentWait] = field(default_factory=dict)
    ended_ns: Mapping[AgentKey, int] = field(default_factory=dict)


NOTHING_HEARD = Heard()


def session_key(session: str | None) -> AgentKey:
    """Return the key of a session without its service."""
    return _SESSION, session


def keys_of(event: GateEvent, names: Iterable[str] = ()) -> set[AgentKey]:
    """Return the keys under which a process may follow an event; `names` are others of its task."""
    is_of_service = service_of(event.task, event.session) is not None
    session = [session_key(event.session)] if is_of_service else []
    return {event.task, *names, event.trace_id, *session}
