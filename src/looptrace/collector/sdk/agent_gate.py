"""The gate of a task, for the agent's author: its state, and the directive for the agent."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from looptrace.analyzer.gates.decisions import check_decision
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.bounded_dict import BoundedDict
from looptrace.errors import LooptraceError
from looptrace.rules.actions import ACTIONS

_logger = logging.getLogger(__name__)

# Tasks whose state is kept; of more, the one that changed longest ago is forgotten.
TASKS_MAX = 10_000
# Weaker directives that are kept beside the strongest.
BESIDE_MAX = 10

# Both ends of a gate; they end all earlier directives.
_ENDS = ("gate_opened", "gate_resolved")
# By action; a person's decision, which has none, comes above them all.
_STRENGTHS: Mapping[str | None, int] = {
    action: strength for strength, action in enumerate((*ACTIONS, None))
}


@dataclass(frozen=True, slots=True)
class GateState:
    """The state of a task, after its last gate event.

    Without an event, all fields except `task` and `broken` have their defaults. Of several unread
    directives, `directive` is the strongest.
    """

    task: str
    open: bool = False  # the task must not go on until a person has decided
    action: str | None = None  # the action of the rule, such as "warn" or "gate"
    directive: str | None = None  # the text for the agent to read now; a reset clears it
    beside: tuple[str, ...] = ()  # weaker directives that came with it, the strongest first
    reason: str = ""  # in a person's words
    rule: str = ""
    gate: str = ""  # id of the gate
    signature: str = ""  # of what repeats, or the name of a budget of several tasks
    event: str = ""  # id of the last event; it changes with each event
    trace_id: str = ""  # of the turn of the last event, in hex
    span_id: str = ""
    decision: str | None = None  # of a person, on the task's last gate; None while it is open
    note: str | None = None  # with the decision
    broken: bool = False  # looptrace itself failed, so the state is unknown

    @property
    def is_cancelled(self) -> bool:
        """Whether a person has cancelled the task."""
        return self.decision == "cancel"


class GateOpenError(LooptraceError, RuntimeError):
    """A task must not go on: its gate is open, or looptrace is broken and `fail_closed` is set.

    Its text is the directive for the agent, or else the reason; `state` is the state of the task.
    """

    def __init__(self, state: GateState) -> None:
        unknown = f"task {state.task} must not go on: nobody knows whether its gate is open"
        known = state.directive or state.reason or f"task {state.task} must not go on"
        super().__init__(known if state.open else unknown)
        self.state = state


class TaskCancelled(LooptraceError, RuntimeError):  # noqa: N818 - a decision, not a failure
    """A person has cancelled the task: the decision on its gate is `cancel`.

    Its text has the person's note; `state` is the state of the task.
    """

    def __init__(self, state: GateState) -> None:
        note = f": {state.note}" if state.note else ""
        super().__init__(f"task {state.task} was cancelled by a person{note}")
        self.state = state


Callback = Callable[[GateState], None]


@dataclass(slots=True)
class _Held:
    """The state of a task, the notice from which it comes, and whether it was read."""

    state: GateState
    notice: GateNotice
    is_read: bool = False


class Gates:
    """The states of all tasks that had a gate event; reading one only reads memory.

    `broken` returns whether looptrace fails at the moment. `asked` is called for each task that is
    read without an event.
    """

    def __init__(
        self, broken: Callable[[], bool], asked: Callable[[str], None] = lambda _task: None
    ) -> None:
        self._broken = broken
        self._asked = asked
        self._held: BoundedDict[str, _Held] = BoundedDict(TASKS_MAX)
        self._callbacks: list[Callback] = []
        self._changed = threading.Condition()

    def state(self, task: str) -> GateState:
        """Return the state of a task, and note that it was read."""
        if (held := self._held.get(task)) is not None:
            held.is_read = True
        else:
            self._asked(task)
        return self.unread_state(task)

    def unread_state(self, task: str) -> GateState:
        """Return the state of a task; one without events may go on."""
        held = self._held.get(task)
        state = held.state if held else GateState(task)
        return replace(state, broken=True) if self._broken() else state

    def on_change(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` with the new state at each gate event; return a function that ends it."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def update(self, notice: GateNotice, names: Iterable[str] = (), *, is_new: bool = True) -> None:
        """Handle an event of a task, which has its own name and others.

        Of a known event only the name of its task may be new.
        """
        with self._changed:
            held = self._held.get(notice.task)
            state = _state_of(notice, held)
            if not (held and _belongs_to_decision(notice, held)):
                shown = _with_unread(state, held) if held and not held.is_read else state
                if held and held.state.open and notice.type not in _ENDS:
                    # Another event does not close an open gate.
                    shown = state = replace(held.state, event=notice.id)
                # A caller that does not name a task uses the trace as its name.
                latest = _Held(shown, notice)
                for name in (notice.task, *names, notice.trace_id):
                    if self._has_other_gate(name, notice):
                        continue
                    self._held[name] = latest
                    self._held.move_to_end(name)
            self._changed.notify_all()
        if not is_new:
            return
        for callback in list(self._callbacks):
            try:
                callback(state)
            except Exception:  # The author's own code; the engine goes on.
                _logger.exception("a looptrace callback failed")

    def _has_other_gate(self, name: str, notice: GateNotice) -> bool:
        """Return whether the open gate is not the one that a notice resolves."""
        held = self._held.get(name)
        is_open = held is not None and held.state.open and held.state.gate != notice.gate
        return is_open and notice.type == "gate_resolved"

    def wait(self, task: str, timeout_s: float) -> bool:
        """Wait until a task may go on; return False after `timeout_s` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.unread_state(task).open, timeout_s)


def _state_of(notice: GateNotice, held: _Held | None) -> GateState:
    """Return the state after a notice, if all earlier ones were read."""
    before = held.state if held and notice.type not in _ENDS else notice
    return GateState(
        task=notice.task,
        open=notice.type == "gate_opened",
        action=notice.action,
        directive=notice.directive,
        reason=notice.reason,
        rule=notice.rule,
        gate=notice.gate,
        signature=notice.signature,
        event=notice.id,
        trace_id=notice.trace_id,
        span_id=notice.span_id,
        decision=before.decision,
        note=before.note if before.decision else None,
    )


def _belongs_to_decision(notice: GateNotice, held: _Held) -> bool:
    """Return whether the notice is the reset of a decision, which says less than the decision."""
    at = (notice.trace_id, notice.span_id)
    decided = held.notice.type == "gate_resolved" and notice.type == "counter_reset"
    return decided and at == (held.notice.trace_id, held.notice.span_id)


def _with_unread(state: GateState, held: _Held) -> GateState:
    """Return the state with the earlier directives that were not read."""
    before = held.state
    if not state.action or state.open or not before.directive:
        return state
    if _STRENGTHS.get(before.action, 0) > _STRENGTHS.get(state.action, 0):
        beside = (*before.beside, state.directive or "")
        return replace(before, event=state.event, beside=beside[:BESIDE_MAX])
    return replace(state, beside=(before.directive, *before.beside)[:BESIDE_MAX])


@dataclass(frozen=True, slots=True)
class AgentGate:
    """The gate of one task; `LoopSpanProcessor.gate` returns it."""

    task: str
    gates: Gates
    resolve_with: Callable[[GateState, str, str | None], None]
    is_known: Callable[[str], bool]
    waiting: Callable[[str], AbstractContextManager[None]]  # surrounds a wait for a task's gate
    fail_closed: bool = False

    def check(self) -> GateState:
        """Return the state of the task; this only reads memory."""
        return self.gates.state(self.task)

    def raise_if_open(self) -> GateState:
        """Return the state of the task if it may go on.

        Before the first step of a task this asks a server for its open gates, for 2 s at most. If
        the server does not answer, the task goes on, and a later step asks again.

        Raises:
            TaskCancelled: if a person has cancelled the task.
            GateOpenError: if its gate is open; with `fail_closed` also if its state is unknown.
        """
        is_known = self.is_known(self.task)
        state = self.check()
        if not is_known:
            state = replace(state, broken=True)
        if state.is_cancelled:
            raise TaskCancelled(state)
        if state.open or (state.broken and self.fail_closed):
            raise GateOpenError(state)
        return state

    def resolve(self, decision: str = "reviewed", note: str | None = None) -> None:
        """Resolve the gate by a person's decision.

        `decision` is `continue`, `reviewed`, `cancel` or `not_a_loop`. `note` reaches the agent
        with it, and is shown when the same loop comes back.

        Raises:
            GateError: if there is no such decision, or the note is too long.
            OSError: if a server keeps the gate and cannot be reached, or refuses the decision.
        """
        check_decision(decision, note)
        self.resolve_with(self.gates.unread_state(self.task), decision, note)

    def wait(self, timeout_s: float) -> bool:
        """Wait until a person has decided; return False after `timeout_s` seconds.

        Raises:
            TaskCancelled: if a person has cancelled the task.
        """
        if self.gates.unread_state(self.task).open:
            with self.waiting(self.task):
                if not self.gates.wait(self.task, timeout_s):
                    return False
        state = self.gates.unread_state(self.task)
        if state.is_cancelled:
            raise TaskCancelled(state)
        return True

    async def wait_async(self, timeout_s: float) -> bool:
        """Wait like `wait`, without blocking the event loop."""
        return await asyncio.to_thread(self.wait, timeout_s)
