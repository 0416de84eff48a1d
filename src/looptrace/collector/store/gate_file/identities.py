"""The identities of events and gates: what another evaluation finds again keeps its id.

The ids of events follow from turns, so that other settings, another version or late spans may
change the id of a published event. Such an event is known as the earlier one. A task has one gate
between two words of persons: it stays the same gate, whatever is found to open it.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.collector.store.gate_file.queries import END_OF_GATE, EVENT
from looptrace.collector.store.gate_file.task_names import TaskNames
from looptrace.collector.store.sqlite_file import json_of

_KNOWN_AS = "SELECT of FROM aliases WHERE id = ?"
_KNOW_AS = "INSERT OR REPLACE INTO aliases VALUES (?, ?)"
_EVENTS_OF_TASK = "SELECT body FROM events WHERE task = ? AND type <> 'gate_resolved'"
_GATES_OF_TASK = """
    SELECT events.body, coalesce(gates.resolved_ns, (
        SELECT min(at_ns) FROM resolutions WHERE gate = gates.id AND at_ns > gates.opened_ns
    )), gates.status = 'withdrawn'
    FROM gates JOIN events ON events.id = gates.event WHERE gates.task = ? AND events.seq <= ?
"""
_ADVICE_OF_TASK = """
    SELECT body FROM events
    WHERE task = ? AND seq <= ? AND (type, rule, agent) = (?, ?, ?)
        AND body ->> 'action' = ? AND body ->> 'signature' = ?
    ORDER BY seq DESC
"""
_RESET_BETWEEN = """
    SELECT 1 FROM events WHERE task = ? AND type IN ('counter_reset', 'gate_resolved')
        AND body ->> 'decision' IS NOT 'withdrawn' AND at_ns BETWEEN ? AND ?
"""
_BY_DEFAULT = "SELECT 1 FROM resolutions WHERE gate = ? AND who = ? AND at_ns = ?"
_PAUSED = "SELECT 1 FROM gates WHERE task = ? AND status = 'open' AND opened_ns > ?"
_OTHERWISE = "SELECT 1 FROM events WHERE id = ? AND (rule, finding, at_ns) <> (?, ?, ?)"
_SET_EVENT = "UPDATE events SET rule = ?, finding = ?, at_ns = ?, body = ? WHERE id = ?"
_SET_GATE = """
    UPDATE gates SET rule = ?, signature = ?, why = ?, loop_count = ?,
        finding = coalesce(?, finding),
        incident = (SELECT incident(body) FROM events WHERE id = gates.event)
    WHERE id = ?
"""
_VERSION = "SELECT body ->> 'service_version' FROM events WHERE id = ?"
_SET_PIVOT = "UPDATE pivots SET pivot_count = ?, entropy_count = ?, at_ns = ? WHERE event = ?"


# Who decides where nobody did.
DEFAULT = "default"


class Told(NamedTuple):
    """The ids by which the events that come together, and their gates, are known by now."""

    ids: set[str]
    last_seq: int  # of what is known before them
    gateless: frozenset[str]  # the tasks that have no gate by now


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

    def last_seq(self) -> int:
        """Return the number of the last event, 0 where there is none."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM events")[0][0])

    def _told(self, events: Iterable[GateEvent], states: Iterable[TaskState]) -> Told:
        """Return what is known of events that come together, and of their tasks after them."""
        ids = {self._id(id_) for event in events for id_ in (event.id, event.gate) if id_}
        gateless = frozenset(state.task for state in states if not state.gate)
        return Told(ids, self.last_seq(), gateless)

    def _identified(self, event: GateEvent, told: Told) -> GateEvent:
        """Return an event with the ids by which it is known, or those of one that is the same.

        What is `told` beside it is another.
        """
        event = self._known_as(event)
        if event.type == "gate_resolved":
            return self._end_as_told(event)
        if self._rows(EVENT, event.id):
            return event
        is_gate = event.type == "gate_opened"
        event = self._known_gate(event, told) if is_gate else self._known_advice(event, told)
        told.ids.update((event.id, event.gate))
        return event

    def _end_as_told(self, event: GateEvent) -> GateEvent:
        """Return the end of a gate; if it has ended with this decision, that end with new names.

        Where two decided tasks became one, the decision on one of them ends the gates of both.
        """
        if self._rows(EVENT, event.id):
            return event
        if self._rows(_BY_DEFAULT, event.gate, DEFAULT, event.at_ns):
            event = replace(event, why="UNANSWERED")
        for (body,) in self._rows(END_OF_GATE, event.gate, event.decision):
            told = self._read(body, GateEvent)
            return replace(told, task=event.task, agent=event.agent)
        return event

    def _known_gate(self, event: GateEvent, told: Told) -> GateEvent:
        """Return a new opening with the ids of the gate that the task had at its time, if any.

        No person ended that gate before, and it is none of those that are `told` beside this one.
        """
        again: list[tuple[float, int, GateEvent]] = []
        for name in _names_of([event]):
            for body, ended_ns, is_gone in self._rows(_GATES_OF_TASK, name, told.last_seq):
                earlier = self._read(body, GateEvent)
                is_over = ended_ns is not None and ended_ns <= event.at_ns
                if is_over or earlier.gate in told.ids or self._is_reset(event, earlier):
                    continue
                # A trace whose turns move to their session leaves its gate to the session.
                is_left = is_gone or earlier.task in told.gateless
                is_traces = is_left and earlier.task == event.trace_id
                if is_traces or self._is_its(earlier, event):
                    distance_ns = abs(earlier.at_ns - event.at_ns)
                    again.append((math.inf if ended_ns is None else ended_ns, distance_ns, earlier))
        if not again:
            return event
        earlier = min(again, key=itemgetter(0, 1))[-1]
        self._sql.execute(_KNOW_AS, (event.id, earlier.id))
        self._sql.execute(_KNOW_AS, (event.gate, earlier.gate))
        return replace(event, id=earlier.id, gate=earlier.gate)

    def _known_advice(self, event: GateEvent, told: Told) -> GateEvent:
        """Return a new warning or pivot with the id of the one that says the same, if any.

        Counts did not begin anew between them.
        """
        if not _is_advice(event):
            return event
        alike = (event.type, event.rule, event.agent, event.action, event.signature)
        for name in _names_of([event]):
            for (body,) in self._rows(_ADVICE_OF_TASK, name, told.last_seq, *alike):
                earlier = self._read(body, GateEvent)
                is_nth = event.action != "pivot" or earlier.pivots == event.pivots
                # Before any turn has moved to its new name, the task has the name of its trace.
                is_its = earlier.task == event.trace_id or self._is_its(earlier, event)
                if not is_nth or not is_its or earlier.id in told.ids:
                    continue
                if not self._is_reset(event, earlier):
                    self._be(earlier, event)
                    return replace(event, id=earlier.id)
        return event

    def _is_its(self, earlier: GateEvent, event: GateEvent) -> bool:
        """Return whether an earlier event is of the task of an event, under any name, or overlaps.

        A gate that was withdrawn before its task got a name still has the name of the trace.
        """
        return event.task in (earlier.task, *self.renamed(earlier.task)) or _overlap(earlier, event)

    def _is_reset(self, event: GateEvent, earlier: GateEvent) -> bool:
        """Return whether a word of a person or of the agent lies between two events of a task."""
        begin_ns, end_ns = sorted((earlier.at_ns, event.at_ns))
        return any(
            self._rows(_RESET_BETWEEN, name, begin_ns, end_ns) for name in _names_of([event])
        )

    def _is_paused(self, event: GateEvent) -> bool:
        """Return whether the gate of a later turn is open, after which nothing more is sent."""
        return bool(_is_advice(event) and self._rows(_PAUSED, event.task, event.at_ns))

    def _know_again(self, events: Iterable[GateEvent]) -> set[str]:
        """Know new events as earlier ones that the evaluation of all turns of a task replaces.

        Openings are known by their gates. Returns the ids of those that come too late to be sent:
        their loop has a known gate.
        """
        late = set[str]()
        of_tasks = defaultdict[str, list[GateEvent]](list)
        for event in events:
            if event.type != "gate_opened":
                of_tasks[event.task].append(event)
        for own in of_tasks.values():
            known = [self._known_as(event) for event in own]
            new = [event for event in known if not self._rows(EVENT, event.id)]
            if not new:
                continue
            again = {event.id for event in known}
            rows = (row for name in _names_of(own) for row in self._rows(_EVENTS_OF_TASK, name))
            before = [self._read(body, GateEvent) for (body,) in rows]
            left = [event for event in before if event.id not in again]
            for event in new:
                same = [each for each in left if _is_same(each, event)]
                if same:
                    earlier = min(same, key=partial(_distance, event))
                    left.remove(earlier)
                    self._be(earlier, event)
                elif any(_gated(each, event) for each in before):
                    late.add(event.id)
        return late

    def _be(self, earlier: GateEvent, event: GateEvent) -> None:
        """Let an event be an earlier one; all but its ids, its task and its agent are new."""
        self._sql.execute(_KNOW_AS, (event.id, earlier.id))
        now = replace(event, id=earlier.id, gate=earlier.gate)
        now = replace(now, task=earlier.task, agent=earlier.agent)
        self._set_event(now)
        self._sql.execute(_SET_PIVOT, (now.pivots, now.entropy_count, now.at_ns, now.id))

    def _set_opening(self, event: GateEvent, opening: Finding | None) -> None:
        """Let a known gate be open for what is now known of it."""
        if self._rows(_OTHERWISE, event.id, event.rule, event.finding, event.at_ns):
            self._set_event(event)
            said = (event.rule, event.signature, event.why, event.loop_count)
            self._sql.execute(_SET_GATE, (*said, opening and json_of(opening), event.gate))

    def _set_event(self, event: GateEvent) -> None:
        body = json_of(self._versioned(event))
        row = (event.rule, event.finding, event.at_ns, body, event.id)
        self._sql.execute(_SET_EVENT, row)

    def _versioned(self, event: GateEvent) -> GateEvent:
        """Return an event with the version of its service as it was known before, if not by now."""
        if event.type != "gate_opened" or event.service_version:
            return event
        ((version,),) = self._rows(_VERSION, event.id)
        return replace(event, service_version=version or "")


def _names_of(events: Collection[GateEvent]) -> list[str]:
    """Return the names under which the tasks of events may be known.

    A session had no service in its name once, and a task without its span no session.
    """
    return sorted({n for e in events for n in (e.task, e.session, e.trace_id) if n})


def _is_same(earlier: GateEvent, event: GateEvent) -> bool:
    """Return whether two events tell the same of a loop."""
    is_alike = (earlier.type, earlier.agent) == (event.type, event.agent)
    return is_alike and _overlap(earlier, event)


def _is_advice(event: GateEvent) -> bool:
    """Return whether an event is a warning or a pivot, which says the same only once."""
    return event.action in ("warn", "pivot") and event.type != "gate_opened"


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
