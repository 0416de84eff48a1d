"""The live engine of a server: what the log commits is judged, and what is decided recorded."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from looptrace.analyzer.detect.counters import DAY_S
from looptrace.analyzer.engine.live import Fed, LiveEngine
from looptrace.analyzer.engine.live_outages import OutageWatch
from looptrace.analyzer.engine.live_task import HORIZON_S
from looptrace.analyzer.gates.resolutions import resolution_turns
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.normalize.trace_buffer import TraceBuffer
from looptrace.analyzer.settings.sections import Settings
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.server.ingest_log import IngestLog, Logged
from looptrace.collector.server.receiver.receiver_metrics import number
from looptrace.collector.store import reader
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.locks import StoreError
from looptrace.collector.worker import Worker
from looptrace.rules.vocabulary import NS_PER_S

_logger = logging.getLogger(__name__)

# Between two looks at the log, so that spans which come together are judged together. A look that
# took longer is followed by a pause as long: most of what it costs does not depend on the spans.
TICK_S = 0.1
# Decisions that another process wrote into the store are looked for this often.
LOOK_EVERY_S = 1.0
# Spans that are judged at once; who answers waits while they become rows.
SPANS_A_TICK = 2_000
# How often idle tasks are looked for.
FORGET_EVERY_S = 3_600
# A trace that was at work this long before a start may go on after it.
TRACES_GO_ON_S = 3_600


@dataclass(slots=True)
class DetectorCounts:
    """Counts of the detector, which other threads read for metrics and for trimming the log."""

    # All that was decided of it is committed.
    seq: int = number("Row of the log up to which the rules have run.", "gauge")
    spans: int = number("Spans on which the rules have run.")
    turns: int = number("Turns on which the rules have run.")
    events: int = number("Events that were recorded: warnings, pivots, gates, resets.")
    failed: int = number("Times that the rules failed on requests.")
    late: int = number("Turns that came too late for live detection.")
    outages: int = number("Outages that were logged.")
    tasks: int = number("Tasks that are held in memory.", "gauge")
    tasks_evicted: int = number("Tasks that were evicted because there were too many.")
    traces: int = number("Traces whose spans may go on, held in memory.", "gauge")
    traces_dropped: int = number("Traces that were dropped because there were too many.")
    is_current: int = number("1 when the tasks at work were read from the store.", "gauge")


class LiveDetector:
    """A thread that judges what the log commits, and records what is decided.

    The store holds all that was judged before, and what it says of tasks that may go on is read at
    the start. So a restart tells nothing twice and forgets nothing.
    """

    def __init__(
        self,
        store_dir: Path,
        settings: Settings,
        log: IngestLog,
        on_events: Callable[[], None],
    ) -> None:
        """Judge spans of `log`; `on_events` is called, on this thread, when something was told."""
        self.counts = DetectorCounts()
        self._worker = Worker("looptrace-detector", self._run, wake=log.committed)
        self._begin = partial(
            _Judge,
            store_dir,
            settings,
            log,
            self.counts,
            self._worker.pause,
            on_events,
        )
        self._store_dir = store_dir
        self._webhooks = settings.webhooks

    def start(self, after_seq: int) -> None:
        """Begin after this row of the log; the store holds those before it."""
        self.counts.seq = after_seq
        self._worker.start()

    @property
    def is_alive(self) -> bool:
        """Whether it is at work."""
        return self._worker.is_alive

    def wake(self) -> None:
        """Look at once for what was decided."""
        self._worker.wake()

    def close(self, timeout_s: float) -> bool:
        """Judge what is committed, and end; says whether there was time for it."""
        return self._worker.close(timeout_s)

    def _run(self) -> Generator[float, None, None]:
        with reader.open_gates(self._store_dir, self._webhooks) as gates:
            judge = self._begin(gates)
            judge.warm()
            self.counts.is_current = 1
            while True:
                began_s = time.monotonic()
                try:
                    while judge.tick():
                        began_s = time.monotonic()
                except StoreError as error:
                    _logger.warning("%s", error)
                took_s = time.monotonic() - began_s
                yield LOOK_EVERY_S
                self._worker.pause(max(TICK_S, took_s))


class _Judge:
    """What the thread works with."""

    def __init__(
        self,
        store_dir: Path,
        settings: Settings,
        log: IngestLog,
        judged: DetectorCounts,
        pause: Callable[[float], bool],
        on_events: Callable[[], None],
        gates: GateStore,
    ) -> None:
        self._dir = store_dir
        self._log = log
        self._gates = gates
        self._judged = judged
        self._pause = pause
        self._on_events = on_events
        tasks_max = settings.server.tasks_max
        self._arrivals = TraceBuffer(settings.policy.sameness)
        self._live = LiveEngine(settings.policy, self._recall, tasks_max)
        self._outages = OutageWatch(settings.outages)
        self._outages_told: dict[str, int] = {}  # by id, when it was known
        self._goes_on_s = settings.policy.rule_set.counting.idle_s + HORIZON_S
        self._stood: BoundedDict[str, TaskState] = BoundedDict(tasks_max)
        self._seen = {each.id for each in gates.resolutions()}  # The store was judged with them.
        self._forget_s = time.monotonic() + FORGET_EVERY_S

    def _recall(self, task: str) -> TaskState:
        """Return how a task stands that is not held; at the start its turns tell that."""
        return self._gates.state(task) if self._judged.is_current else TaskState(task)

    def warm(self) -> None:
        """Read what the store holds of tasks and traces that may go on.

        All of it was judged and recorded when it was ingested.
        """
        now_ns = time.time_ns()
        last_ns = pl.col("end_ns").max()
        said = resolution_turns(self._gates.resolutions())
        for stored in reader.read_turns(self._dir):
            turns = _with_decisions(stored, said)
            goes_on = last_ns.over("task") > now_ns - self._goes_on_s * NS_PER_S
            fed = self._live.feed(turns.filter(goes_on))
            self._note(fed.states)
            # Those that go on were told before.
            known = self._outages.feed(turns.filter(goes_on))
            self._outages_told |= {outage.id: outage.known_ns for outage in known}
        for spans in reader.read_spans(self._dir):
            goes_on = last_ns.over("trace_id") > now_ns - TRACES_GO_ON_S * NS_PER_S
            self._arrivals.take(spans.filter(goes_on))
        self._show()

    def tick(self) -> bool:
        """Judge what there is now; says whether there is more than is judged at once."""
        said = [each for each in self._gates.resolutions() if each.id not in self._seen]
        logged = self._log.read(self._judged.seq, SPANS_A_TICK)
        if said:
            self._feed(resolution_turns(said))
            self._seen.update(each.id for each in said)
        if logged is not None:
            self._take(logged)
        if time.monotonic() > self._forget_s:
            self._live.forget(time.time_ns())
            self._forget_outages(time.time_ns())
            self._forget_s = time.monotonic() + FORGET_EVERY_S
        return logged is not None and logged.has_more

    def _take(self, logged: Logged) -> None:
        try:
            self._feed(self._arrivals.take(logged.spans))
        except StoreError:
            raise
        except Exception:
            # One request that cannot be judged must not keep all others from it.
            _logger.exception("the rules failed on requests up to %d of the log", logged.seq)
            self._judged.failed += 1
        self._judged.seq = logged.seq
        self._judged.spans += logged.spans.height

    def _feed(self, turns: pl.DataFrame) -> None:
        fed = self._live.feed(turns)
        changed = self._note(fed.states)
        if fed.events or changed:
            self._record(fed, changed)
        self._tell_outages(turns)
        self._judged.turns += turns.height
        self._show()

    def _record(self, fed: Fed, states: list[TaskState]) -> None:
        """Record events until it works: the engine does not say it again.

        Raises:
            StoreError: if it does not work and the server ends; the log still has the spans.
        """
        while True:
            try:
                new = self._gates.record(fed.events, states, time.time_ns(), fed.openings)
                break
            except StoreError as error:
                if self._pause(LOOK_EVERY_S):
                    raise
                _logger.warning("%s", error)
        self._judged.events += len(new)
        if new:
            self._on_events()

    def _tell_outages(self, turns: pl.DataFrame) -> None:
        """Log each outage once; tasks are told of their own failures as ever."""
        for outage in self._outages.feed(turns):
            if outage.id not in self._outages_told:
                self._outages_told[outage.id] = outage.known_ns
                self._judged.outages += 1
                about = (len(outage.sessions), outage.id, outage.error_kind)
                # What the failure says is content, and stays in the store.
                _logger.warning("an outage was met in %d sessions at once: %s, %s", *about)

    def _forget_outages(self, now_ns: int) -> None:
        self._outages.forget(now_ns)
        since_ns = now_ns - DAY_S * NS_PER_S
        told = self._outages_told.items()
        self._outages_told = {key: at_ns for key, at_ns in told if at_ns > since_ns}

    def _note(self, states: Iterable[TaskState]) -> list[TaskState]:
        """Return the states that differ from what is recorded."""
        changed = []
        for state in states:
            before = self._stood.pop(state.task, None) or self._gates.state(state.task)
            if state != before:
                changed.append(state)
            self._stood[state.task] = state
        return changed

    def _show(self) -> None:
        judged, live = self._judged, self._live
        judged.late, judged.tasks, judged.tasks_evicted = live.late, len(live), live.evicted
        judged.traces, judged.traces_dropped = len(self._arrivals), self._arrivals.dropped


def _with_decisions(turns: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """Add what people decided of tasks since these turns of theirs were stored."""
    new = said.join(turns, on="task", how="semi").join(turns, on="call_id", how="anti")
    return pl.concat([turns, new])
