"""Which traces belong together, as spans arrive: sessions named late, links, parents of tasks.

The spans so far give the same result as in `span_tree_of`, whatever their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field

from looptrace.analyzer.fingerprint.equivalence import PER_SERVICE, Sessions
from looptrace.analyzer.schema.span_fields import SpanFields
from looptrace.analyzer.text.session_names import Session
from looptrace.bounded_dict import BoundedDict

# Traces of one group or task that learn of changes. If there are more, the first ones do not.
TRACES_TOLD_MAX = 1_000

_Start = tuple[int, str, str]  # start, trace and id of a span
# The first span of each connection; None where a span with a parent has it.
_Begun = MutableMapping[str, tuple[_Start, Session] | None]


class _Names(BoundedDict[str, None]):
    """The most recent of some names."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__(TRACES_TOLD_MAX)
        for name in names:
            self[name] = None


@dataclass(slots=True)
class _Group:
    """Traces that links join: their first span, and the first span that names a session."""

    traces: _Names
    first: _Start
    named: tuple[_Start, Session] | None = None
    # One name of each session that its traces name, by the session's id.
    names: BoundedDict[str, str] = field(default_factory=lambda: BoundedDict(TRACES_TOLD_MAX))

    @property
    def session(self) -> Session:
        """The session of traces that name none themselves, as a span named it."""
        return self.named[1] if self.named else Session(self.first[1], self.first[1])

    def add(self, other: _Group) -> None:
        """Take in another group."""
        for session, name in other.names.items():
            self.names.setdefault(session, name)
        self.traces.update(other.traces)
        self.first = min(self.first, other.first)
        self.named = min((n for n in (self.named, other.named) if n), default=None)


class Connections:
    """The connections with which traces begin: a session where nothing names another.

    Such a trace begins in a server whose client writes no trace. Where a span with a parent has
    the same connection, the client does, and traces tell the agents apart that share it.
    """

    def __init__(self, naming: Sessions, begun: MutableMapping[str, _Begun] | None = None) -> None:
        """Keep the connections of each trace in `begun`, which may be bounded."""
        self._naming, self._begun = naming, {} if begun is None else begun

    def learn(self, span: SpanFields) -> None:
        """Learn the connection of a span, if it has one."""
        if not span.connection:
            return
        begun = self._begun.setdefault(span.trace_id, BoundedDict(TRACES_TOLD_MAX))
        session = Session(span.connection, self._naming.name_of(span.connection, span.service))
        said = ((span.start_ns, span.trace_id, span.span_id), session)
        before = begun.get(span.connection, said)
        begun[span.connection] = None if span.parent_span_id or not before else min(before, said)

    def session(self, trace_id: str) -> Session | None:
        """Return the session with which a trace begins, if it is a connection."""
        begun = filter(None, self._begun.get(trace_id, {}).values())
        return min(begun, default=(None, None))[1]


@dataclass(slots=True)
class _Task:
    """A declared task: the first span that names its parent, and the traces that declare it."""

    parent: tuple[_Start, str] | None = None
    children: set[str] = field(default_factory=set)
    traces: _Names = field(default_factory=_Names)


class TraceGroups:
    """The session of each trace and the parent of each task, as far as spans have shown them."""

    def __init__(self, traces_max: int, naming: Sessions = PER_SERVICE) -> None:
        """Hold at most `traces_max` traces; `naming` says which sessions are the same."""
        self.naming = naming
        self.joined_anew: dict[str, str] = {}  # new entries; the reader clears them
        # Names of sessions that several services share, by their other names. Then the names that
        # have become one, and the last traces that use each name of a session.
        self.joined: BoundedDict[str, str] = BoundedDict(traces_max)
        self._sharing: BoundedDict[str, set[str]] = BoundedDict(traces_max)
        self._traces_naming: BoundedDict[str, _Names] = BoundedDict(traces_max)
        self.parents: BoundedDict[str, str] = BoundedDict(traces_max)  # of declared tasks
        self._groups: BoundedDict[str, _Group] = BoundedDict(traces_max)  # by trace
        self._named: BoundedDict[str, tuple[_Start, Session]] = BoundedDict(traces_max)  # by trace
        self._connections = Connections(naming, BoundedDict(traces_max))
        self._links: BoundedDict[str, set[str]] = BoundedDict(traces_max)  # to traces not yet seen
        self._tasks: BoundedDict[str, _Task] = BoundedDict(traces_max)

    def session(self, trace_id: str) -> Session:
        """Return the session of a trace: its own, else that of its linked traces."""
        session = Session(trace_id, trace_id)
        if named := self._named.get(trace_id):
            session = named[1]
        elif group := self._groups.get(trace_id):
            begun = None if group.named else self._connections.session(trace_id)
            session = begun or group.session
        return session._replace(name=self.joined.get(session.name, session.name))

    def join(self, joined: Mapping[str, str]) -> None:
        """Learn the names of sessions that several services share, by their other names."""
        for name, other in joined.items():
            self._share(name, other)
        self.joined_anew.clear()

    def learn(self, spans: Iterable[SpanFields]) -> set[str]:
        """Learn from spans; returns the traces that change by that."""
        changed: set[str] = set()
        for span in spans:
            before = self.session(span.trace_id) if span.connection else None
            self._connections.learn(span)
            changed |= self._trace(span)
            if before and before != self.session(span.trace_id):
                changed.add(span.trace_id)
            if span.task:
                changed |= self._task(span)
        return changed

    def _trace(self, span: SpanFields) -> set[str]:
        name = span.trace_id
        start = (span.start_ns, name, span.span_id)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(_Names([name]), start)
        before, renamed = group.session, set[str]()
        group.first = min(group.first, start)
        if span.session:
            session = Session(span.session, self.naming.name_of(span.session, span.service))
            said, renamed = (start, session), self._name(group, name, session)
            if name not in self._named or said < self._named[name]:
                self._named[name] = said
            if group.named is None or said < group.named:
                group.named = said
        changed = renamed | (set(group.traces) if group.session != before else set())
        # Traces that linked to this trace before it was seen are joined with it now.
        links = {*self._links.pop(name, ()), *span.links} - {name}
        return changed | self._join(name, links) if links else changed

    def _name(self, group: _Group, trace_id: str, session: Session) -> set[str]:
        """Note a trace's name for a session; returns the traces whose session got another name."""
        self._traces_naming.setdefault(session.name, _Names())[trace_id] = None
        return self._share(group.names.setdefault(session.id, session.name), session.name)

    def _share(self, first: str, second: str) -> set[str]:
        """Make two names mean one session; returns the traces whose session got another name."""
        low, high = sorted(self.joined.get(name, name) for name in (first, second))
        if low == high:
            return set()
        names = self._sharing.pop(high, {high})
        self._sharing.setdefault(low, {low}).update(names)
        self.joined.update(dict.fromkeys(names, low))
        self.joined_anew.update(dict.fromkeys(names, low))
        naming = {trace for name in names for trace in self._traces_naming.get(name, ())}
        groups = (self._groups[trace] for trace in naming if trace in self._groups)
        return naming.union(*(group.traces for group in groups))

    def _join(self, name: str, links: Iterable[str]) -> set[str]:
        changed: set[str] = set()
        for linked in links:
            group, other = self._groups[name], self._groups.get(linked)
            if other is None:
                self._links.setdefault(linked, set()).add(name)
            elif other is not group:
                less, more = sorted((group, other), key=lambda each: len(each.traces))
                before = [(each.session, set(each.traces)) for each in (less, more)]
                for same in less.names.keys() & more.names.keys():
                    changed |= self._share(less.names[same], more.names[same])
                more.add(less)
                self._groups.update(dict.fromkeys(less.traces, more))
                for session, traces in before:
                    changed |= traces if session != more.session else set()
        return changed

    def _task(self, span: SpanFields) -> set[str]:
        name, parent = str(span.task), span.task_parent
        task = self._tasks.setdefault(name, _Task())
        task.traces[span.trace_id] = None
        if not parent or parent == name:
            return set()
        said = ((span.start_ns, span.trace_id, span.span_id), parent)
        if task.parent is not None and task.parent <= said:
            return set()
        if task.parent is None or task.parent[1] != parent:
            if task.parent is not None and task.parent[1] in self._tasks:
                self._tasks[task.parent[1]].children.discard(name)
            self._tasks.setdefault(parent, _Task()).children.add(name)
            task.parent, self.parents[name] = said, parent
            return self._traces_below(name)
        task.parent = said
        return set()

    def _traces_below(self, name: str) -> set[str]:
        """Return the traces that declare a task or any of its subtasks."""
        below, waiting, found = {name}, [name], set[str]()
        while waiting:
            if (task := self._tasks.get(waiting.pop())) is not None:
                found |= task.traces.keys()
                waiting += task.children - below
                below |= task.children
        return found
