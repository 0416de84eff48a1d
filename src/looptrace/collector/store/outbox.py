"""The outbox: the events still to be sent to each endpoint, and the state of the endpoints.

A row is written in the transaction of its event and deleted when a receiver has answered, so that a
kill in between sends the event once more and loses none.
"""

import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.gates.agent_states import AgentState
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.analyzer.text.digests import digest
from looptrace.collector.store.gate_file.attempts import KEPT_S, Attempts, Tried
from looptrace.collector.store.gate_file.endpoint_events import (
    SERVER_EVENTS,
    EndpointEvent,
    EndpointEventType,
    ServerEvent,
)
from looptrace.collector.store.sqlite_file import json_of
from looptrace.rules.vocabulary import NS_PER_S

# The most rows that wait for all endpoints together; each has its own share.
ROWS_MAX = 100_000

_COUNT = "SELECT count(*) FROM outbox WHERE endpoint = ? AND dead_ns IS NULL"
_ADD = "INSERT INTO outbox VALUES (?1, ?2, ?3, ?3, 0, NULL, NULL, ?4, 0)"
_KNOW = "INSERT INTO endpoints (name) VALUES (?) ON CONFLICT (name) DO NOTHING"
_DROP = "UPDATE endpoints SET dropped = dropped + 1 WHERE name = ?"
_DUE = """
    SELECT events.body, outbox.tries, outbox.next_try_ns, opening.at_ns, gates.finding, (
        SELECT who FROM resolutions
        WHERE gate = gates.id AND at_ns > gates.opened_ns ORDER BY at_ns LIMIT 1
    ), outbox.is_resent, events.type
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
_ENABLED = "SELECT name FROM endpoints WHERE name = ? AND disabled_ns IS NULL"
_TELL = """
    INSERT INTO events (id, type, task, agent, rule, finding, at_ns, body)
    VALUES (?, ?, '', '', '', '', ?, ?) ON CONFLICT DO NOTHING
"""
_MESSAGE = "SELECT message FROM chat_messages WHERE endpoint = ? AND gate = ?"
_KEEP_MESSAGE = """
    INSERT INTO chat_messages SELECT ?1, id, ?3, ?4 FROM gates WHERE id = ?2
    ON CONFLICT DO UPDATE SET message = ?3, at_ns = ?4
"""
_DROP_MESSAGE = "DELETE FROM chat_messages WHERE endpoint = ? AND gate = ?"
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
_HOLD = """
    UPDATE outbox SET silence = ?1, next_try_ns = ?2, created_ns = ?2
    WHERE event = ?3 AND endpoint = ?4
"""
_BEGIN_PAGE = "INSERT INTO pages VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET told_ns = ?3"
_END_PAGE = "DELETE FROM pages WHERE endpoint = ? AND gate = ?"
# One message names all open gates.
_ABSORB = """
    DELETE FROM outbox WHERE endpoint = ?1 AND dead_ns IS NULL AND event IN (
        SELECT id FROM events WHERE id = outbox.event AND type = ?2
            AND body ->> 'gate' IN (SELECT id FROM gates WHERE incident = ?3)
    )
"""
_TELLING = ("gate_opened", "gate_unanswered")
# Stands in place of a silence where no agent waits at a gate.
_NOBODY_WAITS = "nobody waits"


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

    event: GateEvent | ServerEvent
    endpoint: str
    tries: int
    next_try_ns: int
    gate: GateBackground | None = None  # where the event has one
    group: PageGroup | None = None  # where the endpoint groups gates
    is_resent: bool = False  # A person asked for it.

    @property
    def key(self) -> str:
        """The gate by which the endpoint knows what the event is about; "" for none."""
        if isinstance(self.event, ServerEvent):
            return ""
        return self.group.gate if self.group else self.event.gate


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

    A `silence` holds it back until it is due. An endpoint whose share of the rows (one of
    `endpoints`) is full gets no more; these events are counted.
    """
    for webhook in webhooks:
        sql.execute(_KNOW, (webhook.name,))
        ((waiting,),) = sql.execute(_COUNT, (webhook.name,))
        if waiting < ROWS_MAX // endpoints:
            sql.execute(_ADD, (event, webhook.name, due_ns, silence))
        else:
            sql.execute(_DROP, (webhook.name,))


class Outbox(Attempts):
    """One connection to the outbox of a gate store."""

    def next(self, endpoint: str) -> Delivery | None:
        """Return the next delivery for an endpoint, due or not, or None."""
        for body, tries, next_try_ns, opened_ns, found, who, resent, kind in self._rows(
            _DUE, endpoint
        ):
            made: type[GateEvent | ServerEvent] = SERVER_EVENTS.get(kind, GateEvent)
            event = self._read(body, made)
            finding = found and self._read(found, Finding)
            gate = None if opened_ns is None else GateBackground(opened_ns, finding, who)
            return Delivery(event, endpoint, tries, next_try_ns, gate, is_resent=bool(resent))
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
        """Return the delivery of an incident to an endpoint; None if another one covers the event.

        The first gate pages, further ones are sent together after `repeat_ns` (0: never), and the
        end is that of the last gate.
        """
        event, name = delivery.event, delivery.endpoint
        if isinstance(event, ServerEvent):
            return delivery
        rows = self._rows(_INCIDENT, event.gate) if event.gate else ()
        if not rows:
            return delivery
        ((incident,),) = rows
        waiting = [
            self._read(body, GateEvent) for (body,) in self._rows(_WAITING, incident, event.gate)
        ]
        page = next(iter(self._rows(_PAGE, name, incident)), None)
        group = PageGroup(incident, page[0] if page else event.gate, len(waiting))
        if delivery.is_resent:
            return replace(delivery, group=group)
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
        return replace(delivery, event=event, group=group)

    def message(self, endpoint: str, gate: str) -> str | None:
        """Return the id of an endpoint's chat message about a gate; None if there is none."""
        rows = self._rows(_MESSAGE, endpoint, gate)
        return rows[0][0] if rows else None

    def forget_message(self, endpoint: str, gate: str) -> None:
        """Forget an endpoint's chat message about a gate, which the chat no longer has."""
        with self._transaction():
            self._sql.execute(_DROP_MESSAGE, (endpoint, gate))

    def delivered(self, delivery: Delivery, tried: Tried, message: str | None = None) -> None:
        """Delete a delivery that a receiver has accepted; a chat gave it the id of a `message`."""
        name, event, group = delivery.endpoint, delivery.event, delivery.group
        # What is sent again after the end begins no page, which nothing would end.
        is_told = group is not None and event.type in _TELLING and group.gates_open > 0
        with self._transaction():
            self._note(name, event.id, tried)
            if group and is_told:
                self._sql.execute(_BEGIN_PAGE, (name, group.gate, tried.at_ns))
            # Another process may have sent it, too.
            if self._sql.execute(_TAKE, (event.id, name)).rowcount:
                self._sql.execute(_DELIVERED, (name,))
            if group and is_told:
                self._sql.execute(_ABSORB, (name, event.type, group.incident))
            elif group and event.type == "gate_resolved":
                self._sql.execute(_END_PAGE, (name, group.gate))
            if message and event.type in _TELLING:
                self._sql.execute(_KEEP_MESSAGE, (name, delivery.key, message, tried.at_ns))
            elif event.type == "gate_resolved":
                self._sql.execute(_DROP_MESSAGE, (name, delivery.key))

    def leave(self, delivery: Delivery, until_ns: int) -> None:
        """Leave a gate untold at which nobody waits, until somebody may; a reminder is dropped."""
        key = delivery.event.id, delivery.endpoint
        with self._transaction():
            if delivery.event.type == "gate_opened":
                self._sql.execute(_HOLD, (_NOBODY_WAITS, until_ns, *key))
            else:
                self._sql.execute(_TAKE, key)

    def failed(
        self,
        delivery: Delivery,
        tried: Tried,
        *,
        next_try_ns: int | None,
        disabled_why: str | None = None,
        others: Sequence[Webhook] = (),
    ) -> None:
        """Record a failed try: the time of the next one (None: a dead letter), and what it ends.

        The `others` hear of an endpoint that is disabled by it.
        """
        name, now_ns = delivery.endpoint, tried.at_ns
        dead_ns = now_ns if next_try_ns is None else None
        row = (tried.error, next_try_ns or delivery.next_try_ns, dead_ns)
        with self._transaction():
            self._note(name, delivery.event.id, tried)
            self._sql.execute(_TRIED, (*row, delivery.event.id, name))
            self._sql.execute(_FAILING, (now_ns, name))
            if disabled_why:
                self._sql.execute(_DISABLE, (now_ns, disabled_why, name))
                self._tell("endpoint_disabled", name, disabled_why, now_ns, others)

    def reschedule(self, endpoint: str, now_ns: int, jump_ns: int, wait_ns_max: int) -> None:
        """Move the times of an endpoint by the jump of the clock.

        No row waits longer than `wait_ns_max`, whatever the clock was when it was planned.
        """
        with self._transaction():
            self._sql.execute(_RESCHEDULE, (endpoint, now_ns, jump_ns, wait_ns_max))
            self._sql.execute(_FAILING_SINCE, (endpoint, now_ns, jump_ns))

    def enable(self, endpoint: str, now_ns: int, webhooks: Sequence[Webhook] = ()) -> bool:
        """Enable an endpoint again; return whether there is one of this name.

        The others of the `webhooks` hear of it, if it was disabled.
        """
        with self._transaction():
            was_enabled = bool(self._rows(_ENABLED, endpoint))
            is_known = bool(self._sql.execute(_ENABLE, (endpoint,)).rowcount)
            if is_known and not was_enabled:
                others = [each for each in webhooks if each.name != endpoint]
                self._tell("endpoint_enabled", endpoint, "a person enabled it", now_ns, others)
            return is_known

    def _tell(
        self,
        kind: EndpointEventType,
        endpoint: str,
        reason: str,
        now_ns: int,
        others: Sequence[Webhook],
    ) -> None:
        """Tell other endpoints of one that is disabled or enabled."""
        ((waiting,),) = self._rows(_COUNT, endpoint)
        id_ = digest(f"{kind} {endpoint} {now_ns}")
        event = EndpointEvent(id_, kind, endpoint, now_ns, reason, waiting)
        self._send(event, others, len(others) + 1)

    def tell(self, event: ServerEvent, webhooks: Sequence[Webhook]) -> None:
        """Tell endpoints of a server's event, once."""
        with self._transaction():
            self._send(event, webhooks, len(webhooks))

    def _send(self, event: ServerEvent, webhooks: Sequence[Webhook], endpoints: int) -> None:
        """Send an event to the webhooks that hear of the server itself."""
        if self._sql.execute(_TELL, (event.id, event.type, event.at_ns, json_of(event))).rowcount:
            hearing = [each for each in webhooks if not each.escalations_only]
            enqueue(self._sql, event.id, hearing, endpoints, event.at_ns)

    def sweep(self, now_ns: int) -> None:
        """Delete old dead letters, and turn rows that waited too long into dead letters."""
        oldest_ns = now_ns - KEPT_S * NS_PER_S
        with self._transaction():
            self._forget_old_attempts(now_ns)
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
