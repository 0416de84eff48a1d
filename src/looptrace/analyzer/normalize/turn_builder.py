"""Spans to turns: in any dialect, and without counting anything twice.

Tool calls have two sources: the spans of tools, and the messages of models' spans. The two are
joined on the call id, else on name, arguments and order. Each call becomes one turn.
It is long because all turns of a trace are made here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import polars as pl
from msgspec.structs import asdict

from looptrace.analyzer.fields.call_numbers import id_before, written_id
from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.fields.span_fields import span_fields_of
from looptrace.analyzer.fingerprint.equivalence import NOTHING, PER_SERVICE, Sameness, Sessions
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.fingerprint.rounds import comes_again
from looptrace.analyzer.normalize.agent_runs import NOBODY, agent_runs_of, message_of
from looptrace.analyzer.normalize.session_history import (
    SESSION_NAME,
    SessionHistory,
    fill_from,
    given_results,
    results_in_traces,
)
from looptrace.analyzer.normalize.span_tree import SpanTree, span_tree_of
from looptrace.analyzer.normalize.steps import settled
from looptrace.analyzer.normalize.trace_groups import TraceGroups
from looptrace.analyzer.normalize.twin_spans import SpanKey, calls_without_kind, merge_twins
from looptrace.analyzer.normalize.understanding import Understood, understood_of
from looptrace.analyzer.schema.distinct_spans import whole_spans
from looptrace.analyzer.schema.message import ToolCall
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.schema.turns import numbered, table_of
from looptrace.analyzer.text.payloads import parsed

# Kinds of turns that carry the progress of their span. Of turns that share a span, only one does.
_MEASURING = ("tool", "attempt", "progress")

TurnRow = dict[str, Any]  # by column; a missing column is null


@dataclass(frozen=True, slots=True)
class Noted:
    """What there is to say of the spans that turns were made of."""

    skipped: list[Skipped]
    understood: Understood


def turns_of(
    spans: pl.DataFrame, sameness: Sameness = NOTHING, dialects: DialectTable = SHIPPED
) -> tuple[pl.DataFrame, Noted]:
    """Turn spans (`SPAN_SCHEMA`, in any order) into turns (`TURN_SCHEMA`, sorted and numbered).

    The second result is what could not be taken as it stood, circles of parents, and how much was
    understood. `sameness` decides how turns are compared, `dialects` how spans are read.
    """
    return turns_of_fields(span_fields_of(whole_spans(spans), dialects), sameness)


def turns_of_fields(
    spans: Iterable[SpanFields],
    sameness: Sameness = NOTHING,
    *,
    sessions: SessionHistory | None = None,
) -> tuple[pl.DataFrame, Noted]:
    """Turn spans that were read, in any order, into turns as `turns_of` does.

    `sessions` has what earlier traces of a session showed, and learns from these spans.
    """
    by_trace, skipped, understood = _rows_by_trace(
        spans, sessions or SessionHistory(), naming=sameness.sessions
    )
    turns = numbered(add_fingerprints(table_of(by_trace), sameness))
    return turns, Noted(skipped, understood())


def turn_rows_of(
    spans: Iterable[SpanFields],
    sessions: SessionHistory,
    *,
    above: Iterable[SpanFields] = (),
    known: TraceGroups | None = None,
    naming: Sessions = PER_SERVICE,
    ended: bool = True,
) -> tuple[list[TurnRow], list[Skipped]]:
    """Return the rows of turns before they are fingerprinted.

    Three arguments serve spans that are still arriving. The spans `above` are still open and only
    give what the others inherit. `known` has learned how these traces and others belong together.
    A trace that has not `ended` holds back the calls of its last response until their results are
    known, because they may get spans of their own.
    """
    by_trace, skipped, _ = _rows_by_trace(spans, sessions, above, known, naming, ended=ended)
    return list(chain.from_iterable(by_trace)), skipped


def _rows_by_trace(
    spans: Iterable[SpanFields],
    sessions: SessionHistory,
    above: Iterable[SpanFields] = (),
    known: TraceGroups | None = None,
    naming: Sessions = PER_SERVICE,
    *,
    ended: bool = True,
) -> tuple[Iterator[list[TurnRow]], list[Skipped], Callable[[], Understood]]:
    """Return the rows of each trace, what was skipped, and what says how much was understood."""
    fields = sorted(spans, key=lambda s: (s.trace_id, s.end_ns, s.start_ns, s.span_id))
    every = settled([*fields, *above])
    tree, skipped = span_tree_of(every, known, naming)
    fields = every[: len(fields)]
    results = list(given_results(fields, tree))
    sessions.learn_results(results, tree)
    spans_read, fields = fields, merge_twins(fields, tree)
    if fields is not spans_read:
        results = list(given_results(fields, tree))
    in_trace = results_in_traces(results)
    by_trace: dict[str, list[SpanFields]] = defaultdict(list)
    spare: dict[str, list[SpanFields]] = defaultdict(list)
    for span in fields:
        if tells_of_turns(span):
            by_trace[span.trace_id].append(span)
        elif span.arguments is not None:
            spare[span.trace_id].append(span)
    in_order = sorted(
        by_trace.items(), key=lambda item: (min(s.start_ns for s in item[1]), item[0])
    )
    adopted: set[SpanKey] = set()

    def rows() -> Iterator[list[TurnRow]]:
        for trace_id, members in in_order:
            trace = _Trace(members, tree, sessions, spare.get(trace_id, ()), ended=ended)
            adopted.update((trace_id, span_id) for span_id in trace.adopted)
            yield fill_from(trace.rows(), in_trace, sessions)

    kept = {(span.trace_id, span.span_id) for span in fields}
    return rows(), skipped, partial(understood_of, spans_read, kept, tree, adopted)


def tells_of_turns(span: SpanFields) -> bool:
    """Return whether a span is more than a node of the tree."""
    return bool(span.kind or span.status or span.figures.known or span.interventions)


def adopted_in(
    spans: Iterable[SpanFields], tree: SpanTree, sessions: SessionHistory
) -> set[SpanKey]:
    """Return the spans of a trace that have no kind, and are calls that a model asked for."""
    spans = list(spans)
    members = [span for span in spans if tells_of_turns(span)]
    spare = [s for s in spans if s.arguments is not None and not tells_of_turns(s)]
    if not (members and spare):
        return set()
    trace = _Trace(members, tree, sessions, spare, ended=False)
    return {(members[0].trace_id, span_id) for span_id in trace.adopted}


class _Trace:
    """The spans of one trace while they become turns; of the `spare` ones, some may be calls."""

    def __init__(
        self,
        spans: list[SpanFields],
        tree: SpanTree,
        sessions: SessionHistory,
        spare: Iterable[SpanFields] = (),
        *,
        ended: bool,
    ) -> None:
        trace_id = spans[0].trace_id
        self.tree = tree
        self.sessions = sessions
        self.tools = [span for span in spans if span.kind == "tool" and not span.is_part]
        self.models = [span for span in spans if span.kind == "model" and span.speaks]
        self.agents = [span for span in spans if span.kind == "agent"]
        self.attempts = [span for span in spans if span.status]
        self.progress = [s for s in spans if s.figures.known and not s.kind and not s.status]
        self.interventions = [span for span in spans if span.interventions]
        self.starts = sorted(span.start_ns for span in self.models)
        self.steps = {span.span_id for span in self.models if len(span.calls) > 1}
        start_ns = min(span.start_ns for span in spans)
        self.replay = sessions.note_trace(trace_id, tree.sessions[trace_id].name, start_ns)
        self.ended = ended
        self.asked = self._asked()
        self.adopted: dict[str, str] = {}  # names of spans of no kind that are calls, by span
        if self.asked and spare:
            self._adopt(spare)

    def rows(self) -> list[TurnRow]:
        """Make a row for every tool call, response, hand-off, attempt and message of a person."""
        rows = [self._model_row(span) for span in self.models]
        matched = self._match()
        rows += [self._tool_row(span, matched.get(span.span_id)) for span in self.tools]
        covered = set(matched.values())
        uncovered = (i for i in range(len(self.asked)) if i not in covered)
        rows += [self._call_row(i) for i in uncovered if self._is_over(i)]
        rows += self.request_rows({row["agent"] for row in rows})
        rows += [self._attempt_row(span) for span in self.attempts]
        rows += [self._row(span, "progress", name=None) for span in self.progress]
        return rows + self._switch_rows() + self._intervention_rows()

    def request_rows(self, acting: set[str]) -> list[TurnRow]:
        """Make a row for each request: a hand-off, or a person's message.

        The agents that are `acting` have turns.
        """
        runs = agent_runs_of(self.agents, self.tree, acting, ended=self.ended)
        handoffs = [self._handoff_row(run, caller) for run, caller in runs.handoffs]
        return handoffs + list(map(self._user_row, runs.messages(self.models, self.tree)))

    def _asked(self) -> list[tuple[ToolCall, SpanFields, int]]:
        """List every call that a model asked for, with its model's span and how many turns ago.

        Calls that only the first response's history shows are replayed, unless earlier traces of
        the session have them. Later histories show nothing new, and some name calls differently.
        """
        found: list[tuple[ToolCall, SpanFields, int]] = []
        own = {call.call_id for span in self.models for call in span.calls if call.call_id}
        # One span for many requests may show the history of one and the answer of another.
        have_spans = {written_id(tool.call_id) for tool in self.tools if tool.call_id}
        own |= {id_before(i) or i for i in own if written_id(i) in have_spans}
        if self.replay and self.models:
            given = self.models[0].given or ()
            history = [c for m in given for c in m.calls if c.call_id and c.call_id not in own]
            found += [(c, self.models[0], len(history) - i) for i, c in enumerate(history)]
        asking: dict[str, SpanFields] = {}
        for span in self.models:
            for call in span.calls:
                if not call.call_id or is_new_call(call, span, asking.get(call.call_id)):
                    found.append((call, span, 0))
                    asking |= {call.call_id: span} if call.call_id else {}
        return found

    def _adopt(self, spare: Iterable[SpanFields]) -> None:
        """Take spans of no kind as calls that have no span, if name and arguments are the same."""
        covered = set(self._match(by_name=False).values())
        calls = (call for i, (call, _, _) in enumerate(self.asked) if i not in covered)
        adopted = calls_without_kind(spare, calls, self.tools, self.tree)
        self.adopted = {span.span_id: span.name for span in adopted}
        self.tools += adopted

    def _match(self, *, by_name: bool = True) -> dict[str, int]:
        """Join tool spans with asked calls (index into `asked`) by call id, else by what they do.

        That is name and arguments, in order, else the name alone if a span or a call has no id,
        unless names shall not be enough.
        """
        by_id: dict[str, list[int]] = defaultdict(list)
        for i, (call, _, _) in enumerate(self.asked):
            if call.call_id:
                by_id[written_id(call.call_id)].append(i)
        named_ids = [(t, by_id.get(written_id(t.call_id))) for t in self.tools if t.call_id]
        matched = {t.span_id: self._call_of(t, calls) for t, calls in named_ids if calls}
        taken = set(matched.values())
        waiting: dict[tuple[str, str | None], deque[int]] = defaultdict(deque)
        without_id: dict[str, deque[int]] = defaultdict(deque)
        for i, (call, _, _) in enumerate(self.asked):
            for arguments in {None, call.arguments, _bare(call)} if i not in taken else ():
                waiting[call.name, arguments].append(i)
            if not call.call_id:
                without_id[call.name].append(i)
        left = [tool for tool in self.tools if tool.span_id not in matched]
        left.sort(key=lambda t: (t.start_ns, t.span_id))
        told = [(t, waiting[t.name, t.arguments]) for t in left if t.arguments is not None]
        named = [
            (t, waiting[t.name, None] if t.call_id is None else without_id[t.name]) for t in left
        ]
        for tool, calls in (*told, *(named if by_name else ())):
            while calls and tool.span_id not in matched:
                if (i := calls.popleft()) not in taken:
                    taken.add(i)
                    matched[tool.span_id] = i
        return matched

    def _call_of(self, tool: SpanFields, calls: list[int]) -> int:
        """Return the call of a tool's span, of those with its id: the last one before it began."""
        if len(calls) == 1:
            return calls[0]
        before = [i for i in calls if self.asked[i][1].start_ns <= tool.start_ns] or calls[:1]
        same = [i for i in before if does_call(tool, self.asked[i][0])] or before
        return max(same, key=lambda i: (self.asked[i][1].start_ns, i))

    def _row(self, span: SpanFields, kind: str, **fields: Any) -> TurnRow:
        tree = self.tree
        declared, session = tree.declared_task(span), tree.session(span)
        task = session.name if declared is None else tree.root_of(declared, span)
        phase, phase_start_ns = tree.phase(span)
        row: TurnRow = {
            "task": task,
            "subtask": None if declared == task else declared,
            "task_kind": self.tree.task_kind(span),
            "session": session.id,
            SESSION_NAME: session.name,
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "kind": kind,
            "agent": self.tree.agent(span),
            "name": span.name,
            "phase": phase,
            "phase_start_ns": phase_start_ns,
            "iteration": self.tree.iteration(span),
            "failed": span.failed,
            "error_type": span.error_type,
            "error": span.error,
            "trace_hash": span.stacktrace,  # It is hashed later, with the rest.
            "start_ns": span.start_ns,
            "end_ns": span.end_ns,
            "service": span.service,
        }
        if kind in _MEASURING and span.figures.known:
            row |= asdict(span.figures)
        row.update(fields)
        return row

    def _model_row(self, span: SpanFields) -> TurnRow:
        return self._row(
            span,
            "model",
            text=span.text,
            arguments=span.news,
            response=span.response,
            talks_on=span.talks_on,
            finish_reason=span.finish_reason,
            compacted=span.compacted,
            input_tokens=span.input_tokens,
            output_tokens=span.output_tokens,
            cached_tokens=span.cached_tokens,
            cache_write_tokens=span.cache_write_tokens,
            reasoning_tokens=span.reasoning_tokens,
        )

    def _tool_row(self, span: SpanFields, index: int | None) -> TurnRow:
        call, model, _ = self.asked[index] if index is not None else (None, None, 0)
        return self._row(
            span,
            "tool",
            call_id=(call.call_id if call else None) or span.call_id,
            arguments=_named_arguments(span.arguments, call),
            result=span.result,
            step=self._step(model),
        )

    def _is_over(self, index: int) -> bool:
        """Return whether a call without a span of its own will no longer get one."""
        call, model, ago = self.asked[index]
        return (
            self.ended
            or bool(ago)
            or bisect_left(self.starts, model.end_ns) < len(self.starts)
            or (self.tree.session(model).name, call) in self.sessions.results
        )

    def _call_row(self, index: int) -> TurnRow:
        """Make a turn of a call without a span of its own; it ends when the next model starts."""
        call, model, ago = self.asked[index]
        later = bisect_left(self.starts, model.end_ns)
        end_ns = self.starts[later] if later < len(self.starts) else model.end_ns
        end_ns = model.start_ns - ago if ago else end_ns
        return self._row(
            model,
            "tool",
            name=call.name,
            call_id=call.call_id or f"{call.name}-{index}",
            arguments=call.arguments,
            failed=None,
            error_type=None,
            error=None,
            trace_hash=None,
            step=None if ago else self._step(model),
            start_ns=end_ns if ago else model.end_ns,
            end_ns=end_ns,
        )

    def _step(self, model: SpanFields | None) -> str | None:
        """Return the step of a response's parallel calls; None for a single call."""
        return model.span_id if model and model.span_id in self.steps else None

    def _handoff_row(self, run: SpanFields, caller: str) -> TurnRow:
        asked = message_of(run)
        # What a program passes on is said by no agent, and repeats the words of other agents.
        text = None if caller == NOBODY else asked
        fields = {"agent": caller, "name": run.agent, "arguments": asked, "text": text}
        return self._row(run, "handoff", **fields, result=run.text)

    def _attempt_row(self, span: SpanFields) -> TurnRow:
        """Make an attempt from a span that says how far its task has come."""
        said = {"arguments": span.blockers, "result": span.completed_work}
        return self._row(span, "attempt", name=span.status, **said)

    def _switch_rows(self) -> list[TurnRow]:
        """Make each attempt at a declared task a turn of its session too.

        In the session it is one of several tasks, and an agent may switch between them.
        """
        return [
            row
            | {"kind": "switch", "task": row[SESSION_NAME]}
            | {"subtask": row["subtask"] or row["task"]}
            for row in map(self._attempt_row, self.attempts)
            if row["task"] != row[SESSION_NAME]
        ]

    def _intervention_rows(self) -> list[TurnRow]:
        """Make a person's message from each event that says that a person stepped in."""
        blank = {"agent": "", "failed": None, "error_type": None, "error": None}
        return [
            self._row(span, "user", call_id=f"intervention-{i}", **blank)
            | {"name": done.decision, "text": done.note}
            | {"start_ns": done.at_ns, "end_ns": done.at_ns}
            for span in self.interventions
            for i, done in enumerate(span.interventions)
        ]

    def _user_row(self, span: SpanFields) -> TurnRow:
        # A message starts before its span, because the span may have taken no time.
        at = {"start_ns": span.start_ns - 1, "end_ns": span.start_ns}
        said = {"text": message_of(span), "arguments": comes_again(span.given or ())}
        blank = dict.fromkeys(("name", "failed", "error_type", "error", "trace_hash"))
        return self._row(span, "user", agent="", **said, **at, **blank)


def _named_arguments(arguments: str | None, call: ToolCall | None) -> str | None:
    """Prefer the call's arguments if the tool's span has none, or only the bare value of one."""
    if call is None or call.arguments is None or arguments == call.arguments:
        return arguments
    if arguments is None:
        return call.arguments
    return call.arguments if _bare(call) == arguments else arguments


def is_new_call(call: ToolCall, again: SpanFields, asking: SpanFields | None) -> bool:
    """Return whether a call is new, whose id a response was `asking` for before.

    Two spans of one response ask for the same, at the same time or given the same.
    """
    if asking is None or call not in asking.calls:
        return True
    has_same = bool(again.given) and again.given == asking.given
    return again is not asking and again.start_ns >= asking.end_ns and not has_same


def does_call(tool: SpanFields, call: ToolCall) -> bool:
    """Return whether a tool's span has name and arguments of a call."""
    return tool.name == call.name and tool.arguments in (call.arguments, _bare(call))


def _bare(call: ToolCall) -> str | None:
    """Return the value of a call's only argument, as some frameworks show it without its name."""
    named = parsed(call.arguments)
    return str(next(iter(named.values()))) if isinstance(named, dict) and len(named) == 1 else None
