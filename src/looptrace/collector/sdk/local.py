"""The engine in the agent's own process: spans in, events out, the same as in batch."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from looptrace.analyzer.directives import Directives
from looptrace.analyzer.gates import GateEvent
from looptrace.analyzer.live import LiveEngine
from looptrace.analyzer.normalise import turns_of
from looptrace.analyzer.settings import Settings, default
from looptrace.analyzer.spans import SPAN_SCHEMA
from looptrace.analyzer.turns import TURN_KEY, TURN_SCHEMA
from looptrace.collector.sdk.agent_gate import GateState, Told
from looptrace.collector.span_rows import Row, service_name, span_row

# Spans of a trace that are held; of a longer one the oldest go, whose turns are known by then.
SPANS_PER_TRACE_MAX = 2_000
# Traces at work at once in one process.
TRACES_MAX = 1_000
# How often idle tasks are looked for.
FORGET_EVERY_S = 3_600

# What turns of a trace may still change of: their place is decided among all turns of the task.
_PLACED = ("turn", "order_ns")


class _Turn(NamedTuple):
    """What tells a turn from others, and from what was known of it before."""

    key: tuple[str, ...]
    task: str
    content: int  # hash


@dataclass(slots=True)
class _Trace:
    """The spans of one trace so far, and the turns that the engine has of them."""

    rows: list[Row] = field(default_factory=list)
    known: dict[tuple[str, ...], _Turn] = field(default_factory=dict)

    def learn(self, turn: _Turn) -> bool:
        """Note a turn; says whether the engine has to learn of it."""
        before = self.known.setdefault(turn.key, turn)
        if before is turn:
            return True
        if before.task != turn.task or before.content == turn.content:
            return False
        self.known[turn.key] = turn
        return True


class ForkedError(RuntimeError):
    """The engine was at work before this process was forked, and cannot go on here."""


class LocalEngine:
    """Turns spans into turns as they end, and judges them.

    Polars cannot be used in a process that was forked after it was: there the engine refuses. A
    server that forks its workers begins to work after that, or forwards its spans.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        settings = settings or default()
        self._live = LiveEngine(settings.judging, settings.recovery)
        self._directives = settings.directives
        self._sameness = settings.sameness
        self._tell: Callable[[list[Told]], object] = list  # until it is started
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._begun: dict[str, str] = {}  # the trace in which each session began
        self._pid: int | None = None  # of the process in which it works
        self._lock = threading.Lock()
        self._forget_s = time.monotonic() + FORGET_EVERY_S

    def start(self, tell: Callable[[list[Told]], None]) -> None:
        """Tell what there is to tell by this."""
        self._tell = tell

    def take(self, spans: list[ReadableSpan], above: list[ReadableSpan]) -> None:
        """Take spans that have ended, and tell what comes of them.

        The agent's own span mostly ends last, and says what the others belong to, so that what is
        still open above them is read too.

        Raises:
            ForkedError: in a process that was forked after the engine had begun to work.
        """
        self._pid = self._pid or os.getpid()
        if self._pid != os.getpid():
            raise ForkedError("this process was forked; create the processor after the fork")
        with self._lock:
            touched: dict[str, _Trace] = {}
            for span in spans:
                row = row_of(span)
                touched[row[0]] = self._trace(row)
            opened = _table([row_of(span) for span in above])
            told = self._fed([self._turns(name, touched[name], opened) for name in touched])
        self._tell(told)

    def resolve(self, state: GateState, decision: str, note: str | None) -> None:
        """Take a person's decision as their message at this moment."""
        with self._lock:
            now_ns = time.time_ns()
            row = dict.fromkeys(TURN_SCHEMA) | {
                "task": state.task,
                "session": state.task,
                "trace_id": state.trace_id,
                "span_id": state.span_id,
                "call_id": f"resolution-{now_ns}",
                "kind": "user",
                "agent": "",
                "name": decision,
                "text": note,
                "start_ns": now_ns,
                "end_ns": now_ns,
                "order_ns": now_ns,
            }
            told = self._fed([pl.DataFrame([row], TURN_SCHEMA, orient="row")])
        self._tell(told)

    def close(self, timeout_s: float) -> None:  # noqa: ARG002
        """Judge what was waiting for a span that does not come any more."""
        with self._lock:
            above = _table([])
            traces = self._traces.items()
            told = self._fed([self._turns(name, held, above, ended=True) for name, held in traces])
        self._tell(told)

    def _trace(self, row: Row) -> _Trace:
        held = self._traces.setdefault(row[0], _Trace())
        self._traces.move_to_end(row[0])
        held.rows.append(row)
        del held.rows[:-SPANS_PER_TRACE_MAX]
        if len(self._traces) > TRACES_MAX:
            self._traces.popitem(last=False)
        return held

    def _turns(
        self, name: str, held: _Trace, above: pl.DataFrame, *, ended: bool = False
    ) -> pl.DataFrame:
        """Return the turns of a trace that are new, or of which more is known.

        A turn stays with the task to which it first belonged, whatever is learned of that later.
        """
        of_trace = above.filter(pl.col("trace_id") == name)
        turns, _ = turns_of(
            _table(held.rows), self._sameness, above=of_trace, begun=self._begun, ended=ended
        )
        for session in turns["session"].unique():
            self._begun.setdefault(session, name)
        return turns.filter([held.learn(turn) for turn in _identified(turns)])

    def _fed(self, turns: list[pl.DataFrame]) -> list[Told]:
        if not turns:
            return []
        events = self._live.feed(pl.concat(turns)).events
        if time.monotonic() > self._forget_s:
            self._live.forget(time.time_ns())
            self._forget_s = time.monotonic() + FORGET_EVERY_S
        return [told_of(event, self._directives) for event in events]


def row_of(span: ReadableSpan) -> Row:
    """Return the row of the span table for a span of the SDK."""
    context, parent, scope = span.get_span_context(), span.parent, span.instrumentation_scope
    return span_row(
        trace_id=trace.format_trace_id(context.trace_id if context else 0),
        span_id=trace.format_span_id(context.span_id if context else 0),
        parent_span_id=trace.format_span_id(parent.span_id) if parent else "",
        name=span.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        status=span.status.status_code.value,
        status_message=span.status.description or "",
        service=service_name(span.resource.attributes),
        scope=scope.name if scope else None,
        attributes=_plain(span.attributes),
        events=[(e.name, e.timestamp, _plain(e.attributes)) for e in span.events],
        links=[
            (trace.format_trace_id(k.context.trace_id), trace.format_span_id(k.context.span_id))
            for k in span.links
        ],
    )


def _table(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, SPAN_SCHEMA, orient="row")


def _identified(turns: pl.DataFrame) -> Iterator[_Turn]:
    keys = turns.select(TURN_KEY).iter_rows()
    contents = turns.drop(_PLACED).hash_rows()
    return (_Turn(*turn) for turn in zip(keys, turns["task"], contents, strict=True))


def told_of(event: GateEvent, directives: Directives) -> Told:
    """Return what an agent needs of an event."""
    return Told(
        id=event.id,
        type=event.type,
        task=event.task,
        trace_id=event.trace_id,
        span_id=event.span_id,
        rule=event.rule,
        action=event.action,
        directive=directives.text_of(event),
        reason=event.reason,
        gate=event.gate,
        signature=event.signature,
        attempts=event.attempts,
        loop_count=event.loop_count,
        turn_first=event.turn_first,
        turn=event.turn,
    )


def _plain(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return attributes as JSON can write them; bytes are text where they can be."""
    return {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in (attributes or {}).items()
    }
