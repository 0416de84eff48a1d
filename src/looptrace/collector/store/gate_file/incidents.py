"""Incidents in a gate store: derived from its gates, with what people said of them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from looptrace.analyzer.detect.findings import Cost
from looptrace.analyzer.engine.analysis import Money
from looptrace.analyzer.gates.decisions import GateError, check_decision
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.incidents import (
    STATES,
    IncidentState,
    IncidentWord,
    NoIncidentError,
    Times,
    check_word,
    identity_of,
    state_of,
    title_of,
    versions_seen,
)
from looptrace.analyzer.gates.notes import ResolutionNote
from looptrace.analyzer.report.json import MONEY_DECIMALS
from looptrace.analyzer.report.wording import NAME_LENGTH_MAX, loop_cost_text, money_text
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.tuning.exceptions import Repeated
from looptrace.collector.store import audit
from looptrace.collector.store.gate_file.budgets import with_amount
from looptrace.collector.store.gate_file.queries import GATES_OF_INCIDENT, OPEN_GATES_OF_BUDGET
from looptrace.collector.store.gate_file.silences import WHO_CHARS_MAX, Silences
from looptrace.collector.store.gate_file.stored_gates import NOTES_MAX, StoredGate

WHY_CHARS_MAX = 1_000
GATES_SHOWN_MAX = 1_000

# Withdrawn gates are none; a gate waits until a person has decided on it.
_GATES = """
    SELECT *, status = 'open' AND said_ns IS NULL AS waits, coalesce(resolved_ns, said_ns) AS end_ns
    FROM (
        SELECT *, CASE status WHEN 'open' THEN (
            SELECT min(at_ns) FROM resolutions WHERE gate = gates.id AND at_ns > gates.opened_ns
        ) END AS said_ns
        FROM gates WHERE status <> 'withdrawn' AND incident NOT NULL
            AND (?1 IS NULL OR incident = ?1)
    )
"""
_INCIDENTS = f"""
    SELECT incident, min(opened_ns), max(opened_ns), count(DISTINCT task), count(*), sum(waits),
        min(opened_ns) FILTER (WHERE waits), max(opened_ns) FILTER (WHERE waits), max(end_ns)
    FROM ({_GATES}) GROUP BY incident
"""  # noqa: S608 - All parts are constants.
_COUNT = "SELECT count(DISTINCT incident) FROM gates WHERE status <> 'withdrawn'"
_COST = """
    SELECT sum(finding ->> '$.cost.seconds'), sum(finding ->> '$.cost.input_tokens'),
        sum(finding ->> '$.cost.output_tokens')
    FROM gates WHERE incident = ? AND status <> 'withdrawn'
"""
# The currency of the newest gate, in which all others count that have it.
_MONEY = """
    SELECT sum(finding ->> '$.cost.money'), finding ->> '$.cost.currency' AS currency,
        max(finding ->> '$.cost.unpriced')
    FROM gates WHERE incident = ? AND status <> 'withdrawn' AND currency NOT NULL
    GROUP BY currency ORDER BY max(opened_ns) DESC LIMIT 1
"""
# A finding has no money, because it is made before the turns are priced.
_PUT_MONEY = """
    UPDATE gates SET finding = json_set(
        finding, '$.cost.money', ?2, '$.cost.currency', ?3, '$.cost.unpriced', ?4
    )
    WHERE id = ?1 AND finding NOT NULL AND (
        finding ->> '$.cost.money', finding ->> '$.cost.currency', finding ->> '$.cost.unpriced'
    ) IS NOT (?2, ?3, ?4)
"""
_NEWEST = """
    SELECT events.body FROM gates JOIN events ON events.id = gates.event
    WHERE incident = ? AND gates.status <> 'withdrawn'
    ORDER BY opened_ns DESC, gates.id LIMIT 1
"""
_VERSIONS = """
    SELECT opened_ns, coalesce(events.body ->> 'service_version', '')
    FROM gates JOIN events ON events.id = gates.event
    WHERE incident = ? AND gates.status <> 'withdrawn' ORDER BY opened_ns, gates.id
"""
_WAITING = f"SELECT id FROM ({_GATES}) WHERE waits ORDER BY opened_ns, id"  # noqa: S608
_NOTES = """
    SELECT id, task, decision, note, max(resolved_ns) AS last_ns FROM gates
    WHERE incident = ? AND status = 'resolved' AND note <> '' AND decision IS NOT 'cancel'
    GROUP BY decision, note ORDER BY last_ns DESC, id LIMIT ?
"""
_WORDS = """
    SELECT incident, at_ns, state, until_ns, owner, who, why FROM incident_words
    WHERE ?1 IS NULL OR incident = ?1 ORDER BY at_ns
"""
_SAY = "INSERT INTO incident_words VALUES (?, ?, ?, ?, ?, ?, ?)"
_IDS_OF_PREFIX = """
    SELECT DISTINCT incident FROM gates
    WHERE incident BETWEEN ?1 AND ?1 || char(0x10FFFF) AND status <> 'withdrawn' AND ?1 <> ''
    LIMIT 5
"""


@dataclass(frozen=True, slots=True)
class Incident:
    """The gates of loops that are the same across tasks and sessions.

    What they share is `family` (of their rules) to `service`. The cost is that of the loops up to
    their gates.
    """

    id: str
    state: IncidentState
    family: str
    tool: str
    signature: str
    agent: str
    service: str
    reason: str  # of the newest gate
    first_ns: int
    last_ns: int  # the opening of the newest gate
    tasks: int
    gates: int
    gates_open: int
    seconds: float
    input_tokens: int
    output_tokens: int
    owner: str | None = None
    until_ns: int | None = None  # the end of a mute
    said_by: str | None = None  # who gave it the state
    why: str | None = None
    versions: tuple[str, ...] = ()  # of the service, the first one first
    resolved_in: str = ""  # of one that is resolved or back again: the version before
    back_in: str = ""  # the version of the gate that brought it back
    money: float | None = None  # None where no prices were set
    currency: str = ""
    has_unpriced: bool = False  # some responses had no price

    @property
    def title(self) -> str:
        """What repeats, in words that hold for all of its gates."""
        return title_of(self.reason)

    @property
    def tools(self) -> list[str]:
        """The tools of one round, in alphabetical order."""
        return self.tool.split(", ") if self.tool else []

    @property
    def cost_text(self) -> str:
        """The cost in words: `11.9 k tokens, EUR 0.42, 38 s in the loop`."""
        money = ""
        if self.money is not None:
            currency = plain(self.currency, NAME_LENGTH_MAX)
            money = money_text(self.money, currency, has_unpriced=self.has_unpriced)
        return loop_cost_text(Cost(self.seconds, self.input_tokens, self.output_tokens), money)


@dataclass(frozen=True, slots=True)
class IncidentDetails:
    """An incident with its gates, the notes that ended some of them, and what people said of it."""

    incident: Incident
    gates: tuple[StoredGate, ...]
    notes: tuple[ResolutionNote, ...]
    words: tuple[IncidentWord, ...]

    @property
    def loop(self) -> Repeated:
        """What its gates share."""
        it = self.incident
        rules = {gate.rule for gate in self.gates}
        return Repeated(it.family, it.tools, it.signature, it.agent, rules)


class _Counted(NamedTuple):
    """The numbers of an incident, from its gates."""

    id: str
    first_ns: int
    last_ns: int
    tasks: int
    gates: int
    gates_open: int
    times: Times


class Incidents(Silences):
    """The incidents of a gate store."""

    def incidents(self, state: IncidentState | None = None, limit: int = -1) -> list[Incident]:
        """Return incidents: those that need somebody first, then those with the newest gates."""
        now_ns = time.time_ns()
        words, counted = self._words(), self._counted()
        states = {
            each.id: state_of(_stated(words.get(each.id, [])), each.times, now_ns)
            for each in counted
        }
        listed = [each for each in counted if state in (None, states[each.id])]
        listed.sort(key=lambda each: (STATES.index(states[each.id]), -each.last_ns, each.id))
        chosen = listed if limit < 0 else listed[:limit]
        return [self._incident(each, states[each.id], words.get(each.id, [])) for each in chosen]

    def incident(self, prefix: str, now_ns: int | None = None) -> IncidentDetails:
        """Return the incident of an id or of its beginning.

        Raises:
            NoIncidentError: if there is none with this id, or several begin with it.
        """
        now_ns = time.time_ns() if now_ns is None else now_ns
        whole_id = self._incident_id(prefix)
        words = self._words(whole_id).get(whole_id, [])
        (counted,) = self._counted(whole_id)
        incident = self._incident(counted, state_of(_stated(words), counted.times, now_ns), words)
        gates = (
            StoredGate(*row) for row in self._rows(GATES_OF_INCIDENT, whole_id, GATES_SHOWN_MAX)
        )
        notes = (ResolutionNote(*row) for row in self._rows(_NOTES, whole_id, NOTES_MAX))
        return IncidentDetails(incident, tuple(gates), tuple(notes), tuple(words))

    def say(self, prefix: str, word: IncidentWord) -> Incident:
        """Record what a person says of an incident, after its last gate; return the incident.

        Raises:
            GateError: if there is no such incident, or this cannot be said of it.
        """
        check_word(word)
        if max(map(len, (word.who or "", word.owner or ""))) > WHO_CHARS_MAX:
            raise GateError(f"a name has more than {WHO_CHARS_MAX} characters.")
        if word.why and len(word.why) > WHY_CHARS_MAX:
            raise GateError(f"the reason has more than {WHY_CHARS_MAX} characters.")
        with self._transaction():
            before = self.incident(prefix)
            # It applies to all gates so far, also where an agent's clock runs ahead.
            said_ns = max((each.at_ns + 1 for each in before.words), default=0)
            at_ns = max(word.at_ns, said_ns, before.incident.last_ns + 1)
            owner, who, why = self._redacted(word.owner, word.who, word.why)
            owner, who = (name and plain(name, WHO_CHARS_MAX) for name in (owner, who))
            row = (before.incident.id, at_ns, word.state, word.until_ns, owner, who, why)
            audit.note(self.path.parent, "incident", who, id=row[0], state=word.state)
            self._sql.execute(_SAY, row)
            self._hold_anew(word.at_ns)
        return self.incident(before.incident.id).incident

    def resolve_incident(
        self, prefix: str, decision: str, note: str | None, who: str | None = None
    ) -> list[str]:
        """Record one decision on each gate of an incident that waits; return their ids.

        Each is decided on as if alone. A gate that opens later is not.

        Raises:
            GateError: if there is no such incident or decision, or none of its gates waits.
        """
        check_decision(decision, note)
        with self._transaction():
            whole_id, now_ns = self._incident_id(prefix), time.time_ns()
            waiting = {gate for (gate,) in self._rows(_WAITING, whole_id)}
            if not waiting:
                raise GateError(f"no gate of incident {whole_id} is open.")
            rows = self._rows(GATES_OF_INCIDENT, whole_id, -1)
            gates = [gate for row in rows if (gate := StoredGate(*row)).id in waiting]
            # At one moment, so that what it adds to a budget is added once.
            now_ns = max(now_ns, *(gate.opened_ns + 1 for gate in gates))
            for gate in gates:
                self._resolve(gate, decision, note, now_ns, who)
        return sorted(waiting)

    def put_money(self, money: Money | None) -> None:
        """Note what the loops of gates had cost, by the id of the gate."""
        if money is None:
            return
        with self._transaction():
            rows = [
                (self._id(gate), spent, money.currency, gate in money.unpriced)
                for gate, spent in money.spent.items()
            ]
            self._sql.executemany(_PUT_MONEY, rows)

    def stands(self, now_ns: int) -> dict[str, tuple[IncidentState, str | None]]:
        """Return the state and the owner of each incident, by its id."""
        words = self._words()
        return {
            each.id: (
                state_of(_stated(of := words.get(each.id, [])), each.times, now_ns),
                _owner(of),
            )
            for each in self._counted()
        }

    def count_incidents(self) -> int:
        """Return how many incidents there are."""
        return int(self._rows(_COUNT)[0][0])

    def _counted(self, incident: str | None = None) -> list[_Counted]:
        rows = self._rows(_INCIDENTS, incident)
        return [_Counted._make((*row[:6], Times(*row[6:]))) for row in rows]

    def _incident(
        self, counted: _Counted, state: IncidentState, words: list[IncidentWord]
    ) -> Incident:
        ((body,),) = self._rows(_NEWEST, counted.id)
        it = self._read(body, GateEvent)
        ((seconds, read, written),) = self._rows(_COST, counted.id)
        stated = _stated(words)
        openings = self._rows(_VERSIONS, counted.id)
        versions = versions_seen(openings, state, stated, counted.times)
        money, currency, unpriced = next(iter(self._rows(_MONEY, counted.id)), (None, "", 0))
        incident = Incident(
            counted.id,
            state,
            *identity_of(it.rule, it.tools, it.signature, it.agent, it.service),
            it.reason,
            *counted[1:6],
            seconds=round(seconds or 0.0, 3),
            input_tokens=read or 0,
            output_tokens=written or 0,
            owner=_owner(words),
            versions=versions.every,
            resolved_in=versions.resolved_in,
            back_in=versions.back_in,
            money=None if money is None else round(money, MONEY_DECIMALS),
            currency=currency,
            has_unpriced=bool(unpriced),
        )
        if stated is None or stated.state != state:
            return incident
        return replace(incident, until_ns=stated.until_ns, said_by=stated.who, why=stated.why)

    def _words(self, incident: str | None = None) -> Mapping[str, list[IncidentWord]]:
        words: dict[str, list[IncidentWord]] = {}
        for of, *word in self._rows(_WORDS, incident):
            words.setdefault(of, []).append(IncidentWord(*word))
        return words

    def _incident_id(self, prefix: str) -> str:
        found = [found for (found,) in self._rows(_IDS_OF_PREFIX, prefix)]
        if prefix in found or len(found) == 1:
            return prefix if prefix in found else str(found[0])
        if found:
            raise NoIncidentError(f"several incidents begin with {prefix!r}: {', '.join(found)}.")
        raise NoIncidentError(
            f"there is no incident {prefix!r}; `looptrace incidents list --all` shows them."
        )

    def _resolve_budget(
        self,
        gate: StoredGate,
        decision: str,
        note: str | None,
        at_ns: int,
        who: str | None,
        add: float | None,
    ) -> None:
        """Decide on all open gates of a budget at one moment, so that the amount is added once."""
        note = with_amount(note, gate, add)
        rows = self._rows(OPEN_GATES_OF_BUDGET, gate.rule, gate.signature)
        gates = [self.gate(gate_id).gate for (gate_id,) in rows]
        at_ns = max(at_ns, *(each.opened_ns + 1 for each in (gate, *gates)))
        for each in gates:
            self._resolve(each, decision, note, at_ns, who, add)

    def _resolve(
        self,
        gate: StoredGate,
        decision: str,
        note: str | None,
        at_ns: int,
        who: str | None,
        add: float | None = None,
        added_ns: int | None = None,
    ) -> None:
        at_ns = max(at_ns, gate.opened_ns + 1)
        words, name = self._redacted(note, who)
        row: tuple[str | float | None, ...]
        row = (digest(f"resolution {gate.id} {at_ns}"), gate.id, at_ns, decision, words)
        name = name and plain(name, WHO_CHARS_MAX)
        audit.note(self.path.parent, "gate decided", name, gate=gate.id, decision=decision)
        row = (*row, name, add, added_ns)
        self._sql.execute("INSERT INTO resolutions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def _stated(words: list[IncidentWord]) -> IncidentWord | None:
    """Return the last word that named a state."""
    return next((word for word in reversed(words) if word.state), None)


def _owner(words: list[IncidentWord]) -> str | None:
    """Return the last named owner; None for nobody."""
    return next((word.owner for word in reversed(words) if word.owner is not None), None) or None
