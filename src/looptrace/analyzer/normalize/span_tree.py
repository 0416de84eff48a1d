"""What belongs together: spans and their parents, traces and their sessions, tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import PER_SERVICE, Sessions
from looptrace.analyzer.normalize.trace_groups import Connections, TraceGroups
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.text.session_names import Session

# Parents beyond this are ignored. No framework seen nests more than about twenty spans.
ANCESTORS_MAX = 100
INHERITED = ("session", "task", "task_kind", "agent", "phase", "iteration")


@dataclass(frozen=True, slots=True)
class SpanTree:
    """The spans by id, and for each trace the session it belongs to."""

    by_id: dict[tuple[str, str], SpanFields]
    sessions: dict[str, Session]
    joined: Mapping[str, str]  # names of sessions that several services share, by their other names
    naming: Sessions
    parents: Mapping[str, str]  # of declared tasks
    said: frozenset[str]  # the inherited fields that any span has

    def ancestors(self, span: SpanFields) -> Iterator[SpanFields]:
        """Walk from a span's parent upwards; a circle of parents ends the walk."""
        if span.parent_span_id is None:
            return
        seen = {span.span_id}
        while len(seen) <= ANCESTORS_MAX and span.parent_span_id not in seen:
            parent = self.by_id.get((span.trace_id, span.parent_span_id or ""))
            if parent is None:
                return
            seen.add(parent.span_id)
            yield parent
            span = parent

    def session(self, span: SpanFields) -> Session:
        """Return the session of the span, of its nearest ancestor, or of its trace."""
        naming = span if span.session else self._nearest_with(span, "session")
        if naming is None:
            return self.sessions[span.trace_id]
        session = str(naming.session)
        name = self.naming.name_of(session, naming.service)
        return Session(session, self.joined.get(name, name))

    def task(self, span: SpanFields) -> str:
        """Return the root of the declared task of the span or its ancestors, else its session."""
        return self.root_of(self.declared_task(span), span)

    def declared_task(self, span: SpanFields) -> str | None:
        """Return the task that the span or its nearest ancestor declares."""
        return self._nearest(span, "task")

    def task_kind(self, span: SpanFields) -> str | None:
        """Return the kind of task that the span or its nearest ancestor declares."""
        return self._nearest(span, "task_kind")

    def root_of(self, declared: str | None, span: SpanFields) -> str:
        """Return the task whose counters a declared task shares; without a task, the session.

        A circle of tasks ends at its smallest name.
        """
        if declared is None:
            return self.session(span).name
        passed = [declared]
        while (parent := self.parents.get(passed[-1])) and len(passed) <= ANCESTORS_MAX:
            if parent in passed:
                return min(passed[passed.index(parent) :])
            passed.append(parent)
        return passed[-1]

    def agent(self, span: SpanFields) -> str:
        """Return the agent that the span or its nearest ancestor names, "" if none does."""
        return self._nearest(span, "agent") or ""

    def phase(self, span: SpanFields) -> tuple[str | None, int | None]:
        """Return the phase that the span or its nearest ancestor declares, and its start.

        The start is not known if a call or a response declares its own phase.
        """
        declares = self._nearest_with(span, "phase")
        if declares is None:
            return None, None
        alone = declares is span and span.kind in ("tool", "model")
        return declares.phase, declares.phase_start_ns or (None if alone else declares.start_ns)

    def iteration(self, span: SpanFields) -> str | None:
        """Return the iteration that the span or its nearest ancestor belongs to."""
        return self._nearest(span, "iteration")

    def _nearest(self, span: SpanFields, name: str) -> str | None:
        """Return a field of the span, else of its nearest ancestor that has it."""
        if name not in self.said:
            return None
        found = self._nearest_with(span, name)
        return None if found is None else str(getattr(found, name))

    def _nearest_with(self, span: SpanFields, name: str) -> SpanFields | None:
        """Return the span if it has a field, else its nearest ancestor that has it."""
        if name not in self.said:
            return None
        if getattr(span, name):
            return span
        if span.parent_span_id is None:
            return None
        parent = self.by_id.get((span.trace_id, span.parent_span_id))
        if parent is not None and getattr(parent, name):
            return parent
        return next((above for above in self.ancestors(span) if getattr(above, name)), None)


def span_tree_of(
    spans: list[SpanFields], known: TraceGroups | None = None, naming: Sessions = PER_SERVICE
) -> tuple[SpanTree, list[Skipped]]:
    """Relate the spans, and report circles of parents.

    If there are more spans than these, `known` has learned from all of them. `naming` says which
    sessions are the same.
    """
    by_id = {(span.trace_id, span.span_id): span for span in spans}
    columns = zip(*map(attrgetter(*INHERITED), spans), strict=True)
    said = frozenset(name for name, column in zip(INHERITED, columns, strict=False) if any(column))
    if known is None:
        sessions, joined = _sessions(spans, naming)
        tree = SpanTree(by_id, sessions, joined, naming, _parents(spans), said)
    else:
        sessions = {span.trace_id: known.session(span.trace_id) for span in spans}
        tree = SpanTree(by_id, sessions, known.joined, naming, known.parents, said)
    return tree, _circles(tree)


def _parents(spans: list[SpanFields]) -> dict[str, str]:
    """Return the parents of declared tasks."""
    parents: dict[str, str] = {}
    subtasks = [s for s in spans if s.task and s.task_parent and s.task != s.task_parent]
    for span in sorted(subtasks, key=_start):
        parents.setdefault(str(span.task), str(span.task_parent))
    return parents


def groups(links: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the smallest connected name for every name in the pairs."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        root = name
        while leader.setdefault(root, root) != root:
            root = leader[root]
        while leader[name] != root:
            leader[name], name = root, leader[name]
        return root

    for first, second in links:
        low, high = sorted((find(first), find(second)))
        leader[high] = low
    return {name: find(name) for name in list(leader)}


def _sessions(
    spans: list[SpanFields], naming: Sessions
) -> tuple[dict[str, Session], dict[str, str]]:
    """Return the session of each trace: its first one, else that of the traces it links to.

    Where there is none, it is the connection that the trace begins with.
    The second result joins the names of sessions that several services name in one group of traces.
    """
    traces = {span.trace_id for span in spans}
    links = [(s.trace_id, other) for s in spans for other in s.links if other in traces]
    group_of = {trace: trace for trace in traces} | groups(links)
    by_start = sorted(_first_of_each_session(spans), key=_start)
    of_trace: dict[str, Session] = {}
    of_group: dict[str, Session] = {}
    named: set[tuple[str, str, str]] = set()  # group, session and name
    for span in by_start:
        if span.session:
            group, name = group_of[span.trace_id], naming.name_of(span.session, span.service)
            of_trace.setdefault(span.trace_id, Session(span.session, name))
            of_group.setdefault(group, Session(span.session, name))
            named.add((group, span.session, name))
    connections = Connections(naming)
    for span in spans:
        connections.learn(span)
    for trace in traces:
        if group_of[trace] not in of_group and (begun := connections.session(trace)):
            of_trace[trace] = begun
    for span in by_start:
        session = Session(span.trace_id, span.trace_id)
        of_group.setdefault(group_of[span.trace_id], session)
    joined = _joined(named)
    sessions = {trace: of_trace.get(trace) or of_group[group_of[trace]] for trace in traces}
    sessions = {t: s._replace(name=joined.get(s.name, s.name)) for t, s in sessions.items()}
    return sessions, joined


def _first_of_each_session(spans: list[SpanFields]) -> Iterable[SpanFields]:
    """Return the first span of each trace, session and service."""
    first: dict[tuple[str, str | None, str | None], SpanFields] = {}
    for span in spans:
        key = span.trace_id, span.session, span.service
        before = first.get(key)
        if before is None or (span.start_ns <= before.start_ns and _start(span) < _start(before)):
            first[key] = span
    return first.values()


def _start(span: SpanFields) -> tuple[int, str, str]:
    return span.start_ns, span.trace_id, span.span_id


def joined_names(spans: pl.DataFrame, naming: Sessions) -> dict[str, str]:
    """Return the tasks of sessions that several services share, by their other names.

    The spans have the columns of SPAN_TIES_SCHEMA.
    """
    naming_spans = spans.filter(pl.col("session").is_not_null())
    shared = naming_spans.filter(pl.col("service").n_unique().over("session") > 1)
    if shared.is_empty():
        return {}
    links = spans.select("trace_id", other="linked_traces").explode("other")
    links = links.filter(pl.col("other").is_in(spans["trace_id"].unique().implode()))
    group_of = groups(links.iter_rows())
    rows = shared.select("trace_id", "session", "service").unique().iter_rows()
    joined = _joined((group_of.get(t, t), s, naming.name_of(s, service)) for t, s, service in rows)
    return {name: task for name, task in joined.items() if name != task}


def _joined(named: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Join the names that one session has in a group; the first by the alphabet is kept."""
    first: dict[tuple[str, str], str] = {}
    pairs = {(first.setdefault((group, each), name), name) for group, each, name in named}
    return groups(pair for pair in pairs if pair[0] != pair[1])


def _circles(tree: SpanTree) -> list[Skipped]:
    """Report each trace in which a span is its own ancestor, once."""
    found: dict[str, str] = {}
    depths: dict[tuple[str, str], int] = {}  # depths of spans whose ancestors end at a root
    for (trace_id, span_id), span in tree.by_id.items():
        if trace_id in found or span.parent_span_id is None:
            continue
        if depths.get((trace_id, span.parent_span_id), ANCESTORS_MAX) < ANCESTORS_MAX:
            continue
        chain = [span, *tree.ancestors(span)]
        last = chain[-1]
        if last.parent_span_id and (trace_id, last.parent_span_id) in tree.by_id:
            found[trace_id] = span_id
        else:
            depths |= {(trace_id, s.span_id): d for d, s in enumerate(reversed(chain))}
    return [
        Skipped(
            f"span {span_id} of trace {trace_id}",
            f"its parents form a circle or a chain of over {ANCESTORS_MAX}; "
            "those beyond were not asked for session, task or agent",
        )
        for trace_id, span_id in found.items()
    ]
