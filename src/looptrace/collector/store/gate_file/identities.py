"""The identities of events and gates: what another evaluation finds again keeps its id.

The ids of events follow from turns, so that other settings, another version or late spans may give
other ids to what a person was told of before. Such an event is known as the earlier one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.gates.events import GateEvent
from looptrace.collector.store.gate_file.tables import GATES
from looptrace.collector.store.gate_file.task_names import TaskNames
from looptrace.collector.store.sqlite_file import json_of, read_json

_KNOWN_AS = "SELECT of FROM aliases WHERE id = ?"
_KNOW_AS = "INSERT OR REPLACE INTO aliases VALUES (?, ?)"
_EVENT = "SELECT seq FROM events WHERE id = ?"
_EVENTS_OF_TASK = "SELECT body FROM events WHERE task = ? AND type <> 'gate_resolved'"
_ENDED = "SELECT resolved_ns FROM gates WHERE id = ? AND status = 'resolved'"
_SET_EVENT = "UPDATE events SET rule = ?, finding = ?, at_ns = ?, body = ? WHERE id = ?"
_SET_GATE = """
    UPDATE gates SET rule = ?, signature = ?, why = ?, loop_count = ?,
        finding = coalesce(?, finding)
    WHERE id = ?
"""
_SET_PIVOT = "UPDATE pivots SET pivot_count = ?, entropy_count = ?, at_ns = ? WHERE event = ?"


class Identities(TaskNames):
    """The ids by which events and gates are known."""

    def _id(self, of: str) -> str:
        """Return the id of an event or a gate by that or another id of it."""
        return next((known for (known,) in self._rows(_KNOWN_AS, of)), of) if of else of

    def _known_as(self, event: GateEvent) -> GateEvent:
        """Return an event with the ids by which it and its gate are known."""
        own, gate = self._id(event.id), self._id(event.gate)
        is_known = (own, gate) == (event.id, event.gate)
        return event if is_known else replace(event, id=own, gate=gate)

    def _know_again(self, events: Iterable[GateEvent], openings: Mapping[str, Finding]) -> set[str]:
        """Know new events as earlier ones that the evaluation of all turns of a task replaces.

        Returns the ids of those that come too late to be sent: their loop has a known gate.
        """
        late = set[str]()
        of_tasks = defaultdict[str, list[GateEvent]](list)
        for event in events:
            of_tasks[event.task].append(event)
        for task, own in of_tasks.items():
            known = [self._known_as(event) for event in own]
            new = [event for event in known if not self._rows(_EVENT, event.id)]
            if not new:
                continue
            again = {event.id for event in known}
            # A session had no service in its name once, and a task without its span no session.
            names = {task, *(n for e in own for n in (e.session, e.trace_id) if n)}
            rows = (row for name in sorted(names) for row in self._rows(_EVENTS_OF_TASK, name))
            before = [read_json(body, GateEvent, self.path, GATES) for (body,) in rows]
            left = [event for event in before if event.id not in again]
            for event in new:
                same = [each for each in left if self._is_same(each, event)]
                if same:
                    earlier = min(same, key=partial(_distance, event))
                    left.remove(earlier)
                    self._be(earlier, event, openings.get(event.gate))
                elif event.type != "gate_opened" and any(_gated(each, event) for each in before):
                    late.add(event.id)
        return late

    def _is_same(self, earlier: GateEvent, event: GateEvent) -> bool:
        """Return whether two events tell the same of a loop.

        A task has one open gate, whichever rule opens it. A gate that a person ended before this
        one opened is another.
        """
        if earlier.type != event.type or not _overlap(earlier, event):
            return False
        if event.type == "gate_opened":
            return all(ended_ns > event.at_ns for (ended_ns,) in self._rows(_ENDED, earlier.gate))
        return earlier.agent == event.agent

    def _be(self, earlier: GateEvent, event: GateEvent, opening: Finding | None) -> None:
        """Let an event be an earlier one; all but its ids, its task and its agent are new."""
        self._sql.execute(_KNOW_AS, (event.id, earlier.id))
        if event.gate:
            self._sql.execute(_KNOW_AS, (event.gate, earlier.gate))
        now = replace(event, id=earlier.id, gate=earlier.gate)
        now = replace(now, task=earlier.task, agent=earlier.agent)
        row = (now.rule, now.finding, now.at_ns, json_of(now), now.id)
        self._sql.execute(_SET_EVENT, row)
        said = (now.rule, now.signature, now.why, now.loop_count, opening and json_of(opening))
        if event.type == "gate_opened":
            self._sql.execute(_SET_GATE, (*said, now.gate))
        self._sql.execute(_SET_PIVOT, (now.pivots, now.entropy_count, now.at_ns, now.id))


def _overlap(one: GateEvent, other: GateEvent) -> bool:
    """Return whether two events are of turns that overlap, in a task or a trace."""
    if one.trace_id == other.trace_id:
        if one.span_id == other.span_id:
            return True
    elif one.task != other.task:
        return False
    begins = (each.turn_first or each.turn for each in (one, other))
    return max(begins) <= min(one.turn, other.turn)


def _gated(earlier: GateEvent, event: GateEvent) -> bool:
    """Return whether an earlier event opened a gate of the loop, no sooner than an event."""
    is_gate = earlier.type == "gate_opened" and earlier.at_ns >= event.at_ns
    return is_gate and _overlap(earlier, event)


def _distance(one: GateEvent, other: GateEvent) -> tuple[bool, bool, int]:
    other_span = (one.trace_id, one.span_id) != (other.trace_id, other.span_id)
    return other_span, one.rule != other.rule, abs(one.at_ns - other.at_ns)
