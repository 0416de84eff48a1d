"""The span processor, with which one line in the agent's process watches for loops.

It never raises and never blocks: it notes a span when it starts and queues it when it ends;
everything else happens on another thread. `local` looks for loops there; `forward` sends the spans
on.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable, table_of_file
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.text.session_names import bounded_name, session_of
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.sdk.agent_gate import TASKS_MAX, AgentGate, Callback, Gates, GateState
from looptrace.collector.sdk.forward import ForwardEngine, exporter_to, log_exporter_to
from looptrace.collector.sdk.forward import Protocol as Wire
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.sdk.log_processor import LoopLogProcessor
from looptrace.collector.sdk.open_spans import OpenSpans, service_in
from looptrace.collector.sdk.server_watch import ServerAwayError
from looptrace.collector.sdk.setup_check import SetupCheck
from looptrace.collector.sdk.span_events import Emit, SpanEventEmitter
from looptrace.collector.sdk.span_queue import Queued, SpanQueue, warn_of
from looptrace.collector.sdk.watching_sampler import WatchingSampler
from looptrace.installation import how_to_install
from looptrace.semconv import SCOPE

if TYPE_CHECKING:  # An agent that forwards its spans lacks the packages that this imports.
    from looptrace.analyzer.settings.given import SettingsLike

# Spans that may be open at once; a process with more leaks spans.
OPEN_SPANS_MAX = 10_000
MS_PER_S, NS_PER_S = 1_000, 1_000_000_000
# How long a first step waits for the answer whether its task has an open gate.
ASK_S = 2.0
# Without an answer, steps go on for so long before one asks again.
ASK_AGAIN_S = 30.0
ENDPOINT = "http://localhost:4318"


NoticeSink = Callable[[list[GateNotice]], None]


class SpanEngine(Protocol):
    """The consumer of spans: it looks for loops in them, or sends them on."""

    dialects: DialectTable  # by which it reads spans

    def start(self, notify: NoticeSink) -> None:
        """Start; `notify` gets every gate event from now on."""

    def follow(
        self, *, tasks: Iterable[str] = (), traces: Iterable[str] = (), service: str | None = None
    ) -> None:
        """Also follow tasks, or sessions of the service, and turns in traces, from now on."""

    def take(
        self,
        spans: list[ReadableSpan],
        above: list[ReadableSpan],
        logged: Sequence[ReadableLogRecord] = (),
    ) -> None:
        """Process ended spans, the spans above them that are still open, and log records of spans.

        A record may come before its span or after it.
        """

    def resolve(self, state: GateState, decision: str, note: str | None) -> None:
        """Apply a person's decision on an open gate."""

    def open_gates(self, task: str, service: str | None, timeout_s: float) -> list[GateNotice]:
        """Return the gates that were opened before this process began.

        They are of a task, or of a session of the service.
        """

    def waiting(self, task: str) -> AbstractContextManager[None]:
        """Return the context in which code of this process waits for the gate of a task."""

    def close(self, timeout_s: float) -> None:
        """Finish the started work."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The bounds of the queue between the agent's threads and the engine."""

    spans_max: int = 8_192  # spans that may wait; more are dropped
    batch_max: int = 512  # spans that the engine processes at once
    delay_s: float = 0.05  # how long the first span of a batch waits
    stuck_s: float = 30.0  # the engine counts as broken when one batch takes longer
    # Calls that are open for so long, and agents that do nothing for so long, are shown to the
    # engine, and again after as long each time.
    report_s: float = 60.0


class ProcessorOptions(TypedDict, total=False):
    """The keywords of every call that makes a processor; all are optional."""

    limits: QueueLimits  # of the queue between the agent's threads and the engine
    emit: Emit  # where gate events are written: "span_event" by default
    content: bool  # whether they may quote the agent's work; off by default
    fail_closed: bool  # whether `raise_if_open` also raises while the task's state is unknown


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Counts of the spans, the log records of spans, and the events of a process so far.

    Spans are dropped because the queue was full (`queue_full`), because the engine failed
    (`failed`), or because they came after the end (`closed`).
    """

    taken: int  # spans that the engine processed
    waiting: int  # spans in the queue now
    dropped: dict[str, int]  # spans that were lost, by reason
    untracked: (
        int  # spans that were not tracked because too many were open, so no event reaches them
    )
    cut: int  # spans that had lost attributes to a limit of the SDK
    emitted: int  # gate events that were written on spans or as log records
    held_back: int  # gate events that were not written, because their loop had enough of them
    errors: dict[str, int]  # failures of looptrace in the agent's own threads, by place


# A server gets larger batches, a little later.
FORWARD_LIMITS = QueueLimits(delay_s=0.5)


class LoopSpanProcessor(SpanProcessor):
    """Watches an agent's spans for loops.

    Make one with `local` or `forward`, and add it to the tracer provider with `use`, after
    processors that rewrite attributes. Gate events become span events on the agent's own spans, and
    are available through `gate` and `on_gate`. No method that the SDK calls raises or blocks.
    """

    def __init__(
        self,
        engine: SpanEngine,
        *,
        limits: QueueLimits | None = None,
        emit: Emit = "span_event",
        content: bool = False,
        fail_closed: bool = False,
    ) -> None:
        limits = limits or QueueLimits()
        self._errors: Counter[str] = Counter()
        self._engine = engine
        self._engine_open = True
        self._fail_closed = fail_closed
        self._spans = OpenSpans(OPEN_SPANS_MAX, engine.dialects)
        self._emitter = SpanEventEmitter(self._spans, emit, content=content)
        self._provider: TracerProvider | None = None
        open_spans, report_ns = self._spans, int(limits.report_s * NS_PER_S)
        self._queue = SpanQueue(
            self._take,
            report=lambda: open_spans.reports(time.time_ns(), report_ns),
            **asdict(limits),
        )
        queue = self._queue
        self._setup = setup = SetupCheck(self._spans)
        self._gates = Gates(lambda: queue.failing, setup.asked)
        # Tasks by name whose gate was asked for, and until when the answer is valid.
        self._known_until_s: BoundedDict[str, float] = BoundedDict(TASKS_MAX)
        self._told: BoundedDict[str, GateNotice] = BoundedDict(TASKS_MAX)  # events by id
        method = weakref.WeakMethod(self._notify)
        engine.start(lambda notices: (notify := method()) and notify(notices))

    @classmethod
    def local(
        cls, settings: SettingsLike | None = None, **options: Unpack[ProcessorOptions]
    ) -> LoopSpanProcessor:
        """Return a processor that looks for loops in this process, on a thread of its own.

        `settings` are a file, a profile, tables or `Settings`; None means the defaults.

        Raises:
            SettingsError: if a file, a key or a value of the settings is wrong.
            ModuleNotFoundError: if `looptrace[analyzer]` is not installed.
        """
        # Only here, because an agent that forwards its spans lacks the packages that it imports.
        try:
            from looptrace.collector.sdk.local_engine import LocalEngine  # noqa: PLC0415
        except ModuleNotFoundError as error:
            why = (
                f"detection in this process needs {error.name}, which is not installed; "
                f"install it with: {how_to_install('analyzer')}, or forward the spans"
            )
            raise ModuleNotFoundError(why, name=error.name) from error

        return cls(LocalEngine(settings), **options)

    @classmethod
    def forward(
        cls,
        endpoint: str = ENDPOINT,
        *,
        protocol: Wire = "http",
        gates: str | None = None,
        token: str | None = None,
        settings: str | os.PathLike[str] | None = None,
        **options: Unpack[ProcessorOptions],
    ) -> LoopSpanProcessor:
        """Return a processor that sends spans to an OTLP endpoint and follows a server's gates.

        `endpoint` is scheme, host and port, and `token` a bearer token for it. `gates` is the
        address of the gates, or of several servers that share the tasks, separated by commas. The
        default is the address of `endpoint` over HTTP; "" follows none. `settings` is the server's
        settings file: its `[attributes]` name the keys by which this process knows its spans.

        Raises:
            OSError: if the settings cannot be read.
            ValueError: if `gates` is not an http or https address, or the settings are wrong.
        """
        exporter = exporter_to(endpoint, protocol, token)
        gates = (endpoint if protocol == "http" else "") if gates is None else gates
        servers = [Server(url.strip(), token) for url in gates.split(",") if gates]
        fail_closed = options.get("fail_closed", False)
        engine = ForwardEngine(
            exporter,
            endpoint,
            servers,
            log_exporter=partial(log_exporter_to, endpoint, protocol, token),
            fail_closed=fail_closed,
            dialects=table_of_file(settings) if settings else SHIPPED,
        )
        options.setdefault("limits", FORWARD_LIMITS)
        processor = cls(engine, **options)
        processor._setup.knows_keys = settings is not None
        return processor

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Note a span that begins."""
        try:
            self._setup.began()
            self._spans.add(span)
        except Exception:  # The agent must not notice it.
            self._count("on_start")

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span that has ended."""
        try:
            self._spans.end(span)
            scope = span.instrumentation_scope
            if scope is None or scope.name != SCOPE:
                self._setup.ended(span)
                self._queue.put(span)
        except Exception:  # The agent must not notice it.
            self._count("on_end")

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until the engine has processed the ended spans; return whether it has."""
        return self._queue.flush(timeout_millis / MS_PER_S)

    def shutdown(self, timeout_millis: int = 5_000) -> None:
        """Let the engine process the remaining spans, for `timeout_millis` at most, and end."""
        timeout_s = timeout_millis / MS_PER_S
        try:
            if self._queue.close(timeout_s) and self._engine_open:
                self._engine_open = False
                self._engine.close(timeout_s)
        except Exception:  # The agent must end as it would without looptrace.
            self._count("shutdown")

    @property
    def counts(self) -> QueueCounts:
        """The counts of spans and events so far."""
        return QueueCounts(
            taken=self._queue.taken,
            waiting=self._queue.waiting,
            dropped=self._queue.dropped,
            untracked=self._spans.untracked,
            cut=self._setup.cut,
            emitted=self._emitter.emitted,
            held_back=self._emitter.held_back,
            errors=dict(self._errors),
        )

    def gate(self, task: str | None = None) -> AgentGate:
        """Return the gate of a task, by default that of the current trace.

        The name of a task is its `looptrace.task.id`, else its conversation or session id, which is
        that of this process's service. A run with several traces, or one that goes on after a
        restart, must name its task.
        """
        if task is None:
            context = trace.get_current_span().get_span_context()
            task = trace.format_trace_id(context.trace_id)
            self._known_until_s[task] = inf  # A current trace has no earlier process.
            self._engine.follow(traces=[task])
        else:
            task = bounded_name(task)
            self._known_until_s.setdefault(task, 0.0)
            self._engine.follow(tasks=[task], service=self._spans.service)
        rest = (self._is_known, self._engine.waiting, self._fail_closed)
        return AgentGate(task, self._gates, self._engine.resolve, *rest)

    def on_gate(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` with the new state at each gate event; return a function that ends it.

        It runs on a thread of looptrace. Its exceptions are logged, and not raised.
        """
        return self._gates.on_change(callback)

    def use(
        self, provider: TracerProvider, logger_provider: LoggerProvider | None = None
    ) -> LoopSpanProcessor:
        """Add the processor to a provider and return it.

        The provider also writes the gate events for which there is no open span. Tracers that it
        makes from now on record what its sampler drops, for processors alone: it is not exported.
        Instrumentations that write messages as log records, such as OpenTelemetry's own, need the
        provider of their loggers, too.
        """
        self._provider = provider
        if not isinstance(provider.sampler, WatchingSampler):
            provider.sampler = WatchingSampler(provider.sampler)
        self._spans.service = self._spans.service or service_in(provider.resource)
        provider.add_span_processor(self)
        if logger_provider is not None:
            logged = LoopLogProcessor(self._queue.put, lambda: self._count("on_emit"))
            logger_provider.add_log_record_processor(logged)
        return self

    def _take(self, queued: list[Queued]) -> None:
        spans = [each for each in queued if isinstance(each, ReadableSpan)]
        logged = [each for each in queued if not isinstance(each, ReadableSpan)]
        traces = {span.context.trace_id for span in spans if span.context}
        self._engine.take(spans, self._spans.of(traces), logged)

    def _notify(self, notices: list[GateNotice]) -> None:
        """Handle the notices that concern this process, each once; a server may repeat itself."""
        for notice in notices:
            is_own = not notice.trace_id or self._spans.knows(notice.trace_id)
            names = self._names(notice)
            before = self._told.get(notice.id)
            is_other = not is_own and self._known_until_s.keys().isdisjoint(names)
            if is_other or before == notice:
                continue
            # A known event with another task has only moved there.
            is_new = before is None or before.task == notice.task
            self._told[notice.id] = notice
            self._gates.update(notice, names, is_new=is_new)
            if is_own and is_new:
                self._emitter.emit(notice, self._provider)

    def _names(self, notice: GateNotice) -> set[str]:
        """Return the names of a notice's task in this process; a session's name is its id here."""
        names = {notice.task, *notice.names}
        return names | {session_of(name, self._spans.service) for name in names}

    def _is_known(self, task: str) -> bool:
        """Return whether the state of a task is known; asks for it before the first step.

        Another process of the task may have opened the gate, such as this one before a restart.
        """
        now_s = time.monotonic()
        until_s = self._known_until_s.get(task, 0.0)
        if until_s > now_s:
            return until_s == inf
        try:
            for notice in self._engine.open_gates(task, self._spans.service, ASK_S):
                self._gates.update(notice, [task, *self._names(notice)])
        except ServerAwayError:  # The engine's watch has said so.
            self._errors["open_gates"] += 1
            self._known_until_s[task] = time.monotonic() + ASK_AGAIN_S
            return False
        except Exception:  # The agent must not notice it, unless it fails closed.
            self._count("open_gates")
            self._known_until_s[task] = time.monotonic() + ASK_AGAIN_S
            return False
        self._known_until_s[task] = inf
        return True

    def _count(self, where: str) -> None:
        if not self._errors[where]:
            warn_of(sys.exception())
        self._errors[where] += 1
