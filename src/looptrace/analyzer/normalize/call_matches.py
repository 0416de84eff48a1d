"""Which calls of a trace have spans of their own, while calls and spans arrive.

Calls and spans are joined as in a whole trace. This module only says which calls a new span may
have, and whether a new span or call could change what was joined before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection
from itertools import chain

from looptrace.analyzer.fields.call_numbers import written_id
from looptrace.analyzer.normalize.turn_builder import TurnRow, _bare, _Trace, is_new_call
from looptrace.analyzer.schema.message import ToolCall
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.schema.turns import TURN_KEY

TurnKey = tuple[str | None, ...]  # `TURN_KEY`
_Sought = tuple[str, str | None]  # name and arguments


def key_of(row: TurnRow) -> TurnKey:
    """Return the key that identifies a turn."""
    return tuple(row.get(name) for name in TURN_KEY)


class CallMatches:
    """The calls that models of a trace asked for, and the tool spans joined with them."""

    def __init__(self, trace: _Trace, known: Collection[TurnKey]) -> None:
        """Join the calls and spans of a trace; `known` are the keys of its turns."""
        self.trace = trace
        self.of_span: dict[str, int] = {}  # the call of each tool's span
        self.covered: set[int] = set()  # calls that have a span
        self.by_id: dict[str, list[int]] = {}  # by the ids that spans show
        self._asking: dict[str, SpanFields] = {}  # the last response that asked for an id
        self._replayed: set[str] = set()  # ids of calls that only a history shows
        # The turns by the id of their call. A turn is a tool's span, or a call without a span.
        self.turns: dict[str, list[SpanFields | int]] = {}
        self._of_model: dict[str, list[int]] = {}  # calls by their model's span
        self._left: dict[str, dict[int, None]] = {}  # calls without a span, by name
        self._by_name: set[int] = set()  # calls whose span does not name their id
        self._last_start: dict[str, tuple[int, str]] = {}  # of such spans, by name
        self._span_ids: dict[str, int] = {}  # ids of calls that spans name, and their last start
        self._hungry: set[str] = set()  # names of spans that would take any call of that name
        self._numbered: set[str] = set()  # names of those that would take one without an id
        self._sought: set[_Sought] = set()  # calls that spans would prefer
        self._loose: set[_Sought] = set()  # calls joined by name alone
        for index in range(len(trace.asked)):
            self._ask(index)
        matched = trace._match()
        spans = {span.span_id: span for span in trace.tools}
        for span in sorted(trace.tools, key=_start):
            self.join(span, matched.get(span.span_id))
        places = {self._key(index): index for index in range(len(trace.asked))}
        # If calls share an id, each span may change the turn of another.
        self.is_tangled = len(places) < len(trace.asked)
        # Calls that may still get a span of their own. They are not turns yet.
        self.kept_back = {
            index for key, index in places.items() if not (index in self.covered or key in known)
        }
        for key in known:
            turn = spans.get(str(key[1])) or places.get(key)
            if key[2] == "tool" and turn is not None:
                self.turns.setdefault(str(key[3]), []).append(turn)

    def _key(self, index: int) -> TurnKey:
        """Return the key that identifies a call while it has no span."""
        call, model, _ = self.trace.asked[index]
        return model.trace_id, model.span_id, "tool", call.call_id or f"{call.name}-{index}"

    def _ask(self, index: int) -> None:
        call, model, ago = self.trace.asked[index]
        if call.call_id:
            self.by_id.setdefault(written_id(call.call_id), []).append(index)
            self._asking[call.call_id] = model
            self._replayed |= {call.call_id} if ago else set()
        self._left.setdefault(call.name, {})[index] = None
        if not ago:
            self._of_model.setdefault(model.span_id, []).append(index)

    def join(self, tool: SpanFields, index: int | None) -> None:
        """Note which call a tool's span has, and which other call it would prefer."""
        call = None
        if index is not None:
            call = self.trace.asked[index][0]
            self.of_span[tool.span_id] = index
            self.covered.add(index)
            self._left[call.name].pop(index, None)
        if tool.call_id is not None:
            call_id = written_id(tool.call_id)
            self._span_ids[call_id] = max(self._span_ids.get(call_id, 0), tool.start_ns)
            if call_id in self.by_id:
                return
        self._last_start[tool.name] = _start(tool)
        if call is not None and index is not None:
            self._by_name.add(index)
            if tool.arguments is not None and tool.arguments in (call.arguments, _bare(call)):
                return
            self._loose |= {(call.name, call.arguments), (call.name, _bare(call))}
        else:
            (self._hungry if tool.call_id is None else self._numbered).add(tool.name)
        if tool.arguments is not None:
            self._sought.add((tool.name, tool.arguments))

    def calls_for(self, tool: SpanFields) -> list[int] | None:
        """Return the calls that a new span may have; None if it could take another span's call."""
        if tool.call_id is not None and (same := self.by_id.get(written_id(tool.call_id))):
            is_uncertain = not self._by_name.isdisjoint(same)
            # A history shows fewer calls where a span has the id of one.
            is_uncertain |= len(same) > 1 and any(self.trace.asked[index][2] for index in same)
            return None if is_uncertain else list(same)
        if (tool.name, tool.arguments) in self._loose:
            return None
        # Spans take calls in the order of their starts.
        if tool.name in self._left and _start(tool) < self._last_start.get(tool.name, _FIRST):
            return None
        return list(self._left.get(tool.name, ()))

    def wants(self, span: SpanFields) -> bool:
        """Return whether a span of no kind may be a call that has no span, or only by its name."""
        if (span.name, span.arguments) in self._loose:
            return True
        left = self._left.get(span.name, ())
        return any(self.trace.asked[index][0].arguments == span.arguments for index in left)

    def add(self, model: SpanFields, one: _Trace) -> bool:
        """Add the calls of a new response; returns whether no earlier span may have one of them.

        `one` is a trace with that response alone.
        """
        asked = [each for each in one.asked if not each[2]]
        ids = {call.call_id for call, _, _ in asked if call.call_id}
        if not self._replayed.isdisjoint(ids):
            return False  # The history of the first response shows this call.
        asking = self._asking
        asked = [e for e in asked if is_new_call(e[0], model, asking.get(e[0].call_id or ""))]
        if any(self._is_awaited(call, model) for call, _, _ in asked):
            return False
        self.trace.models.append(model)
        self.trace.steps |= one.steps
        begin = len(self.trace.asked)
        self.trace.asked += asked
        for index in range(begin, len(self.trace.asked)):
            self._ask(index)
            self.kept_back.add(index)
        return True

    def _is_awaited(self, call: ToolCall, model: SpanFields) -> bool:
        call_id = written_id(call.call_id or "")
        began = self._span_ids.get(call_id)
        # A span takes the last call of its id before it began.
        if began is not None and (call_id not in self.by_id or began >= model.start_ns):
            return True
        if call.name in self._hungry:
            return True
        if not call.call_id and call.name in self._numbered:
            return True
        sought = ((call.name, each) for each in (call.arguments, _bare(call)))
        return bool(self._sought) and any(each in self._sought for each in sought)

    def ended_by(self, model: SpanFields) -> set[int]:
        """Note the start of a response; returns the calls without spans that end at it."""
        starts, models = self.trace.starts, self.trace.models
        place = bisect_left(starts, model.start_ns)
        begin = bisect_right(models, starts[place - 1], key=_end_ns) if place else 0
        end = bisect_right(models, model.start_ns, key=_end_ns)
        insort(starts, model.start_ns)
        calls = chain.from_iterable(self._of_model.get(m.span_id, ()) for m in models[begin:end])
        return set(calls) - self.covered

    def note_turn(self, call_id: str | None, turn: SpanFields | int) -> None:
        """Note the turn of a call, by the call's id in that turn."""
        if call_id is not None and turn not in (turns := self.turns.setdefault(call_id, [])):
            turns.append(turn)


_FIRST = (-1, "")  # before all starts


def _start(span: SpanFields) -> tuple[int, str]:
    return span.start_ns, span.span_id


def _end_ns(span: SpanFields) -> int:
    return span.end_ns
