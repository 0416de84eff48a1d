"""The engine in the agent's own process; its gate events are those of a batch analysis."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from secrets import token_bytes

from opentelemetry import trace
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.trace import ReadableSpan

from looptrace.analyzer.detect.budgets.rules import BUDGET_NAMES
from looptrace.analyzer.engine.live import Fed
from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.gates.decisions import CANCEL
from looptrace.analyzer.gates.directives import notice_of
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.gates.resolutions import Resolution, resolution_turns
from looptrace.analyzer.settings.given import SettingsLike, settings_of
from looptrace.analyzer.text.session_names import session_name
from looptrace.collector.coding_agents.genai_events import EventRows
from looptrace.collector.coding_agents.log_events import LogRecord
from looptrace.collector.content.redaction import KEY_BYTES, redact_text
from looptrace.collector.otlp.sdk_spans import plain, plain_value, row_of
from looptrace.collector.otlp.span_rows import DecodedSpans
from looptrace.collector.sdk.agent_gate import GateState
from looptrace.collector.sdk.open_spans import service_in
from looptrace.errors import LooptraceError

# How often the engine looks for idle tasks.
FORGET_EVERY_S = 3_600


class ForkedError(LooptraceError, RuntimeError):
    """The engine worked before this process was forked, and cannot go on here."""


class LocalEngine:
    """Makes turns of spans as they end, and looks for loops in them.

    Polars does not work in a forked process if it was used before the fork; the engine refuses to
    run there with `ForkedError`. A server that forks its workers must start the engine after the
    fork, or forward its spans.
    """

    def __init__(self, given: SettingsLike | None = None) -> None:
        settings = settings_of(given)
        self.dialects = settings.policy.dialects
        self._live = LiveSpans(settings.policy)
        self._directives = replace(settings.directives, waiting=())  # No server sees to it.
        self._sameness = settings.policy.sameness
        self._notify: Callable[[list[GateNotice]], object] = list  # until it is started
        self._service = ""  # of the last spans
        self._pid: int | None = None  # of the process in which the engine runs
        self._key = token_bytes(KEY_BYTES)  # for hashes that are compared in this process alone
        self._lock = threading.Lock()
        self._forget_s = time.monotonic() + FORGET_EVERY_S

    def start(self, notify: Callable[[list[GateNotice]], None]) -> None:
        """Call `notify` with every gate event from now on."""
        self._notify = notify

    def follow(
        self, *, tasks: Iterable[str] = (), traces: Iterable[str] = (), service: str | None = None
    ) -> None:
        """Do nothing: all events here are of this process."""

    def take(
        self,
        spans: list[ReadableSpan],
        above: list[ReadableSpan],
        logged: Sequence[ReadableLogRecord] = (),
    ) -> None:
        """Process ended spans and log records of spans, and notify of the events that follow.

        The agent's own span usually ends last and names the task of the others, so the spans that
        are still open above them are read, too.
        """
        self._enter()
        with self._lock:
            self._service = service_in(spans[-1].resource) if spans else self._service
            events, notes = EventRows(), DecodedSpans()
            told = [events.row_of(_record_of(each), notes) for each in logged]
            rows = [*filter(None, told), *map(row_of, spans)]
            _, fed = self._live.take_rows(rows, map(row_of, above))
            notices = self._notices(fed)
        self._notify(notices)

    def resolve(self, state: GateState, decision: str, note: str | None) -> None:
        """Treat a person's decision as their message at this moment."""
        self._enter()
        with self._lock:
            now_ns = time.time_ns()
            note = note and redact_text(note, self._key)
            names = {state.task}
            if not state.event:  # The author's name of the task may be that of a session.
                names.add(session_name(state.task, self._service))
            goes_on = decision != CANCEL and state.rule in BUDGET_NAMES
            budget = state.signature if goes_on else ""
            resolutions = [
                Resolution(
                    id=f"resolution-{now_ns}",
                    task=name,
                    session=state.task,
                    trace_id=state.trace_id,
                    span_id=state.span_id,
                    at_ns=now_ns,
                    decision=decision,
                    note=note,
                    budget=budget,
                )
                for name in sorted(names)
            ]
            turns = resolution_turns(resolutions, self._sameness)
            notices = self._notices(self._live.feed(turns))
        self._notify(notices)

    def open_gates(self, task: str, service: str | None, timeout_s: float) -> list[GateNotice]:  # noqa: ARG002
        """Return no gates: every gate that was opened here was notified."""
        return []

    def waiting(self, task: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Tell nobody: who decides is in this process."""
        return nullcontext()

    def close(self, timeout_s: float) -> None:  # noqa: ARG002
        """Process the turns that waited for a span that does not come any more."""
        self._enter()
        with self._lock:
            _, fed = self._live.rest()
            notices = self._notices(fed)
        self._notify(notices)

    def _enter(self) -> None:
        """Refuse a forked process: a lock may be held there, and Polars would wait for ever."""
        self._pid = self._pid or os.getpid()
        if self._pid != os.getpid():
            raise ForkedError("this process was forked; create the processor after the fork")

    def _notices(self, fed: Fed) -> list[GateNotice]:
        """Return the events; an event that only moved to another task keeps its id."""
        if time.monotonic() > self._forget_s:
            self._live.forget(time.time_ns())
            self._forget_s = time.monotonic() + FORGET_EVERY_S
        names: dict[str, list[str]] = defaultdict(list)
        events = (*fed.moved, *fed.events)
        for name, task in self._live.traces.joined.items() if events else ():
            names[task].append(name)
        return [
            notice_of(event, self._directives, names[event.task])
            for event in events
            if not event.is_left_alone
        ]


def _record_of(readable: ReadableLogRecord) -> LogRecord:
    """Return a log record of the SDK as it would be after export."""
    record, scope = readable.log_record, readable.instrumentation_scope
    return LogRecord(
        time_ns=record.timestamp or 0,
        observed_ns=record.observed_timestamp or 0,
        event_name=record.event_name or "",
        body=plain_value(record.body),
        attributes=plain(record.attributes),
        resource=plain(readable.resource.attributes),
        span=(
            trace.format_trace_id(record.trace_id or 0),
            trace.format_span_id(record.span_id or 0),
        ),
        scope=scope.name if scope else None,
    )
