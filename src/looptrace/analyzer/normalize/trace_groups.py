"""Which traces belong together, as spans arrive: sessions named late, links, parents of tasks.

It says of the spans so far what `span_tree_of` says of all spans at once, whatever their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from looptrace.analyzer.normalize.span_fields import SpanFields
from looptrace.bounded_dict import BoundedDict

# Traces of one group or task that are told of changes; of more the first are not.
TRACES_TOLD_MAX = 1_000

_Start = tuple[int, str, str]  # start, trace and id of a span


class _Names(BoundedDict[str, None]):
    """The last of some names."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__(TRACES_TOLD_MAX)
        for name in names:
            self[name] = None


@dataclass(slots=True)
class _Group:
    """Traces that links join: the first span of all, and the first that names a session."""

    traces: _Names
    first: _Start
    named: tuple[_Start, str] | None = None

    @property
    def session(self) -> str:
        """The session of those traces that name none themselves."""
        return self.named[1] if self.named else self.first[1]

    def add(self, other: _Group) -> None:
        """Take in another group."""
        self.traces.update(other.traces)
        self.first = min(self.first, other.first)
        self.named = min((n for n in (self.named, other.named) if n), default=None)


@dataclass(slots=True)
class _Task:
    """A declared task: the first span that names its parent, and the traces that declare it."""

    parent: tuple[_Start, str] | None = None
    children: set[str] = field(default_factory=set)
    traces: _Names = field(default_factory=_Names)


class TraceGroups:
    """The session of each trace and the parent of each task, as far as spans have told."""

    def __init__(self, traces_max: int) -> None:
        self.parents: BoundedDict[str, str] = BoundedDict(traces_max)  # of declared tasks
        self._groups: BoundedDict[str, _Group] = BoundedDict(traces_max)  # by trace
        self._named: BoundedDict[str, tuple[_Start, str]] = BoundedDict(traces_max)  # by trace
        self._links: BoundedDict[str, set[str]] = BoundedDict(traces_max)  # to traces not yet seen
        self._tasks: BoundedDict[str, _Task] = BoundedDict(traces_max)

    def session(self, trace_id: str) -> str:
        """Return the session of a trace: its own, else that of the traces it is linked with."""
        if named := self._named.get(trace_id):
            return named[1]
        group = self._groups.get(trace_id)
        return group.session if group else trace_id

    def learn(self, spans: Iterable[SpanFields]) -> set[str]:
        """Learn from spans; returns other traces of which something has changed by that."""
        changed: set[str] = set()
        for span in spans:
            changed |= self._trace(span)
            if span.task:
                changed |= self._task(span)
        return changed

    def _trace(self, span: SpanFields) -> set[str]:
        name = span.trace_id
        start = (span.start_ns, name, span.span_id)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(_Names([name]), start)
        before = group.session
        group.first = min(group.first, start)
        if span.session:
            said = (start, span.session)
            if name not in self._named or said < self._named[name]:
                self._named[name] = said
            if group.named is None or said < group.named:
                group.named = said
        changed = set(group.traces) if group.session != before else set()
        # Whoever linked to this trace before it was seen is joined with it now.
        links = {*self._links.pop(name, ()), *span.links} - {name}
        return changed | self._join(name, links) if links else changed

    def _join(self, name: str, links: Iterable[str]) -> set[str]:
        changed: set[str] = set()
        for linked in links:
            group, other = self._groups[name], self._groups.get(linked)
            if other is None:
                self._links.setdefault(linked, set()).add(name)
            elif other is not group:
                less, more = sorted((group, other), key=lambda each: len(each.traces))
                before = [(each.session, set(each.traces)) for each in (less, more)]
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
        """Return the traces that declare a task, or one whose parents lead to it."""
        below, waiting, found = {name}, [name], set[str]()
        while waiting:
            if (task := self._tasks.get(waiting.pop())) is not None:
                found |= task.traces.keys()
                waiting += task.children - below
                below |= task.children
        return found
