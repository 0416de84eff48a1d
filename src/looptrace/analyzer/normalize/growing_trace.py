"""The turns of one trace while its spans arrive one by one: only what a span changes.

The same code makes the turns of a whole trace. A span may change more than its own turns. That
follows from its place in the tree, the calls without a span, and the results that a model was
given. If this is not certain, all turns of the trace must be made again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from looptrace.analyzer.fingerprint.rounds import comes_again
from looptrace.analyzer.normalize.agent_runs import follows_answer
from looptrace.analyzer.normalize.call_matches import CallMatches, TurnKey, key_of
from looptrace.analyzer.normalize.session_history import (
    ResultsInTrace,
    SessionHistory,
    fill_from,
    given_results,
    no_conversations,
    note_result,
)
from looptrace.analyzer.normalize.span_tree import INHERITED, SpanTree
from looptrace.analyzer.normalize.steps import is_step
from looptrace.analyzer.normalize.trace_groups import TraceGroups
from looptrace.analyzer.normalize.turn_builder import (
    TurnRow,
    _Trace,
    tells_of_turns,
)
from looptrace.analyzer.normalize.twin_spans import copy_key, twin_of
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.schema.turns import TURN_KEY

# Fields that spans below inherit or depend on, and the kinds of spans that are merged.
_SHOWN = (*INHERITED, "phase_start_ns", "start_ns", "kind", "name")
KIND, CALL_ID = map(TURN_KEY.index, ("kind", "call_id"))
_MERGED = ("tool", "model")


def in_order(spans: Iterable[SpanFields]) -> list[SpanFields]:
    """Sort the spans of one trace in the order in which its turns are made."""
    return sorted(spans, key=_place)


def unanswered_ids(spans: Iterable[SpanFields], rows: Iterable[TurnRow]) -> set[str]:
    """Return the ids of calls without a result, including calls that are not turns yet."""
    calls = [row for row in rows if _is_call(row)]
    answered = {row.get("call_id") for row in calls if row.get("result") is not None}
    asked = chain((row.get("call_id") for row in calls), *map(_asked_ids, spans))
    return {call_id for call_id in asked if call_id} - answered


def _is_call(row: TurnRow) -> bool:
    return bool(row["kind"] == "tool")


def _is_request(key: TurnKey) -> bool:
    """Return whether a key is that of a hand-off or a message, which is no intervention."""
    return key[KIND] in ("handoff", "user") and key[CALL_ID] is None


def _asked_ids(span: SpanFields) -> list[str]:
    """Return the ids of the calls that a model asked for."""
    return [c.call_id for c in span.calls if c.call_id] if span.kind == "model" else []


def _place(span: SpanFields) -> tuple[int, int, str]:
    return span.end_ns, span.start_ns, span.span_id


class GrowingTrace:
    """The turns of a trace whose spans so far are known, and what later spans may change."""

    def __init__(
        self,
        spans: list[SpanFields],
        above: Iterable[SpanFields],
        groups: TraceGroups,
        sessions: SessionHistory,
        known: Collection[TurnKey],
        unanswered: set[str],
    ) -> None:
        """Continue from the `known` turns of these ended spans, which are sorted (`in_order`).

        `unanswered` are the ids of calls without a result.
        """
        self.rows: dict[TurnKey, TurnRow] = {}  # turns that are new or have changed
        self.gone: set[TurnKey] = set()
        self.unanswered = unanswered
        self.replays = False  # whether its turns have what its first response was given
        self._trace_id = spans[0].trace_id
        self._groups, self._sessions = groups, sessions
        session = {self._trace_id: groups.session(self._trace_id)}
        self._tree = SpanTree(
            {}, session, groups.joined, groups.naming, groups.parents, frozenset(INHERITED)
        )
        self._children: dict[str, list[str]] = {}
        for span in (*spans, *above):
            self._put_below(span)
        # One span of each declared task, and the task whose counters it shares.
        self._roots = {s.task: (s, self._tree.task(s)) for s in self._tree.by_id.values() if s.task}
        self._conversations = no_conversations()
        self._results: ResultsInTrace = {}
        for given in given_results(spans, self._tree, self._conversations):
            note_result(given, self._results)
        self._last_model = max((_place(s) for s in spans if s.kind == "model"), default=None)
        # If spans are merged or calls share an id, each span may change any turn, and what lies
        # within a step says what it is.
        self.is_tangled = any(map(is_step, self._tree.by_id.values()))
        self.is_tangled |= any(twin_of(span, self._tree) for span in spans)
        keys = [key for span in spans if (key := copy_key(span))]
        self._copy_keys = set(keys)
        self.is_tangled |= len(self._copy_keys) < len(keys)
        self._acting: set[str] = set()  # agents
        self._requests = set(filter(_is_request, known))  # keys of hand-offs and messages
        self._has_moved = False  # whether the requests may have changed
        self._calls: CallMatches | None = None
        self._begin(spans, known)

    def _begin(self, spans: Iterable[SpanFields], known: Collection[TurnKey]) -> None:
        """Match the calls of these spans with what models asked for."""
        sessions = self._sessions
        # What spans of no kind would be, if a response asked for it.
        spare = [s for s in spans if s.arguments is not None and not tells_of_turns(s)]
        self._spare = {(s.name, s.arguments) for s in spare}
        if members := [span for span in spans if tells_of_turns(span)]:
            trace = _Trace(members, self._tree, sessions, spare, ended=False)
            left = (s for s in spare if s.span_id not in trace.adopted)
            self._spare = {(s.name, s.arguments) for s in left}
            self._calls = CallMatches(trace, known)
            self.replays = trace.replay
            self.is_tangled |= self._calls.is_tangled
            self._acting.update(map(self._tree.agent, (*trace.models, *trace.tools)))

    def _put_below(self, span: SpanFields) -> None:
        self._tree.by_id[span.trace_id, span.span_id] = span
        if span.parent_span_id:
            self._children.setdefault(span.parent_span_id, []).append(span.span_id)

    def grow(self, spans: Collection[SpanFields], above: Iterable[SpanFields]) -> bool:
        """Take spans that ended, and the open spans above them.

        Returns whether `rows` and `gone` are all that they change. If not, this object is no
        longer usable.
        """
        self.rows, self.gone, self._has_moved = {}, set(), False
        session = self._tree.sessions[self._trace_id]
        if self.is_tangled or self._groups.session(self._trace_id) != session:
            return False
        above = list(above)
        if any(map(is_step, (*spans, *above))):
            return False
        if any(self._tree.task(span) != root for span, root in self._roots.values()):
            return False
        spans = in_order(spans)
        below = [*above, *reversed(spans)]  # A span mostly ends after those below it.
        if not (all(map(self._hangs_apart, below)) and all(map(self._add, spans))):
            return False
        if self._calls:
            for index in sorted(self._calls.kept_back):
                self._put_call(self._calls, index)
            if self._has_moved and self._calls.trace.agents:
                self._put_requests(self._calls.trace)
        for row in self.rows.values():
            if _is_call(row) and (call_id := row.get("call_id")):
                known = row.get("result") is not None
                (self.unanswered.discard if known else self.unanswered.add)(call_id)
        return True

    def _hangs_apart(self, span: SpanFields) -> bool:
        """Put a span into the tree; returns whether the spans below it stay as they were."""
        tree = self._tree
        before = tree.by_id.get((span.trace_id, span.span_id))
        if before is None:
            self._put_below(span)
        elif before.parent_span_id != span.parent_span_id:
            return False
        tree.by_id[span.trace_id, span.span_id] = span
        if span.task:
            self._roots[span.task] = span, tree.task(span)
        below = self._children.get(span.span_id, ())
        # An open span comes again with each span below it, so those are not gone through each time.
        if not below or (before and all(getattr(before, n) == getattr(span, n) for n in _SHOWN)):
            return True
        self._has_moved = True
        line = [span, *tree.ancestors(span)]
        if self._has_below(span, line):
            return False
        children = [tree.by_id[span.trace_id, span_id] for span_id in below]
        shown = [name for name in INHERITED if any(getattr(each, name) for each in line)]
        return all(getattr(child, name) for child in children for name in shown)

    def _has_below(self, span: SpanFields, line: Sequence[SpanFields]) -> bool:
        """Return whether a span lies below that may be merged with one of the line above it.

        That is one of the nearest kind with no other kind between, or a call of the same name.
        """
        kind = next((each.kind for each in line if each.kind), None)
        names = {each.name for each in line if each.kind == "tool"}
        if kind not in _MERGED and not names:
            return False
        waiting, seen = [(span.span_id, kind in _MERGED)], {span.span_id}
        while waiting:
            above, is_near = waiting.pop()
            for child in self._children.get(above, ()):
                found = self._tree.by_id[span.trace_id, child]
                is_call = found.kind == "tool" and found.name in names
                if is_call or (is_near and found.kind == kind):
                    return True
                if child not in seen and (names or found.kind is None):
                    seen.add(child)
                    waiting.append((child, is_near and found.kind is None))
        return False

    def _add(self, span: SpanFields) -> bool:
        """Make the turns of a span and change those of others; returns whether that is certain."""
        if span.kind == "model":
            if self._last_model is not None and _place(span) <= self._last_model:
                return False
            self._last_model = _place(span)
        self.unanswered.update(_asked_ids(span))
        calls = self._calls
        if not tells_of_turns(span):
            self._spare.add((span.name, span.arguments))
            return calls is None or span.arguments is None or not calls.wants(span)
        key = copy_key(span)
        if calls is None or twin_of(span, self._tree) or key in self._copy_keys:
            return False
        self._copy_keys |= {key} if key else set()
        one = _Trace([span], self._tree, self._sessions, ended=False)
        if one.replay != calls.trace.replay:
            return False
        self._add_results(calls, span)
        if not all(self._add_tool(calls, tool, one) for tool in one.tools):
            return False
        if not all(self._add_model(calls, model, one) for model in one.models):
            return False
        self._add_others(calls, one)
        return True

    def _add_results(self, calls: CallMatches, span: SpanFields) -> None:
        """Learn the results that a model was given, and add them to the turns of their calls."""
        results = list(given_results([span], self._tree, self._conversations))
        self._sessions.learn_results(results, self._tree)
        for given in results:
            if not note_result(given, self._results):
                continue
            for turn in tuple(calls.turns.get(str(given[1].call_id), ())):
                if isinstance(turn, int):
                    self._put_call(calls, turn)
                else:
                    self._put_tool(calls, turn)

    def _add_tool(self, calls: CallMatches, tool: SpanFields, one: _Trace) -> bool:
        """Join a tool's span with a call that a model asked for; `one` is a trace of it alone."""
        candidates = calls.calls_for(tool)
        # It may have the call of a span of no kind, which lies within it or has the same name.
        if candidates is None or tool.name in calls.trace.adopted.values():
            return False
        one.asked = [calls.trace.asked[index] for index in candidates]
        place = one._match().get(tool.span_id)
        index = None if place is None else candidates[place]
        if index is not None and index not in calls.covered:
            self._take_away(calls, index)
        calls.trace.tools.append(tool)
        calls.join(tool, index)
        self._put_tool(calls, tool)
        self._note_acting(tool)
        return True

    def _take_away(self, calls: CallMatches, index: int) -> None:
        """Remove the turn of a call that gets a span of its own."""
        if index in calls.kept_back:
            calls.kept_back.discard(index)
            return
        row = calls.trace._call_row(index)
        calls.turns[row["call_id"]].remove(index)
        self.rows.pop(key_of(row), None)
        self.gone.add(key_of(row))

    def _add_model(self, calls: CallMatches, model: SpanFields, one: _Trace) -> bool:
        """Add a response and the calls that it asks for, and end the calls before it."""
        if any((call.name, call.arguments) in self._spare for call in model.calls):
            return False
        given = model.given or ()
        from_person = bool(given) and given[-1].role == "user" and follows_answer(given)
        from_person = from_person or comes_again(given) is not None
        if not calls.trace.models or from_person or not calls.add(model, one):
            return False
        self._put(calls.trace._model_row(model))
        for index in calls.ended_by(model):
            self._put_call(calls, index)
        self._note_acting(model)
        return True

    def _add_others(self, calls: CallMatches, one: _Trace) -> None:
        """Add the turns of a span that are no calls or responses; they need no other span."""
        calls.trace.agents += one.agents
        self._has_moved |= bool(one.agents)
        one.models, one.tools, one.agents, one.asked = [], [], [], []
        for row in one.rows():
            self._put(row)

    def _note_acting(self, span: SpanFields) -> None:
        agent = self._tree.agent(span)
        self._has_moved |= agent not in self._acting
        self._acting.add(agent)

    def _put_requests(self, trace: _Trace) -> None:
        """Make the hand-offs and the messages of persons anew: each depends on many spans."""
        rows = trace.request_rows(self._acting)
        for row in rows:
            self._put(row)
        keys = set(map(key_of, rows))
        self.gone |= self._requests - keys
        self._requests = keys

    def _put_call(self, calls: CallMatches, index: int) -> None:
        """Make a turn of a call without a span, if no span will come."""
        if calls.trace._is_over(index):
            row = calls.trace._call_row(index)
            calls.kept_back.discard(index)
            calls.note_turn(row["call_id"], index)
            self._put(row)

    def _put_tool(self, calls: CallMatches, tool: SpanFields) -> None:
        row = calls.trace._tool_row(tool, calls.of_span.get(tool.span_id))
        calls.note_turn(row["call_id"], tool)
        self._put(row)

    def _put(self, row: TurnRow) -> None:
        fill_from([row], self._results, self._sessions)
        key = key_of(row)
        self.rows[key] = row
        self.gone.discard(key)
