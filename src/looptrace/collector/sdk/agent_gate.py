"""What an agent's author asks and is told: how a task stands, and what the agent should do now."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from looptrace.analyzer.gates.notice import GateNotice
from looptrace.errors import LooptraceError

_logger = logging.getLogger(__name__)

# Tasks whose state is held; of more, the one that was told longest ago is forgotten.
TASKS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class GateState:
    """How a task stands: `open` means that it must not go on until a person has decided.

    `directive` is what the agent should read now, of the last event; a reset clears it. `broken`
    says that looptrace itself failed, so that nobody knows.
    """

    task: str
    open: bool = False
    action: str | None = None
    directive: str | None = None
    reason: str = ""
    rule: str = ""
    gate: str = ""
    event: str = ""  # id of the last event; another one means that there is news
    trace_id: str = ""  # of the turn that the last event is about
    span_id: str = ""
    broken: bool = False


class GateOpenError(LooptraceError, RuntimeError):
    """A task must not go on: a gate is open, or nobody knows and the author wants to be sure."""

    def __init__(self, state: GateState) -> None:
        super().__init__(state.directive or state.reason or f"task {state.task} must not go on")
        self.state = state


Callback = Callable[[GateState], None]


class Gates:
    """The states of all tasks, as far as they were told; reading one is a look into memory.

    `broken` says whether looptrace fails at the moment.
    """

    def __init__(self, broken: Callable[[], bool]) -> None:
        self._broken = broken
        self._states: OrderedDict[str, GateState] = OrderedDict()
        self._callbacks: list[Callback] = []
        self._changed = threading.Condition()

    def state(self, task: str) -> GateState:
        """Return how a task stands; what nobody spoke of may go on."""
        state = self._states.get(task) or GateState(task)
        return replace(state, broken=True) if self._broken() else state

    def on_change(self, callback: Callback) -> Callable[[], None]:
        """Call this with the new state whenever a task is told something; returns how to stop."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def tell(self, told: GateNotice) -> GateState:
        """Take an event in; returns the task's new state."""
        state = GateState(
            task=told.task,
            open=told.type == "gate_opened",
            action=told.action,
            directive=told.directive,
            reason=told.reason,
            rule=told.rule,
            gate=told.gate,
            event=told.id,
            trace_id=told.trace_id,
            span_id=told.span_id,
        )
        with self._changed:
            # A trace stands for its task, for whoever does not name one.
            for name in (told.task, told.trace_id):
                self._states[name] = state
                self._states.move_to_end(name)
            while len(self._states) > TASKS_MAX:
                self._states.popitem(last=False)
            self._changed.notify_all()
        for callback in list(self._callbacks):
            try:
                callback(state)
            except Exception:  # The author's own code; the engine goes on.
                _logger.exception("a looptrace callback failed")
        return state

    def wait(self, task: str, timeout_s: float) -> bool:
        """Wait until a task may go on; says whether that came to be in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.state(task).open, timeout_s)


@dataclass(frozen=True, slots=True)
class AgentGate:
    """The gate of one task, for the code of the agent's author."""

    task: str
    gates: Gates
    resolve_with: Callable[[GateState, str, str | None], None]
    fail_closed: bool = False

    def check(self) -> GateState:
        """Return how the task stands; it costs a look into memory."""
        return self.gates.state(self.task)

    def raise_if_open(self) -> GateState:
        """Return how the task stands, where it may go on.

        Raises:
            GateOpenError: if it must not; with `fail_closed` also if looptrace is broken.
        """
        state = self.check()
        if state.open or (state.broken and self.fail_closed):
            raise GateOpenError(state)
        return state

    def resolve(self, decision: str = "reviewed", note: str | None = None) -> None:
        """Let the task go on, as a person has decided, with what was learned."""
        self.resolve_with(self.check(), decision, note)

    def wait(self, timeout_s: float) -> bool:
        """Wait until a person has decided; says whether that was in time."""
        return self.gates.wait(self.task, timeout_s)

    async def wait_async(self, timeout_s: float) -> bool:
        """Do the same without holding up the event loop."""
        return await asyncio.to_thread(self.wait, timeout_s)
