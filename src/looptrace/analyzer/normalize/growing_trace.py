"""The turns of one trace while its spans come one after the other: only what a span changes.

It is continued by the methods that make the turns of a whole trace. What a span may change beyond
its own turns is told by its place in the tree and by the calls that nobody has taken yet; where
that is not sure, the trace is made anew.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable

from looptrace.analyzer.normalize.call_results import ResultsInTrace, fill_from
from looptrace.analyzer.normalize.session_history import (
    SessionHistory,
    given_results,
    no_conversations,
)
from looptrace.analyzer.normalize.messages import ToolCall
from looptrace.analyzer.normalize.span_fields import SpanFields
from looptrace.analyzer.normalize.span_tree import INHERITED, SpanTree
from looptrace.analyzer.normalize.trace_groups import TraceGroups
from looptrace.analyzer.normalize.turn_builder import (
    TurnRow,
    _bare,
    _follows_answer,
    _Trace,
    tells_of_turns,
)
from looptrace.analyzer.normalize.twin_spans import twin_of
from looptrace.analyzer.schema.turns import TURN_KEY

TurnKey = tuple[str | None, ...]  # `TURN_KEY`

# What a span shows to those below it, and by what it is merged with them.
_SHOWN = (*INHERITED, "phase_start_ns", "start_ns", "kind")
_MERGED = ("tool", "model")


def key_of(row: TurnRow) -> TurnKey:
    """Return what a turn is known by."""
    return tuple(row.get(name) for name in TURN_KEY)


def in_order(spans: Iterable[SpanFields]) -> list[SpanFields]:
    """Sort spans of one trace as its turns are made."""
    return sorted(spans, key=_place)


def _place(span: SpanFields) -> tuple[int, int, str]:
    return span.end_ns, span.start_ns, span.span_id


class GrowingTrace:
    """The turns of a trace whose spans so far are known, and what later ones may change of them."""

    def __init__(
        self,
        spans: list[SpanFields],
        above: Iterable[SpanFields],
        groups: TraceGroups,
        sessions: SessionHistory,
        known: Collection[TurnKey],
        unanswered: set[str],
    ) -> None:
        """Go on from the turns that are `known` of ended spans, which are in their order.

        `unanswered` are the ids of calls without a result.
        """
        self._trace_id = spans[0].trace_id
        self._groups, self._sessions = groups, sessions
        session = {self._trace_id: groups.session(self._trace_id)}
        self._tree = SpanTree(
            {}, session, groups.joined, groups.naming, groups.parents, frozenset(INHERITED)
        )
        self._children: dict[str, list[str]] = {}
        for span in (*spans, *above):
            self._put_below(span)
        # Of each declared task a span, and the task whose counters it shares.
        self._roots = {s.task: (s, self._tree.task(s)) for s in self._tree.by_id.values() if s.task}
        self.rows: dict[TurnKey, TurnRow] = {}  # new ones, and those that have changed
        self.gone: set[TurnKey] = set()
        self.unanswered = unanswered
        self._asked_ids = {call_id for span in spans for call_id in asked_ids(span)}
        self._conversations = no_conversations()
        self._results: ResultsInTrace = {}
        for span, result, _ in given_results(spans, self._tree, self._conversations):
            self._results.setdefault((span.trace_id, str(result.call_id)), result)
        self._last_model = max((_place(s) for s in spans if s.kind == "model"), default=None)
        # Whether spans are merged, or calls share an id: then each span may change any turn.
        self.is_tangled = any(twin_of(span, self._tree) for span in spans)
        members = [span for span in spans if tells_of_turns(span)]
        self._trace = _Trace(members, self._tree, sessions, ended=False) if members else None
        self._acting: set[str] = set()
        self._callers: set[str] = set()  # agents of whose calls none would be a hand-off yet
        self._match_all(known)

    def _put_below(self, span: SpanFields) -> None:
        self._tree.by_id[span.trace_id, span.span_id] = span
        if span.parent_span_id:
            self._children.setdefault(span.parent_span_id, []).append(span.span_id)

    def _match_all(self, known: Collection[TurnKey]) -> None:
        self._matched: dict[str, int] = {}  # which call each tool's span has
        self._asked_by: dict[str, list[int]] = {}  # calls by the span of their model
        self._by_id: dict[str, int] = {}  # calls
        self._left: dict[str, dict[int, None]] = {}  # calls that no span has, by name
        self._covered: set[int] = set()  # calls that a span has
        self._kept_back: set[int] = set()  # calls that may get a span of their own
        self._tool_ids: set[str] = set()
        self._numbered: set[int] = set()  # calls that a span has by its name
        self._last_named: dict[str, tuple[int, str]] = {}  # of spans that are joined by their name
        self._unmatched: set[str] = set()  # names of spans that would take any call of that name
        self._open: set[tuple[str, str | None]] = set()  # with the arguments that they look for
        self._loose: set[tuple[str, str | None]] = set()  # calls that spans have by name alone
        self._turns_of: dict[str, list[SpanFields | int]] = {}  # by the id of their call
        trace = self._trace
        if trace is None:
            return
        places: dict[TurnKey, int] = {}
        for index, (call, model, _) in enumerate(trace.asked):
            self._ask(index)
            call_id = call.call_id or f"{call.name}-{index}"
            places[self._trace_id, model.span_id, "tool", call_id] = index
        self.is_tangled |= len(places) < len(trace.asked)
        matched = trace._match()
        spans = {span.span_id: span for span in trace.tools}
        for span in sorted(trace.tools, key=lambda tool: (tool.start_ns, tool.span_id)):
            self._note_match(span, matched.get(span.span_id))
        for key in known:
            if key[2] == "tool" and (turn := spans.get(str(key[1])) or places.get(key)) is not None:
                self._turns_of.setdefault(str(key[3]), []).append(turn)
        self._kept_back.update(
            index
            for key, index in places.items()
            if index not in self._covered and key not in known
        )
        self._acting = {self._tree.agent(span) for span in (*trace.models, *trace.tools)}
        for span in trace.agents:
            self._note_callers(span)

    def _ask(self, index: int) -> None:
        """Note a call that a model asked for."""
        assert self._trace is not None
        call, model, ago = self._trace.asked[index]
        if call.call_id:
            self._by_id[call.call_id] = index
        self._left.setdefault(call.name, {})[index] = None
        if not ago:
            self._asked_by.setdefault(model.span_id, []).append(index)

    def _note_match(self, tool: SpanFields, index: int | None) -> None:
        """Note which call the span of a tool has, and what other call it would rather have."""
        assert self._trace is not None
        call = None
        if index is not None:
            call = self._trace.asked[index][0]
            self._matched[tool.span_id] = index
            self._covered.add(index)
            self._left[call.name].pop(index, None)
        if tool.call_id is not None:
            self._tool_ids.add(tool.call_id)
            if tool.call_id in self._by_id:
                return
        self._last_named[tool.name] = (tool.start_ns, tool.span_id)
        if call is not None and index is not None:
            self._numbered.add(index)
            if tool.arguments is not None and tool.arguments in (call.arguments, _bare(call)):
                return
            self._loose |= {(call.name, call.arguments), (call.name, _bare(call))}
        elif tool.call_id is None:
            self._unmatched.add(tool.name)
        if tool.arguments is not None:
            self._open.add((tool.name, tool.arguments))

    def _note_callers(self, agent: SpanFields) -> None:
        above = {span.agent for span in self._tree.ancestors(agent) if span.agent}
        self._callers |= above - self._acting

    def grow(self, spans: Collection[SpanFields], above: Iterable[SpanFields]) -> bool:
        """Take spans that ended, and those that are open above them.

        Returns whether `rows` and `gone` are all that they change. If not, this is of no more use.
        """
        self.rows, self.gone = {}, set()
        if self.is_tangled or self._groups.session(self._trace_id) != self._session:
            return False
        if any(self._tree.task(span) != root for span, root in self._roots.values()):
            return False
        spans = in_order(spans)
        below = [*above, *reversed(spans)]  # Whoever is above others mostly ends after them.
        if not (all(map(self._hangs_apart, below)) and all(map(self._add, spans))):
            return False
        for index in sorted(self._kept_back):
            self._put_call(index)
        for row in self.rows.values():
            call_id = row.get("call_id")
            if call_id in self._asked_ids:
                known = row.get("result") is not None
                (self.unanswered.discard if known else self.unanswered.add)(call_id)
        return True

    @property
    def _session(self) -> str:
        return self._tree.sessions[self._trace_id]

    def _hangs_apart(self, span: SpanFields) -> bool:
        """Put a span into the tree; returns whether those below it are the same as before."""
        tree = self._tree
        before = tree.by_id.get((span.trace_id, span.span_id))
        below = list(self._children.get(span.span_id, ()))
        if before is None:
            self._put_below(span)
        else:
            tree.by_id[span.trace_id, span.span_id] = span
            if before.parent_span_id != span.parent_span_id:
                return False
        if span.task:
            self._roots[span.task] = span, tree.task(span)
        if not below:
            return True
        line = [span, *tree.ancestors(span)]
        kind = next((each.kind for each in line if each.kind), None)
        if kind in _MERGED and self._has_below(span.span_id, str(kind)):
            return False
        if before is not None and all(getattr(before, n) == getattr(span, n) for n in _SHOWN):
            return True
        shown = [name for name in INHERITED if any(getattr(each, name) for each in line)]
        children = [tree.by_id[span.trace_id, child] for child in below]
        if not all(getattr(child, name) for child in children for name in shown):
            return False
        # A hand-off asks for the agent above its own.
        agents = self._trace.agents if self._trace and "agent" in shown else ()
        return not any(span in tree.ancestors(agent) for agent in agents)

    def _has_below(self, span_id: str, kind: str) -> bool:
        """Return whether a span of this kind lies below, with none of another kind between."""
        waiting, seen = [span_id], {span_id}
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                found = self._tree.by_id[self._trace_id, child].kind
                if found == kind:
                    return True
                if found is None and child not in seen:
                    seen.add(child)
                    waiting.append(child)
        return False

    def _add(self, span: SpanFields) -> bool:
        """Make the turns of a span, and change those of others; returns whether that is sure."""
        if span.kind == "model":
            if self._last_model is not None and _place(span) <= self._last_model:
                return False
            self._last_model = _place(span)
            new = asked_ids(span)
            self._asked_ids.update(new)
            self.unanswered.update(new)
        if not tells_of_turns(span):
            return True
        if self._trace is None or twin_of(span, self._tree):
            return False
        one = _Trace([span], self._tree, self._sessions, ended=False)
        if one.replay != self._trace.replay:
            return False
        if not (self._add_results(span) and self._add_tool(one) and self._add_model(one)):
            return False
        self._trace.agents += one.agents
        for agent in one.agents:
            if row := self._trace._handoff_row(agent, self._acting):
                self._put(row)
            else:
                self._note_callers(agent)
        one.models, one.tools, one.agents, one.asked = [], [], [], []
        for row in one.rows():
            self._put(row)
        return True

    def _add_tool(self, one: _Trace) -> bool:
        """Join the span of a tool with a call that a model asked for."""
        trace = self._trace
        for tool in one.tools:
            assert trace is not None
            by_id = tool.call_id is not None and tool.call_id in self._by_id
            if by_id:
                calls = [self._by_id[str(tool.call_id)]]
                if calls[0] in self._numbered:
                    return False
            else:
                calls = list(self._left.get(tool.name, ()))
                last = self._last_named.get(tool.name)
                if tool.name in self._left and last and (tool.start_ns, tool.span_id) < last:
                    return False
                if (tool.name, tool.arguments) in self._loose:
                    return False
            one.asked = [trace.asked[index] for index in calls]
            place = one._match().get(tool.span_id)
            index = None if place is None else calls[place]
            trace.tools.append(tool)
            if index is not None and index not in self._covered:
                self._uncall(index)
            self._note_match(tool, index)
            if not self._put_tool(tool):
                return False
        return True

    def _uncall(self, index: int) -> None:
        """Let a call that gets a span of its own be no turn by itself."""
        assert self._trace is not None
        if index in self._kept_back:
            self._kept_back.discard(index)
            return
        row = self._trace._call_row(index)
        self._turns_of[row["call_id"]].remove(index)
        self.rows.pop(key_of(row), None)
        self.gone.add(key_of(row))

    def _add_model(self, one: _Trace) -> bool:
        """Add a response, the calls that it asks for, and the end of those before it."""
        trace = self._trace
        for model in one.models:
            assert trace is not None
            given = model.given or ()
            asks = bool(given) and given[-1].role == "user"
            if not trace.models or (asks and _follows_answer(given)):
                return False
            asked = [each for each in one.asked if not each[2]]
            known = [call.call_id for call, _, _ in asked if call.call_id in self._by_id]
            if any(trace.asked[self._by_id[str(call_id)]][2] for call_id in known):
                return False
            asked = [each for each in asked if each[0].call_id not in known]
            if any(self._is_awaited(call) for call, _, _ in asked):
                return False
            trace.models.append(model)
            trace.steps |= one.steps
            places = range(len(trace.asked), len(trace.asked) + len(asked))
            trace.asked += asked
            for index in places:
                self._ask(index)
            if not self._acts(model) or not self._put(trace._model_row(model)):
                return False
            self._kept_back.update(places)
            for index in self._start(model.start_ns):
                self._put_call(index)
        return True

    def _is_awaited(self, call: ToolCall) -> bool:
        """Return whether a span that came before its call might take it."""
        if call.call_id in self._tool_ids or call.name in self._unmatched:
            return True
        if not self._open:
            return False
        return any((call.name, each) in self._open for each in (call.arguments, _bare(call)))

    def _start(self, start_ns: int) -> set[int]:
        """Note the start of a response; returns the calls without spans that end by it."""
        assert self._trace is not None
        starts, models = self._trace.starts, self._trace.models
        place = bisect_left(starts, start_ns)
        begin = bisect_right(models, starts[place - 1], key=_end) if place else 0
        end = bisect_right(models, start_ns, key=_end)
        insort(starts, start_ns)
        asked = (self._asked_by.get(model.span_id, ()) for model in models[begin:end])
        return {index for each in asked for index in each if index not in self._covered}

    def _put_call(self, index: int) -> None:
        """Make a turn of a call without a span, if none will come."""
        assert self._trace is not None
        if not self._trace._is_over(index):
            return
        row = self._trace._call_row(index)
        turns = self._turns_of.setdefault(row["call_id"], [])
        if index not in turns:
            turns.append(index)
        self._kept_back.discard(index)
        self._put(row)

    def _put_tool(self, tool: SpanFields) -> bool:
        assert self._trace is not None
        row = self._trace._tool_row(tool, self._matched.get(tool.span_id))
        if row["call_id"] is not None:
            turns = self._turns_of.setdefault(row["call_id"], [])
            if tool not in turns:
                turns.append(tool)
        return self._acts(tool) and self._put(row)

    def _acts(self, span: SpanFields) -> bool:
        """Note that an agent acts; returns whether that makes no call of another a hand-off."""
        agent = self._tree.agent(span)
        self._acting.add(agent)
        return agent not in self._callers

    def _put(self, row: TurnRow) -> bool:
        fill_from([row], self._results, self._sessions)
        key = key_of(row)
        self.rows[key] = row
        self.gone.discard(key)
        return True

    def _add_results(self, span: SpanFields) -> bool:
        """Learn the results that a model was given, and add them to the calls' turns."""
        results = list(given_results([span], self._tree, self._conversations))
        self._sessions.learn_results(results, self._tree)
        for _, result, _ in results:
            call_id = str(result.call_id)
            if (span.trace_id, call_id) in self._results:
                continue
            self._results[span.trace_id, call_id] = result
            for turn in tuple(self._turns_of.get(call_id, ())):
                if isinstance(turn, int):
                    self._put_call(turn)
                else:
                    self._put_tool(turn)
        return True


def asked_ids(span: SpanFields) -> list[str]:
    """Return the ids of the calls that a model asked for."""
    return [c.call_id for c in span.calls if c.call_id] if span.kind == "model" else []


def _end(span: SpanFields) -> int:
    return span.end_ns
