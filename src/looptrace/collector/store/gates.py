"""The gate store: events of loops, states of tasks, and decisions of people, in SQLite.

One transaction records an event with its pivot, its gate, its row in the outbox, and the state of
its task; a kill at any time leaves all of them or none. Events are only ever added, each once by
its id, so that recording the same turns again changes nothing. Events stay; the state of a task is
that of the last detection. Its readers' part is `gate_file.stored_gates`.
"""

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Self

import msgspec

from looptrace.analyzer.detect.budgets.rules import BUDGET_NAMES
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.live_task import LATENESS_S
from looptrace.analyzer.gates.decisions import CANCEL, PROGRESS, GateError, check_decision
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.resolutions import Resolution
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.llm_judge import NoOpinion, Opinion
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.session_names import session_name
from looptrace.collector.store.gate_file import queries
from looptrace.collector.store.gate_file.budgets import check_no_amount
from looptrace.collector.store.gate_file.spent_elsewhere import SpentElsewhere
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.collector.store.outbox import enqueue
from looptrace.collector.store.sqlite_file import connect, json_of
from looptrace.rules.vocabulary import NS_PER_S

# The reason of a gate that ends without a decision.
WITHDRAWN = "late spans, or other settings, show no loop here"
_PERSON = "person"  # the reason of a gate that ends by a decision
_JUDGE = "judge"
# What is silenced; the openings of gates are held back, and the others are of that moment only.
_SILENCED = ("gate_opened", "gate_unanswered", "loop_detected", "pivot_issued")


@dataclass(frozen=True, slots=True)
class _LateNames:
    """The gates that got other names in a transaction."""

    # The task and the agent before, by gate.
    before: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Gates whose new task has an open gate, until its state says which of them is open.
    parked: set[str] = field(default_factory=set)


class GateStore(SpentElsewhere):
    """One connection to a gate store. Several processes may each have one.

    Recorded events go to the outbox of these webhooks.
    """

    def __init__(
        self, path: Path, sql: sqlite3.Connection, webhooks: Sequence[Webhook] = ()
    ) -> None:
        super().__init__(path, sql)
        self._webhooks = webhooks

    @classmethod
    def open(cls, path: Path, webhooks: Sequence[Webhook] = (), *, create: bool = True) -> Self:
        """Open a gate store; `create` it, if it is absent or empty.

        Raises:
            StoreError: if the file is something else, of a newer version, or cannot be used.
        """
        return cls(path, connect(path, cls.schema, create=create), webhooks)

    def record(
        self,
        events: Iterable[GateEvent],
        states: Iterable[TaskState],
        now_ns: int,
        openings: Mapping[str, Finding] = MappingProxyType({}),
        *,
        is_whole: bool = False,
    ) -> list[GateEvent]:
        """Record events and the states of tasks in one transaction; return the new events.

        `openings` has, by gate, the finding at the time when the gate opened. If the events
        are all of their tasks (`is_whole`), new ones keep the ids of those that they replace.

        The states decide which gates are open. So a caller that evaluates a task again must
        evaluate all of its turns so far before it records.

        Raises:
            StoreError: if the file cannot be written; then nothing of it is recorded.
        """
        with self._transaction():
            late, events, states = _LateNames(), list(events), list(states)
            unsent = self._know_again(events) if is_whole else set[str]()
            told = self._told(events, states)
            new: list[GateEvent] = []
            for event in events:
                own, opening = self._identified(event, told), openings.get(event.gate)
                if self._add(own, opening, now_ns, late, unsent):
                    new.append(event)
            parked = late.parked
            opened = {event.gate for event in new if event.type == "gate_opened"} | parked
            # A span that comes late may withdraw a gate that the next one brings back.
            ends_ns = now_ns if is_whole else now_ns + LATENESS_S * NS_PER_S
            for state in states:
                self._put(state, opened, now_ns, ends_ns)
            for gate_id in sorted(parked):
                if self._rows(queries.WITHDRAWN_GATE, gate_id):
                    self._end(gate_id, now_ns, ends_ns)
            self._tell_renamed(late, now_ns)
        return new

    def add_agents(self, events: Iterable[GateEvent], now_ns: int) -> None:
        """Give recorded events without an agent the agent that their turns have by now."""
        named = [
            event
            for event in map(self._known_as, events)
            if event.agent and self._rows(queries.WITHOUT_AGENT, event.id, event.task)
        ]
        if not named:
            return
        with self._transaction():
            late = _LateNames()
            for event in named:
                self._rename(event, late)
            self._tell_renamed(late, now_ns)

    def _add(
        self,
        event: GateEvent,
        opening: Finding | None,
        now_ns: int,
        late: _LateNames,
        unsent: Collection[str],
    ) -> bool:
        """Add an event and its consequences; return whether it was new.

        Events that are `unsent` are not put into the outbox.
        """
        if not self._insert(event):
            self._rename(event, late)
            if event.type == "gate_opened":
                self._set_opening(event, opening)
            return False
        if event.type == "pivot_issued":
            pivot = (event.id, event.task, event.pivots, event.entropy_count, event.at_ns)
            self._sql.execute("INSERT INTO pivots VALUES (?, ?, ?, ?, ?)", pivot)
        elif event.type == "gate_opened":
            of = (event.gate, event.task, event.rule, event.signature, event.why)
            at = (event.loop_count, event.at_ns, opening and json_of(opening))
            self._sql.execute(queries.ADD_GATE, (*of, *at, event.id))
        elif event.type == "gate_resolved":
            said = (event.at_ns, event.decision, event.note, event.gate)
            self._sql.execute(queries.RESOLVE_GATE, said)
        if event.id not in unsent and not (event.is_left_alone or self._is_paused(event)):
            self._send_on(event, now_ns)
        return True

    def _insert(self, event: GateEvent) -> bool:
        about = (event.id, event.type, event.task, event.agent, event.rule, event.finding)
        row = (*about, event.at_ns, json_of(event))
        return self._sql.execute(queries.ADD_EVENT, row).rowcount > 0

    def _rename(self, event: GateEvent, late: _LateNames) -> None:
        """Give a known event the late names of its task and agent."""
        names = (event.id, event.task, event.agent)
        for task, agent in self._rows(queries.OLD_NAMES, *names):
            row = (*names, json_of(self._versioned(event)))
            self._sql.execute(queries.RENAME_EVENT, row)
            late.parked.update(id_ for (id_,) in self._rows(queries.PARK_GATE, *names[:2]))
            self._sql.execute(queries.RENAME_GATE, (event.task, event.id))
            if task != event.task:
                self._put_alias(task, event.task)
            if event.type == "gate_opened":
                late.before[event.gate] = (task, agent)

    def _tell_renamed(self, late: _LateNames, now_ns: int) -> None:
        """Add an event for each gate with a late name; the end of a withdrawn one has it."""
        for gate_id, (task, agent) in late.before.items():
            ((status,),) = self._rows("SELECT status FROM gates WHERE id = ?", gate_id)
            if status == "withdrawn":
                continue
            opening = replace(self._opening(gate_id), action=None)
            # A session had no service in its name once, and an upgrade is no news to a receiver.
            if (opening.task, opening.agent) == (session_name(task, opening.service), agent):
                continue
            if status != "open":
                opening = replace(opening, status="active")
            self._tell_again(
                replace(opening, type="gate_renamed", task_before=task, agent_before=agent), now_ns
            )

    def _send_on(self, event: GateEvent, due_ns: int, but: Collection[str] = ()) -> None:
        """Put an event into the outbox of the webhooks that want it, but some, from a time on."""
        if not self._webhooks:
            return
        but = {*but, *self._unaware(event, due_ns)}
        # What follows on a gate goes to the webhooks that got its opening, under any of its names.
        about = [event]
        passed_to = {name for (name,) in self._rows(queries.PASSED_TO, event.gate)}
        if event.type in ("gate_renamed", "gate_unanswered", "gate_resolved"):
            opening, names = self._opening(event.gate), self._rows(queries.SENT_NAMES, event.gate)
            about = [opening, *(replace(opening, task=t, agent=a) for t, a in names)]
        wanting = [
            webhook
            for webhook in self._webhooks
            if webhook.takes(event) and webhook.name not in but
            if webhook.name in passed_to or any(map(webhook.wants, about))
        ]
        held = self._held(event, about[0], due_ns) if event.type in _SILENCED else None
        if held and event.type != "gate_opened":
            return
        silence, due_ns = held or (None, due_ns)
        enqueue(self._sql, event.id, wanting, len(self._webhooks), due_ns, silence)

    def _put(self, state: TaskState, opened: Collection[str], now_ns: int, ends_ns: int) -> None:
        """Write the state of a task, and open its gate; `opened` are the gates opened now.

        Webhooks that got the opening of a gate also hear when a later detection withdraws it, from
        `ends_ns` on, or opens it again after that.
        """
        body = msgspec.to_builtins(state)
        body["granted"] = sorted(state.granted)  # Sets are unordered.
        columns = (state.task, state.status, state.pivots, state.loop_count, json_of(body))
        self._sql.execute(queries.PUT_STATE, columns)
        opens = self._id(state.gate.id) if state.gate else ""
        for (gate_id,) in self._rows(queries.OPEN_GATES, state.task, opens):
            self._end(gate_id, now_ns, ends_ns)
        if state.gate:
            is_back = self._rows(queries.ENDED_GATE, opens) and opens not in opened
            self._sql.execute(queries.OPEN_GATE, (state.gate.at_ns, opens, state.task))
            if is_back:
                unaware = {name for (name,) in self._rows(queries.TAKE_BACK, opens, now_ns)}
                self._tell_again(self._opening(opens), now_ns, unaware)

    def _end(self, gate_id: str, now_ns: int, ends_ns: int) -> None:
        """End a gate that a later detection did not open: by its decision, else as withdrawn.

        Webhooks hear of the withdrawal from `ends_ns` on.
        """
        for at_ns, decision, note in self._rows(queries.DECIDED, gate_id):
            self._sql.execute(queries.RESOLVE_GATE, (at_ns, decision, note, gate_id))
            self._tell_end(gate_id, now_ns, decision, note, _PERSON)
            return
        self._sql.execute(queries.WITHDRAW_GATE, (gate_id,))
        self._sql.execute(queries.END_WAIT, (gate_id,))
        self._tell_end(gate_id, ends_ns, "withdrawn", None, WITHDRAWN)

    def _tell_end(
        self, gate_id: str, due_ns: int, decision: str, note: str | None, reason: str
    ) -> None:
        ended = replace(self._opening(gate_id), status="active", action=None, history=())
        self._tell_again(
            replace(ended, type="gate_resolved", decision=decision, note=note, reason=reason),
            due_ns,
        )

    def _tell_again(self, event: GateEvent, due_ns: int, but: Collection[str] = ()) -> None:
        """Add an event of a gate that follows from a later detection and not from a turn."""
        event = replace(event, id=digest(f"{event.type} {event.gate} {self.last_seq()}"))
        self._insert(event)
        self._send_on(event, due_ns, but)

    def resolve(
        self,
        gate_id: str,
        decision: str,
        note: str | None,
        at_ns: int | None = None,
        who: str | None = None,
        add: float | None = None,
    ) -> StoredGate:
        """Record the decision of a person, by default as of now; return the gate.

        On a gate of a budget of several tasks a decision to go on is one on all of its open gates,
        and adds an amount to the budget, or as much as the limit.

        It applies after the gate's opening, also where the agent's clock runs ahead, and takes
        effect when the task's turns are evaluated with `resolutions`.

        Raises:
            GateError: if there is no such gate or decision, the gate is no longer open, or has no
                budget to which something can be added.
        """
        check_decision(decision, note)
        with self._transaction():
            gate = self.gate(gate_id).gate
            if gate.status == "withdrawn":
                raise GateError(f"gate {gate.id} was withdrawn; there is nothing to resolve.")
            if gate.status == "resolved" or gate.decision:
                decided = gate.decision or "a message in the trace"
                raise GateError(f"gate {gate.id} is already resolved, by {decided}.")
            at_ns = time.time_ns() if at_ns is None else at_ns
            if gate.rule in BUDGET_NAMES and decision != CANCEL:
                self._resolve_budget(gate, decision, note, at_ns, who, add)
            else:
                check_no_amount(gate, add)
                self._resolve(gate, decision, note, at_ns, who)
            return self.gate(gate.id).gate

    def begin_waits(self, gate_ids: Iterable[str], now_ns: int) -> None:
        """Note that gates wait from now on."""
        with self._transaction():
            rows = [(gate_id, now_ns) for gate_id in gate_ids]
            self._sql.executemany(queries.BEGIN_WAIT, rows)

    def tell_unanswered(
        self, gate_id: str, steps: int, passed_to: Sequence[str], now_ns: int
    ) -> None:
        """Tell webhooks, and those with these names, that nobody has decided on a gate."""
        with self._transaction():
            self._sql.execute(queries.SET_WAIT, (steps, json_of(list(passed_to)), gate_id))
            opening = self._opening(gate_id)
            self._tell_again(replace(opening, type="gate_unanswered", at_ns=now_ns), now_ns)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Send nothing meanwhile."""
        webhooks, self._webhooks = self._webhooks, ()
        try:
            yield
        finally:
            self._webhooks = webhooks

    def put_back(self, decided: Iterable[Resolution]) -> int:
        """Record decisions that the file had lost, for gates that it has; return their number."""
        names = ("id", "at_ns", "decision", "note", "trace_id", "span_id", "added", "added_ns")
        rows = list(map(attrgetter(*names), decided))
        with self._transaction():
            return max(0, self._sql.executemany(queries.PUT_BACK, rows).rowcount)

    def send_openings(self, gate_ids: Collection[str], now_ns: int) -> None:
        """Send the openings of those of these gates that are open."""
        with self._transaction():
            for gate in self.gates("open"):
                if gate.id in gate_ids:
                    self._send_on(self._opening(gate.id), now_ns)

    def add_opinion(
        self, gate_id: str, opinion: Opinion | NoOpinion, *, resolves: bool = False
    ) -> bool:
        """Record the opinion of a judge on a gate; it may resolve a gate that is still open.

        Returns whether it did. The resolution takes effect like a person's decision.
        """
        now_ns = time.time_ns()
        if isinstance(opinion, NoOpinion):
            answers: tuple[object, ...] = (None, None, None, None, *self._redacted(opinion.why))
        else:
            (reasoning,) = self._redacted(opinion.reasoning)
            opinion = replace(opinion, reasoning=reasoning or "")
            answers = (*astuple(opinion), None)
        with self._transaction():
            self._sql.execute(queries.ADD_OPINION, (gate_id, now_ns, *answers))
            gate = self.gate(gate_id).gate
            resolves = resolves and gate.status == "open" and not gate.decision
            if resolves and isinstance(opinion, Opinion):
                self._resolve(gate, PROGRESS, opinion.reasoning, now_ns, _JUDGE)
        return resolves
