"""The outbox: the events still to be sent to each endpoint, and the state of the endpoints.

A row is written in the transaction of its event and deleted when a receiver has answered, so that a
kill in between sends the event once more and loses none.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.gates.agent_states import AgentState
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.collector.store.gate_file.tables import GATES, GateFile
from looptrace.collector.store.sqlite_file import read_json
from looptrace.rules.vocabulary import NS_PER_S

# The most rows that wait for all endpoints together; each has its own share.
ROWS_MAX = 100_000
# Dead letters are kept this long, and rows that wait longer become dead letters.
KEPT_S = 30 * 86_400

_COUNT = "SELECT count(*) FROM outbox WHERE endpoint = ? AND dead_ns IS NULL"
_ADD = "INSERT INTO outbox VALUES (?1, ?2, ?3, ?3, 0, NULL, NULL, ?4)"
_KNOW = "INSERT INTO endpoints (name) VALUES (?) ON CONFLICT (name) DO NOTHING"
_DROP = "UPDATE endpoints SET dropped = dropped + 1 WHERE name = ?"
_DUE = """
    SELECT events.body, outbox.tries, outbox.next_try_ns, opening.at_ns, gates.finding, (
        SELECT who FROM resolutions
        WHERE gate = gates.id AND at_ns > gates.opened_ns ORDER BY at_ns LIMIT 1
    )
    FROM outbox JOIN events ON events.id = outbox.event
    LEFT JOIN gates ON gates.id = json_extract(events.body, '$.gate')
    LEFT JOIN events AS opening ON opening.id = gates.event
    WHERE outbox.endpoint = ? AND outbox.dead_ns IS NULL
    ORDER BY outbox.next_try_ns, events.seq LIMIT 1
"""
_TAKE = "DELETE FROM outbox WHERE event = ? AND endpoint = ?"
_DELIVERED = "UPDATE endpoints SET delivered = delivered + 1, failing_ns = NULL WHERE name = ?"
_TRIED = """
    UPDATE outbox SET tries = tries + 1, error = ?, next_try_ns = ?, dead_ns = ?
    WHERE event = ? AND endpoint = ?
"""
_FAILING = "UPDATE endpoints SET failing_ns = coalesce(failing_ns, ?) WHERE name = ?"
# A row that was never tried is due at once.
_RESCHEDULE = """
    UPDATE outbox SET next_try_ns = CASE tries
        WHEN 0 THEN min(next_try_ns, ?2) ELSE min(next_try_ns + ?3, ?2 + ?4)
    END
    WHERE endpoint = ?1 AND dead_ns IS NULL AND (silence IS NULL OR next_try_ns <= ?2)
"""
_FAILING_SINCE = "UPDATE endpoints SET failing_ns = min(failing_ns + ?3, ?2) WHERE name = ?1"
_DISABLE = "UPDATE endpoints SET disabled_ns = ?, disabled_why = ? WHERE name = ?"
_ENABLE = """
    UPDATE endpoints SET disabled_ns = NULL, disabled_why = NULL, failing_ns = NULL WHERE name = ?
"""
_STATE = "SELECT failing_ns, disabled_ns FROM endpoints WHERE name = ?"
_REPLAY = """
    UPDATE outbox SET dead_ns = NULL, tries = 0, next_try_ns = ?1, created_ns = ?1
    WHERE dead_ns >= ?2 AND (?3 IS NULL OR endpoint = ?3)
"""
_ENDPOINTS = """
    SELECT name,
        count(event) FILTER (WHERE dead_ns IS NULL AND NOT coalesce(held, 0)) AS pending,
        count(dead_ns) AS dead, delivered, dropped, failing_ns, disabled_ns, disabled_why,
        (SELECT error FROM outbox AS last WHERE last.endpoint = name AND error IS NOT NULL
         ORDER BY next_try_ns DESC LIMIT 1) AS error,
        min(created_ns) FILTER (WHERE dead_ns IS NULL AND NOT held) AS oldest_ns,
        count(event) FILTER (WHERE dead_ns IS NULL AND held) AS silenced
    FROM endpoints LEFT JOIN (
        SELECT *, silence NOT NULL AND next_try_ns > ?2 AS held FROM outbox
    ) ON endpoint = name
    WHERE ?1 IS NULL OR name = ?1
    GROUP BY name ORDER BY name
"""
# The page of an incident, by the incident that its first gate belongs to now.
_PAGE = """
    SELECT pages.gate, told_ns FROM pages JOIN gates ON gates.id = pages.gate
    WHERE endpoint = ?1 AND incident = ?2 ORDER BY told_ns DESC LIMIT 1
"""
_INCIDENT = "SELECT incident FROM gates WHERE id = ?"
_WAITING = """
    SELECT events.body FROM gates JOIN events ON events.id = gates.event
    WHERE incident = ? AND status = 'open' AND NOT EXISTS (
        SELECT 1 FROM resolutions WHERE gate = gates.id AND resolutions.at_ns > gates.opened_ns
    )
    ORDER BY gates.id = ? DESC, opened_ns DESC, gates.id
"""
_POSTPONE = "UPDATE outbox SET next_try_ns = ?, created_ns = ?1 WHERE event = ? AND endpoint = ?"
_BEGIN_PAGE = "INSERT INTO pages VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET told_ns = ?3"
_END_PAGE = "DELETE FROM pages WHERE endpoint = ? AND gate = ?"
# One message tells of all gates that wait.
_ABSORB = """
    DELETE FROM outbox WHERE endpoint = ?1 AND dead_ns IS NULL AND event IN (
        SELECT id FROM events WHERE id = outbox.event AND type = ?2
            AND body ->> 'gate' IN (SELECT id FROM gates WHERE incident = ?3)
    )
"""
_TELLING = ("gate_opened", "gate_unanswered")


@dataclass(frozen=True, slots=True)
class PageGroup:
    """The incident of a message to an endpoint that groups gates."""

    incident: str
    gate: str  # the first one of which the endpoint heard, by which it knows the incident
    gates_open: int


@dataclass(frozen=True, slots=True)
class GateBackground:
    """The store's data about the gate of an event, beside the event itself."""

    opened_ns: int
    finding: Finding | None = None  # at the opening
    resolved_by: str | None = None
    agent: AgentState | None = None  # of an open gate


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event to be sent to an endpoint, and the number of tries."""

    event: GateEvent
    endpoint: str
    tries: int
    next_try_ns: int
    gate: GateBackground | None = None  # where the event has one
    group: PageGroup | None = None  # where the endpoint groups gates


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The state of an endpoint; it counts events."""

    name: str
    pending: int = 0
    dead: int = 0
    delivered: int = 0
    dropped: int = 0  # no room was left for them
    failing_ns: int | None = None  # since when every try failed
    disabled_ns: int | None = None
    disabled_why: str | None = None
    error: str | None = None  # of the latest known try
    oldest_ns: int | None = None  # when the oldest pending one was recorded
    silenced: int = 0  # held back by a silence


def enqueue(
    sql: sqlite3.Connection,
    event: str,
    webhooks: Iterable[Webhook],
    endpoints: int,
    due_ns: int,
    silence: str | None = None,
) -> None:
    """Add an event to the outbox of each webhook, within the transaction that records it.

    A `silence` holds it back until it is due.

    An endpoint whose share of the rows (one of `endpoints`) is full gets no more; these events are
    counted.
    """
    for webhook in webhooks:
        sql.execute(_KNOW, (webhook.name,))
        ((waiting,),) = sql.execute(_COUNT, (webhook.name,))
        if waiting < ROWS_MAX // endpoints:
            sql.execute(_ADD, (event, webhook.name, due_ns, silence))
        else:
            sql.execute(_DROP, (webhook.name,))


class Outbox(GateFile):
    """One connection to the outbox of a gate store.

    Raises:
        StoreError: by every method, if the file cannot be used.
    """

    def next(self, endpoint: str) -> Delivery | None:
        """Return the next delivery for an endpoint, due or not, or None."""
        for body, tries, next_try_ns, opened_ns, found, who in self._rows(_DUE, endpoint):
            event = read_json(body, GateEvent, self.path, GATES)
            finding = found and read_json(found, Finding, self.path, GATES)
            gate = None if opened_ns is None else GateBackground(opened_ns, finding, who)
            return Delivery(event, endpoint, tries, next_try_ns, gate)
        return None

    def failing_ns(self, endpoint: str) -> int | None:
        """Return the start of an endpoint's failing tries; None if the last one succeeded."""
        rows = self._rows(_STATE, endpoint)
        return rows[0][0] if rows else None

    def is_disabled(self, endpoint: str) -> bool:
        """Return whether an endpoint is disabled."""
        rows = self._rows(_STATE, endpoint)
        return bool(rows) and rows[0][1] is not None

    def grouped(self, delivery: Delivery, repeat_ns: int, now_ns: int) -> Delivery | None:
        """Return what to tell an endpoint of an incident; None if this event is told by another.

        The first gate pages, further ones are told together after `repeat_ns` (0: never), and the
        end is that of the last gate.
        """
        event, name = delivery.event, delivery.endpoint
        rows = self._rows(_INCIDENT, event.gate) if event.gate else ()
        if not rows:
            return delivery
        ((incident,),) = rows
        waiting = [
            read_json(body, GateEvent, self.path, GATES)
            for (body,) in self._rows(_WAITING, incident, event.gate)
        ]
        page = next(iter(self._rows(_PAGE, name, incident)), None)
        is_ended = event.type == "gate_resolved"
        is_late = event.type in _TELLING and not waiting
        is_known = page is not None and event.type == "gate_opened"
        told_ns = page[1] if page else 0
        if is_known and waiting and repeat_ns and now_ns < told_ns + repeat_ns:
            with self._transaction():
                self._sql.execute(_POSTPONE, (told_ns + repeat_ns, event.id, name))
            return None
        is_other = event.type == "gate_renamed" and (page is None or page[0] != event.gate)
        is_end_too_many = is_ended and (page is None or bool(waiting))
        if is_late or is_other or is_end_too_many or (is_known and not repeat_ns):
            with self._transaction():
                self._sql.execute(_TAKE, (event.id, name))
            return None
        if event.type in _TELLING:  # The one that waits, if that of the event does not.
            event = replace(waiting[0], id=event.id, type=event.type, at_ns=event.at_ns)
        group = PageGroup(incident, page[0] if page else event.gate, len(waiting))
        return replace(delivery, event=event, group=group)

    def delivered(self, delivery: Delivery, now_ns: int = 0) -> None:
        """Delete a delivery that a receiver has accepted."""
        with self._transaction():
            if (group := delivery.group) and delivery.event.type in _TELLING:
                self._sql.execute(_BEGIN_PAGE, (delivery.endpoint, group.gate, now_ns))
            # Another process may have sent it, too.
            if self._sql.execute(_TAKE, (delivery.event.id, delivery.endpoint)).rowcount:
                self._sql.execute(_DELIVERED, (delivery.endpoint,))
            if group and delivery.event.type in _TELLING:
                about = (delivery.endpoint, delivery.event.type, group.incident)
                self._sql.execute(_ABSORB, about)
            elif group and delivery.event.type == "gate_resolved":
                self._sql.execute(_END_PAGE, (delivery.endpoint, group.gate))

    def failed(
        self,
        delivery: Delivery,
        error: str,
        now_ns: int,
        *,
        next_try_ns: int | None,
        disabled_why: str | None,
    ) -> None:
        """Record a failed try: the time of the next one (None: a dead letter), and what it ends."""
        dead_ns = now_ns if next_try_ns is None else None
        row = (error, next_try_ns or delivery.next_try_ns, dead_ns)
        with self._transaction():
            self._sql.execute(_TRIED, (*row, delivery.event.id, delivery.endpoint))
            self._sql.execute(_FAILING, (now_ns, delivery.endpoint))
            if disabled_why:
                self._sql.execute(_DISABLE, (now_ns, disabled_why, delivery.endpoint))

    def reschedule(self, endpoint: str, now_ns: int, jump_ns: int, wait_ns_max: int) -> None:
        """Move the times of an endpoint by the jump of the clock.

        No row waits longer than `wait_ns_max`, whatever the clock was when it was planned.
        """
        with self._transaction():
            self._sql.execute(_RESCHEDULE, (endpoint, now_ns, jump_ns, wait_ns_max))
            self._sql.execute(_FAILING_SINCE, (endpoint, now_ns, jump_ns))

    def enable(self, endpoint: str) -> bool:
        """Enable an endpoint again; return whether there is one of this name."""
        with self._transaction():
            return bool(self._sql.execute(_ENABLE, (endpoint,)).rowcount)

    def replay(self, endpoint: str | None, since_ns: int, now_ns: int) -> int:
        """Put the dead letters since a time back into the outbox; return their number."""
        with self._transaction():
            return self._sql.execute(_REPLAY, (now_ns, since_ns, endpoint)).rowcount

    def sweep(self, now_ns: int) -> None:
        """Delete old dead letters, and turn rows that waited too long into dead letters."""
        oldest_ns = now_ns - KEPT_S * NS_PER_S
        with self._transaction():
            self._sql.execute("DELETE FROM outbox WHERE dead_ns < ?", (oldest_ns,))
            self._sql.execute(
                "UPDATE outbox SET dead_ns = ? WHERE dead_ns IS NULL AND created_ns < ?",
                (now_ns, oldest_ns),
            )

    def endpoints(self) -> list[Endpoint]:
        """Return all endpoints that ever had an event."""
        return [Endpoint(*row) for row in self._rows(_ENDPOINTS, None, time.time_ns())]

    def endpoint(self, name: str) -> Endpoint:
        """Return the state of an endpoint."""
        rows = self._rows(_ENDPOINTS, name, time.time_ns())
        return Endpoint(*rows[0]) if rows else Endpoint(name)
