"""What a gate store has: its events, the states of tasks, gates and decisions, for its readers."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal

import polars as pl

from looptrace.analyzer.detect.budgets.rules import BUDGET_NAMES
from looptrace.analyzer.detect.findings import Cost, Finding
from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.gates.agent_states import AgentState
from looptrace.analyzer.gates.decisions import CANCEL, NoGateError
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.near_notes import read_texts, words_of
from looptrace.analyzer.gates.notes import ResolutionNote, Signs, distinct, notes_like
from looptrace.analyzer.gates.resolutions import Resolution
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.llm_judge import NoOpinion, Opinion
from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.collector.store.gate_file import queries
from looptrace.collector.store.gate_file.identities import Identities
from looptrace.collector.store.sqlite_file import json_of

GateStatus = Literal["open", "resolved", "withdrawn"]

# The notes of earlier gates that a gate shows, and the newest notes from which they are chosen.
NOTES_MAX = 10
_NOTES_COMPARED_MAX = 1_000
_EVENTS_A_BATCH = 1_000
_IDS_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class StoredGate:
    """The current state of a gate.

    A gate is `withdrawn` when a later detection, with late spans or other settings, does not open
    it. An open gate with a decision was resolved by a person; this takes effect with the next
    detection.
    """

    id: str
    task: str
    rule: str
    signature: str
    why: str
    agent: str
    reason: str
    loop_count: int
    opened_ns: int
    status: GateStatus
    resolved_ns: int | None
    decision: str | None
    note: str | None
    resolved_by: str | None = None  # the name from the token or the form
    incident: str = ""  # the gates of loops like this one
    service_version: str = ""  # "" where it is unknown
    agent_state: AgentState | None = None  # of an open gate, where it was asked for
    unless_decided: str = ""  # what happens to an open gate, where a server sees to it


@dataclass(frozen=True, slots=True)
class GateFigures:
    """What a list shows of a gate beside itself, as of its opening."""

    service: str = ""
    finding: str = ""
    attempts: int = 0
    cost: Cost = field(default_factory=lambda: Cost(0.0, 0, 0))


@dataclass(frozen=True, slots=True)
class GateDetails:
    """A gate, its opening event with the failures before, and notes that worked.

    The notes are those of resolved gates with the same signature, then those of the same type of
    failure, then those with the same meaning, then those in nearly the same words; the newest come
    first in each group, and in the last one the nearest.
    """

    gate: StoredGate
    event: GateEvent
    notes: tuple[ResolutionNote, ...]


class StoredGates(Identities):
    """The contents of a gate store."""

    def tasks(self) -> set[str]:
        """Return the names of all tasks whose state was recorded."""
        return {task for (task,) in self._rows("SELECT task FROM tasks")}

    def state(self, task: str) -> TaskState:
        """Return the state of a task; an unknown one is active."""
        rows = self._rows("SELECT state FROM tasks WHERE task = ?", task)
        return self._read(rows[0][0], TaskState) if rows else TaskState(task)

    def events(
        self, after_seq: int = 0, task: str | None = None
    ) -> Iterator[tuple[int, GateEvent]]:
        """Return the events after a number, with their numbers, in the order of recording."""
        sql = queries.EVENTS if task is None else queries.EVENTS_OF_TASK
        while rows := self._rows(sql, after_seq, task, _EVENTS_A_BATCH):
            for seq, body in rows:
                yield seq, self._read(body, GateEvent)
            after_seq = rows[-1][0]

    def services_of(self, tasks: Collection[str] | None) -> list[tuple[str, str]]:
        """Return the services of the loops of some tasks, or of all, each with its task."""
        names = None if tasks is None else json_of(list(tasks))
        return [(task, service) for task, service in self._rows(queries.SERVICES, names)]

    def gates(
        self, status: GateStatus | None = None, task: str | None = None, limit: int = -1
    ) -> list[StoredGate]:
        """Return gates, the open ones first, then the newest; all, or the first ones."""
        rows = self._rows(queries.LISTED_GATES, status, task, limit)
        return [StoredGate(*row) for row in rows]

    def figures(self, status: GateStatus | None, limit: int) -> dict[str, GateFigures]:
        """Return the figures of the gates that `gates` lists, by gate."""
        rows = self._rows(queries.FIGURES, status, None, limit)
        return {
            gate: GateFigures(service, finding, attempts, Cost(*cost))
            for gate, service, finding, attempts, *cost in rows
        }

    def count(self, status: GateStatus | None = None, task: str | None = None) -> int:
        """Return how many gates there are."""
        return int(self._rows(queries.COUNT_GATES, status, task)[0][0])

    def gate(self, gate_id: str, meaning: Meaning | None = None) -> GateDetails:
        """Return the gate of an id or of its beginning; `meaning` compares notes, if given.

        Raises:
            GateError: if there is none with this id, or several begin with it.
        """
        (details,) = self.details([self._whole_id(gate_id)], meaning)
        return details

    def details(self, ids: Sequence[str], meaning: Meaning | None = None) -> list[GateDetails]:
        """Return the gates of whole ids; their notes are read together."""
        notes = self._past_notes()
        details: list[GateDetails] = []
        for gate_id in ids:
            (row,) = self._rows(queries.GATE, gate_id)
            event = self._opening(gate_id)
            like = _notes_for(event, notes, meaning)
            details.append(GateDetails(StoredGate(*row), event, like))
        return details

    def _whole_id(self, prefix: str) -> str:
        found = [found for (found,) in self._rows(queries.IDS_OF_PREFIX, prefix, _IDS_SHOWN_MAX)]
        if len(found) == 1 or prefix in found or self._id(prefix) in found:
            return str(found[0])
        if found:
            raise NoGateError(f"several gates begin with {prefix!r}: {', '.join(found)}.")
        ids = [gate.id for gate in self.gates()]
        near = get_close_matches(prefix, ids, n=_IDS_SHOWN_MAX) or ids[:_IDS_SHOWN_MAX]
        raise NoGateError(f"there is no gate {prefix!r}. {did_you_mean(prefix, near)}")

    def _opening(self, gate_id: str) -> GateEvent:
        ((opening,),) = self._rows(queries.OPENING, gate_id)
        return self._read(opening, GateEvent)

    def openings(self) -> list[tuple[str, GateEvent]]:
        """Return the open gates without a decision, each with its opening."""
        rows = self._rows(queries.OPENINGS)
        return [(gate, self._read(body, GateEvent)) for gate, body in rows]

    def finding(self, gate_id: str) -> Finding | None:
        """Return the finding of a gate at its opening, with the current name of the task.

        None where there is no such gate, or where the version that opened it kept no finding.
        """
        sql = "SELECT finding, task FROM gates WHERE id = ? AND finding NOT NULL"
        for finding, task in self._rows(sql, gate_id):
            return replace(self._read(finding, Finding), task=task)
        return None

    def waits(self) -> dict[str, tuple[int, int]]:
        """Return since when gates wait in a server's sight, and the steps that were taken."""
        return {gate: (since_ns, steps) for gate, since_ns, steps in self._rows(queries.WAITS)}

    def opinions(self, gate_id: str | None = None) -> dict[str, Opinion | NoOpinion]:
        """Return the opinions of judges by gate, for one gate or all."""
        return {
            gate: NoOpinion(why) if why is not None else Opinion(bool(a), bool(b), bool(c), words)
            for gate, a, b, c, words, why in self._rows(queries.OPINIONS, gate_id)
        }

    def unjudged(self) -> list[StoredGate]:
        """Return the open gates without an exact match that no judge has seen."""
        return [self.gate(gate_id).gate for (gate_id,) in self._rows(queries.UNJUDGED)]

    def pending(self) -> set[str]:
        """Return the traces with a gate whose resolution is recorded but not yet in effect."""
        return {trace_id for (trace_id,) in self._rows(queries.PENDING)}

    def tasks_and_traces(self) -> list[tuple[str, str]]:
        """Return the task and the opening trace of each gate that was not withdrawn."""
        return [(task, trace_id) for task, trace_id in self._rows(queries.GATE_TRACES)]

    def resolutions(self) -> list[Resolution]:
        """Return the decisions of people, in the order of time."""
        decided = list[Resolution]()
        for *row, rule, signature, added, added_ns in self._rows(queries.RESOLUTIONS):
            each = Resolution(*row)
            if rule in BUDGET_NAMES and each.decision != CANCEL:
                each = replace(each, budget=signature, added=added, added_ns=added_ns)
            decided.append(each)
        return decided

    def notes(
        self, opening: GateEvent, meaning: Meaning | None = None
    ) -> tuple[ResolutionNote, ...]:
        """Return the notes that resolved other gates of loops like that of an opening.

        Those of the same signature come first, then those in the nearest words, then those of the
        same type, or of the same meaning where `meaning` is given.
        """
        return _notes_for(opening, self._past_notes(), meaning)

    def read_notes(self) -> None:
        """Read the words of the notes, so that the next who compares them need not wait."""
        read_texts([signs.words for _, signs in self._past_notes()])

    def _past_notes(self) -> list[tuple[ResolutionNote, Signs]]:
        """Return the newest notes that resolved gates, each with the signs of its loop."""
        return [
            (ResolutionNote(*note), _signs_of(self._read(body, GateEvent)))
            for *note, body in self._rows(queries.NOTES, _NOTES_COMPARED_MAX)
        ]

    def table(self, sql: str, schema: pl.Schema) -> pl.DataFrame:
        """Return the result of a query as a table."""
        return pl.DataFrame(self._rows(sql), schema, orient="row")


def _notes_for(
    opening: GateEvent, notes: Iterable[tuple[ResolutionNote, Signs]], meaning: Meaning | None
) -> tuple[ResolutionNote, ...]:
    return tuple(distinct(notes_like(_signs_of(opening), notes, meaning, opening.gate))[:NOTES_MAX])


def _signs_of(opening: GateEvent) -> Signs:
    return Signs(opening.signature, opening.signature_coarse, words_of(opening))
