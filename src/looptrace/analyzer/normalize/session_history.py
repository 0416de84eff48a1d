"""What the traces of a session show about each other: where it began, and the results of calls.

Some frameworks make a trace of each model call. They show the result of a call only in the history
that a later trace repeats.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import Any

from looptrace._core import says_nothing
from looptrace.analyzer.normalize.span_tree import SpanTree
from looptrace.analyzer.normalize.twin_spans import _known
from looptrace.analyzer.schema.message import Message, ToolCall, ToolResult
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.text.errors import error_of
from looptrace.bounded_dict import BoundedDict

# A row's key for the name of its session. The turn table has no such column.
SESSION_NAME = "session_name"
# Sessions and traces that are remembered together with how they belong together.
SESSIONS_MAX = 100_000
# Characters of results that are remembered for all sessions. A call is answered in a few turns.
RESULTS_CHARS_MAX = 16 << 20
# Traces of a session that wait for results.
TRACES_WAITING_MAX = 100
# It comes before every trace.
_NO_TRACE = (-inf, "")
# The size of a result besides its text.
_CHARS_PER_RESULT = 1_000


@dataclass(slots=True)
class SessionHistory:
    """What is known about the sessions of many traces; without bounds it grows with them."""

    # The start and the id of the first trace of each session.
    began: dict[str, tuple[float, str]] = field(default_factory=dict)
    of_trace: dict[str, str] = field(default_factory=dict)  # the session of each trace
    results_chars_max: float = inf
    results: OrderedDict[tuple[str, ToolCall], ToolResult] = field(default_factory=OrderedDict)
    told: set[str] = field(default_factory=set)  # sessions that have new results
    results_chars: int = 0  # characters of the known results
    displaced: set[str] = field(default_factory=set)  # traces that are no longer first

    @classmethod
    def bounded(cls) -> SessionHistory:
        """Return a history that forgets its oldest entries."""
        return cls(BoundedDict(SESSIONS_MAX), BoundedDict(SESSIONS_MAX), RESULTS_CHARS_MAX)

    def learn_results(self, results: Iterable[GivenResult], tree: SpanTree) -> None:
        """Learn the results that models were given, if the call is shown too."""
        for span, result, call in results:
            if call and (key := (tree.session(span).name, call)) not in self.results:
                self.results[key] = result
                self.told.add(key[0])
                self.results_chars += _chars(result)
        while self.results_chars > self.results_chars_max:
            self.results_chars -= _chars(self.results.popitem(last=False)[1])

    def note_trace(self, trace_id: str, session: str, start_ns: int) -> bool:
        """Note the session of a trace; returns whether it is the first trace of the session."""
        before = self.of_trace.get(trace_id)
        if before not in (None, session) and self.began.get(before, _NO_TRACE)[1] == trace_id:
            del self.began[before]
        self.of_trace[trace_id] = session
        began = self.began.get(session)
        if began is None or (start_ns, trace_id) < began:
            if began is not None and began[1] != trace_id:
                self.displaced.add(began[1])
            self.began[session] = began = (start_ns, trace_id)
        return began[1] == trace_id

    def is_first(self, trace_id: str) -> bool:
        """Return whether a trace is the first one of its session."""
        return self.began.get(self.of_trace.get(trace_id, ""), _NO_TRACE)[1] == trace_id

    def forget_trace(self, trace_id: str) -> None:
        """Forget a trace; what its history showed about earlier turns stays known."""
        session = self.of_trace.get(trace_id)
        if session in self.began:
            self.began[session] = _NO_TRACE


class WaitingTraces:
    """The traces of each session that have calls without a result; a later trace may show it."""

    def __init__(self) -> None:
        self._of: BoundedDict[str, BoundedDict[str, None]] = BoundedDict(SESSIONS_MAX)

    def join(self, trace_id: str, sessions: Iterable[str]) -> None:
        """Let a trace wait in each of these sessions."""
        for session in sessions:
            self._of.setdefault(session, BoundedDict(TRACES_WAITING_MAX))[trace_id] = None

    def leave(self, trace_id: str, sessions: Iterable[str]) -> None:
        """Let a trace no longer wait in these sessions."""
        for session in sessions:
            if waiting := self._of.get(session):
                waiting.pop(trace_id, None)
                if not waiting:
                    del self._of[session]

    def of(self, sessions: Iterable[str]) -> list[str]:
        """Return the traces that wait in these sessions."""
        return [name for session in sorted(sessions) for name in self._of.get(session, ())]


def _chars(result: ToolResult) -> int:
    return _CHARS_PER_RESULT + len(result.text or "")


@dataclass(slots=True)
class _Conversation:
    """The history in the last request of a trace and session."""

    messages: tuple[Message, ...] = ()
    asked: dict[str | None, ToolCall] = field(default_factory=dict)  # by id
    answered: set[str] = field(default_factory=set)  # ids of calls

    def results_added(self, given: tuple[Message, ...]) -> list[tuple[ToolResult, ToolCall | None]]:
        """Return the results in a history, with their calls if these are shown.

        If the history continues the last one, only the results after the last one are returned.
        """
        count = len(self.messages)
        new = given[count:] if given[:count] == self.messages else None
        asked = {} if new is None else _asked(new)
        if new is None or not self.answered.isdisjoint(asked):
            new, self.asked, self.answered = given, {}, set()
            asked = _asked(new)
        self.messages = given
        self.asked |= asked
        results = [
            (result, str(result.call_id))
            for message in new
            if message.results
            for result in message.results
            if result.call_id and result.text is not None
        ]
        self.answered.update(call_id for _, call_id in results)
        return [(result, self.asked.get(call_id)) for result, call_id in results]


def _asked(messages: tuple[Message, ...]) -> dict[str | None, ToolCall]:
    calls = chain.from_iterable(message.calls for message in messages if message.calls)
    return {call.call_id: call for call in calls if call.arguments is not None}


# The conversations by trace and session.
Conversations = defaultdict[tuple[str, str], _Conversation]
# A model's span, a result that it was given, and the call if that is shown.
GivenResult = tuple[SpanFields, ToolResult, ToolCall | None]


def no_conversations() -> Conversations:
    """Return the conversations before their first request."""
    return defaultdict(_Conversation)


def given_results(
    spans: Iterable[SpanFields], tree: SpanTree, before: Conversations | None = None
) -> Iterator[GivenResult]:
    """Yield each result that a model was given, with its span, and its call if that is shown.

    A result may be left out if the history of an earlier span in its trace and session showed it.
    If the conversations `before` these spans are known, they continue from there.
    """
    conversations = no_conversations() if before is None else before
    models = [span for span in spans if span.kind == "model" and span.given]
    for span in sorted(models, key=lambda s: (s.end_ns, s.trace_id, s.span_id)):
        conversation = conversations[span.trace_id, tree.session(span).name]
        for result, call in conversation.results_added(span.given or ()):
            yield span, result, call


# By trace and id of the call, and by trace and call where that is shown.
ResultsInTrace = dict[tuple[str, str | ToolCall], ToolResult]


def results_in_traces(results: Iterable[GivenResult]) -> ResultsInTrace:
    """Return the first result that each trace shows of each call."""
    in_trace: ResultsInTrace = {}
    for given in results:
        note_result(given, in_trace)
    return in_trace


def note_result(given: GivenResult, in_trace: ResultsInTrace) -> bool:
    """Note a result that a model was given; returns whether it is the first of its call."""
    span, result, call = given
    before = len(in_trace)
    for key in (str(result.call_id), call):
        if key is not None:
            in_trace.setdefault((span.trace_id, key), result)
    return len(in_trace) > before


def fill_from(
    rows: list[dict[str, Any]], in_trace: ResultsInTrace, sessions: SessionHistory
) -> list[dict[str, Any]]:
    """Add the results that models were given to calls whose own spans do not show them.

    A result is looked up in the call's trace, by the call, then by its id alone, and then in other
    traces of its session. Their history must show the same call under that id, because some
    frameworks number the calls of each run alike. Returns the rows.
    """
    for row in rows:
        if row["kind"] != "tool" or row["call_id"] is None:
            continue
        lacks = row.get("result") is None or (row["failed"] and row["error"] is None)
        if not lacks:
            continue
        call = ToolCall(row["call_id"], row["name"], row["arguments"])
        trace = row["trace_id"]
        given = in_trace.get((trace, call)) or in_trace.get((trace, row["call_id"]))
        given = given or sessions.results.get((row[SESSION_NAME], call))
        if given:
            _fill_result(row, given)
    return rows


def _fill_result(row: dict[str, Any], found: ToolResult) -> None:
    if row.get("result") is None:
        row["result"] = found.text
        row["failed"] = _known(row["failed"], found.failed)
    if row["failed"] and row["error"] is None and found.text and not says_nothing(found.text):
        error_type, row["error"] = error_of(found.text)
        row["trace_hash"] = row["trace_hash"] or found.text
        row["error_type"] = row["error_type"] or error_type
