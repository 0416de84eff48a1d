"""What looptrace says to an agent before it asks its model."""

from __future__ import annotations

from looptrace.bounded_dict import BoundedDict
from looptrace.collector import LoopSpanProcessor

__all__ = ["WAIT_S", "Advisor"]

# A model takes seconds; without the wait a fast agent would make a call more.
WAIT_S = 0.1
_MS_PER_S = 1_000
# Tasks whose last event is kept, so that its directive is said once.
_TASKS_MAX = 10_000


class Advisor:
    """Says each directive of a task once, and stops where a person must decide.

    Any thread may use it. `task` is the name of all runs: their `looptrace.task.id`, conversation
    or session. Without it each request is of the task that it names, else of the current trace. A
    request waits for `wait_s` at most until the rules have seen the calls before it.
    """

    def __init__(
        self, processor: LoopSpanProcessor, task: str | None = None, wait_s: float = WAIT_S
    ) -> None:
        self._processor = processor
        self._task = task
        self._wait_ms = int(wait_s * _MS_PER_S)
        self._told: BoundedDict[str, str] = BoundedDict(_TASKS_MAX)

    def before_request(self, task: str | None = None) -> str | None:
        """Return the text for the model, if there is one that it has not read.

        The first call of a named task asks a server, if the processor forwards its spans.

        Raises:
            TaskCancelled: if a person has cancelled the task.
            GateOpenError: if its gate is open; with `fail_closed` also if its state is unknown.
        """
        gate = self._processor.gate(self._task or task)
        self._processor.force_flush(self._wait_ms)
        state = gate.raise_if_open()
        if state.directive is None or self._told.get(gate.task) == state.event:
            return None
        self._told[gate.task] = state.event
        return "\n\n".join([state.directive, *state.beside])
