"""The gate of a task, for the agent's author: its state, and what the agent should do now."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from looptrace.analyzer.gates.notice import GateNotice
from looptrace.bounded_dict import BoundedDict
from looptrace.errors import LooptraceError

_logger = logging.getLogger(__name__)

# Tasks whose state is held; of more, the one that changed longest ago is forgotten.
TASKS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class GateState:
    """The state of a task, after its last gate event.

    Where there was no event, all but `task` and `broken` have their defaults.
    """

    task: str
    open: bool = False  # the task must not go on until a person has decided
    action: str | None = None  # what the rule asks for, such as "warn" or "gate"
    directive: str | None = None  # what the agent should read now; a reset clears it
    reason: str = ""  # in a person's words
    rule: str = ""
    gate: str = ""  # id of the gate
    event: str = ""  # id of the last event; another one means that there is news
    trace_id: str = ""  # of the turn that the last event is about, in hex
    span_id: str = ""
    broken: bool = False  # looptrace itself failed, so that the state is unknown


class GateOpenError(LooptraceError, RuntimeError):
    """A task must not go on: its gate is open, or looptrace is broken and `fail_closed` is set.

    Its text is the directive for the agent, else the reason; `state` is the state of the task.
    """

    def __init__(self, state: GateState) -> None:
        super().__init__(state.directive or state.reason or f"task {state.task} must not go on")
        self.state = state


Callback = Callable[[GateState], None]


class Gates:
    """The states of all tasks that had a gate event; reading one is a look into memory.

    `broken` returns whether looptrace fails at the moment.
    """

    def __init__(self, broken: Callable[[], bool]) -> None:
        self._broken = broken
        self._states: BoundedDict[str, GateState] = BoundedDict(TASKS_MAX)
        self._callbacks: list[Callback] = []
        self._changed = threading.Condition()

    def state(self, task: str) -> GateState:
        """Return the state of a task; one without events may go on."""
        state = self._states.get(task) or GateState(task)
        return replace(state, broken=True) if self._broken() else state

    def on_change(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` with the new state at each gate event; return the way to stop that."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def update(self, notice: GateNotice) -> GateState:
        """Take an event in; return the task's new state."""
        state = GateState(
            task=notice.task,
            open=notice.type == "gate_opened",
            action=notice.action,
            directive=notice.directive,
            reason=notice.reason,
            rule=notice.rule,
            gate=notice.gate,
            event=notice.id,
            trace_id=notice.trace_id,
            span_id=notice.span_id,
        )
        with self._changed:
            # A trace stands for its task, for whoever does not name one.
            for name in (notice.task, notice.trace_id):
                self._states[name] = state
                self._states.move_to_end(name)
            self._changed.notify_all()
        for callback in list(self._callbacks):
            try:
                callback(state)
            except Exception:  # The author's own code; the engine goes on.
                _logger.exception("a looptrace callback failed")
        return state

    def wait(self, task: str, timeout_s: float) -> bool:
        """Wait until a task may go on; return False after `timeout_s` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.state(task).open, timeout_s)


@dataclass(frozen=True, slots=True)
class AgentGate:
    """The gate of one task; `LoopSpanProcessor.gate` returns it."""

    task: str
    gates: Gates
    resolve_with: Callable[[GateState, str, str | None], None]
    fail_closed: bool = False

    def check(self) -> GateState:
        """Return the state of the task; it costs a look into memory."""
        return self.gates.state(self.task)

    def raise_if_open(self) -> GateState:
        """Return the state of the task where it may go on.

        Raises:
            GateOpenError: if it must not; with `fail_closed` also if looptrace is broken.
        """
        state = self.check()
        if state.open or (state.broken and self.fail_closed):
            raise GateOpenError(state)
        return state

    def resolve(self, decision: str = "reviewed", note: str | None = None) -> None:
        """Let the task go on, as a person has decided.

        `decision` is `continue`, `reviewed`, `cancel` or `not_a_loop`; `note` is shown when the
        same loop comes back.

        Raises:
            OSError: if a server keeps the gate and cannot be reached, or refuses the decision.
        """
        self.resolve_with(self.check(), decision, note)

    def wait(self, timeout_s: float) -> bool:
        """Wait until a person has decided; return False after `timeout_s` seconds."""
        return self.gates.wait(self.task, timeout_s)

    async def wait_async(self, timeout_s: float) -> bool:
        """Wait as `wait` does, without holding up the event loop."""
        return await asyncio.to_thread(self.wait, timeout_s)
