"""Events and states of tasks on their way into the store."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from looptrace.analyzer.engine.live import Fed
from looptrace.analyzer.gates.events import GateEvent, with_service_versions
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.schema.service_versions import versions_of
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.server.detection.counts import DetectorCounts
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.locks import StoreError

_logger = logging.getLogger(__name__)

# The pause before a store that takes no events is tried again.
TRY_AGAIN_S = 1.0
# Traces of which the version of the service is held.
TRACES_MAX = 20_000


class EventRecords:
    """What the store has of tasks in memory, and what it does not have yet."""

    def __init__(
        self,
        gates: GateStore,
        counts: DetectorCounts,
        tasks_max: int,
        pause: Callable[[float], bool],
        on_events: Callable[[Sequence[GateEvent]], None],
    ) -> None:
        """Record into `gates`; `pause` waits, and returns whether the server ends meanwhile."""
        self._gates, self._counts = gates, counts
        self._pause, self._on_events = pause, on_events
        self._stood: BoundedDict[str, TaskState] = BoundedDict(tasks_max)
        self._renamed: dict[str, str] = {}  # sessions whose names are not yet recorded
        self._later: list[Fed] = []  # of tasks with more spans in the backlog
        # The versions of services, by trace and service.
        self._versions: BoundedDict[tuple[str, str], str] = BoundedDict(TRACES_MAX)

    def note_versions(self, spans: pl.DataFrame) -> None:
        """Keep the versions of the services of `spans`, for their events."""
        self._versions |= versions_of(spans)

    def note_states(self, states: Iterable[TaskState]) -> list[TaskState]:
        """Return the states that differ from the recorded ones."""
        changed = []
        for state in states:
            before = self._stood.pop(state.task, None) or self._gates.state(state.task)
            if state != before:
                changed.append(state)
            self._stood[state.task] = state
        return changed

    def add(self, fed: Fed, renamed: Mapping[str, str], *, is_whole: bool = True) -> None:
        """Record the events of turns and `renamed` sessions; later those of incomplete tasks."""
        self._renamed |= renamed
        changed = self.note_states(fed.states)
        if not is_whole:
            self._later.append(replace(fed, states=changed))
        elif fed.events or fed.moved or changed or self._renamed:
            self._record(fed, changed)

    def add_later(self) -> None:
        """Record the events of tasks that were incomplete before."""
        later, self._later = self._later, []
        for fed in later:
            self._record(fed, [self._stood.get(state.task, state) for state in fed.states])

    def withdraw(self, tasks: Iterable[str]) -> None:
        """Withdraw the gates of tasks whose turns belong to others now."""
        states = [TaskState(task) for task in sorted(tasks)]
        if states:
            self._stood.update((state.task, state) for state in states)
            self._record(Fed([], [], []), states)

    def _record(self, fed: Fed, states: list[TaskState]) -> None:
        """Record events until it works: the engine does not repeat them.

        Raises:
            StoreError: if it does not work and the server ends; the log still has the spans.
        """
        seq = self._gates.last_seq()
        events = with_service_versions([*fed.moved, *fed.events], self._versions)
        while True:
            try:
                self._gates.add_session_names(self._renamed)
                new = self._gates.record(events, states, time.time_ns(), fed.openings)
                break
            except StoreError as error:
                if self._pause(TRY_AGAIN_S):
                    raise
                _logger.warning("%s", error)
        self._renamed.clear()
        self._counts.events += len(new)
        if self._gates.last_seq() > seq:  # Gates may have been withdrawn beside what is new.
            self._on_events(new)
