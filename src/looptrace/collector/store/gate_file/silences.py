"""Silences in a gate store, and the openings in the outbox that they hold back."""

import time
from collections.abc import Sequence
from dataclasses import astuple
from secrets import token_hex

from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.silences import (
    HOURS_MAX,
    Inhibition,
    Matchers,
    NoSilenceError,
    Silence,
    check_silence,
    incident_of,
    is_of_outage,
)
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.display import plain
from looptrace.collector.content.redaction import redact_text
from looptrace.collector.store import audit
from looptrace.collector.store.gate_file.stored_gates import StoredGates
from looptrace.collector.store.key import content_key
from looptrace.rules.vocabulary import NS_PER_S

WHO_CHARS_MAX = 100  # of the name of a person
_LONGEST_NS = HOURS_MAX * 3_600 * NS_PER_S
_ID_BYTES = 8

_ADD = "INSERT INTO silences VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LIST = """
    SELECT id, made_ns, ends_ns, who, why,
        (SELECT count(DISTINCT event) FROM outbox WHERE silence = silences.id),
        rule, tool, agent, service, incident
    FROM silences WHERE ends_ns > ?1 OR ?1 IS NULL ORDER BY ends_ns, id
"""
_END = "UPDATE silences SET ends_ns = ?2 WHERE id = ?1 AND ends_ns > ?2"
_MUTED = """
    SELECT until_ns FROM incident_words WHERE incident = ? AND state NOT NULL
    ORDER BY at_ns DESC LIMIT 1
"""
_IS_INHIBITING = "SELECT 1 FROM silences WHERE who = ?"
_INHIBIT = "INSERT OR IGNORE INTO silences VALUES (?, '', '', '', '', ?, ?, ?, ?, ?)"
# A silence that a person ended does not hold again.
_PROLONG = "UPDATE silences SET ends_ns = ?2, why = ?3 WHERE who = ?1 AND ends_ns > ?4"
_HOLD_LONGER = """
    UPDATE outbox SET next_try_ns = ?2, created_ns = ?2
    WHERE next_try_ns < ?2 AND dead_ns IS NULL
        AND silence IN (SELECT id FROM silences WHERE who = ?1 AND ends_ns = ?2)
"""
_IS_HELD = """
    SELECT 1 FROM outbox JOIN events ON events.id = outbox.event
    WHERE silence NOT NULL AND next_try_ns > ?2 AND type = 'gate_opened'
        AND events.body ->> 'gate' = ?1
"""
_OPENINGS = """
    SELECT DISTINCT events.id, events.body, outbox.silence
    FROM outbox JOIN events ON events.id = outbox.event
    WHERE events.type = 'gate_opened' AND outbox.dead_ns IS NULL
"""
_HOLD = """
    UPDATE outbox SET silence = ?2, next_try_ns = ?3, created_ns = ?3
    WHERE event = ?1 AND dead_ns IS NULL
"""
_HELD = """
    SELECT endpoint FROM outbox
    WHERE silence NOT NULL AND next_try_ns > ?2
        AND (SELECT body ->> 'gate' FROM events WHERE id = outbox.event) = ?1
"""
_FORGET = """
    DELETE FROM outbox
    WHERE silence NOT NULL AND next_try_ns > ?2
        AND (SELECT body ->> 'gate' FROM events WHERE id = outbox.event) = ?1
    RETURNING endpoint
"""


class Silences(StoredGates):
    """The silences of a gate store.

    An outage silences the incidents of the gates that it causes, all but its first gate.
    """

    # Those that go on, which a server notes.
    _outages: Sequence[Inhibition] = ()

    def silences(self, now_ns: int | None = None) -> list[Silence]:
        """Return the silences that hold at a time, by default now; the first to end comes first."""
        now_ns = time.time_ns() if now_ns is None else now_ns
        return [
            Silence(id_, Matchers(*matchers), made_ns, ends_ns, who, why, held)
            for id_, made_ns, ends_ns, who, why, held, *matchers in self._rows(_LIST, now_ns)
        ]

    def silence(
        self, matchers: Matchers, ends_ns: int, why: str, who: str | None = None
    ) -> Silence:
        """Hold the openings of matching gates back from webhooks until a time.

        Raises:
            GateError: if it matches everything, or has no reason or no near end.
        """
        now_ns = time.time_ns()
        check_silence(matchers, why, now_ns, ends_ns, _LONGEST_NS)
        words, name = self._redacted(why, who)
        name = name and plain(name, WHO_CHARS_MAX)
        id_ = token_hex(_ID_BYTES)
        with self._transaction():
            audit.note(self.path.parent, "silenced", name, silence=id_, until_ns=ends_ns)
            self._sql.execute(_ADD, (id_, *astuple(matchers), now_ns, ends_ns, name, words))
            self._hold_anew(now_ns)
        return next(each for each in self.silences(now_ns) if each.id == id_)

    def end_silence(self, silence: str) -> None:
        """End a silence now: what it held back and still matters is sent.

        Raises:
            NoSilenceError: if none that holds has this id.
        """
        now_ns = time.time_ns()
        with self._transaction():
            if not self._sql.execute(_END, (silence, now_ns)).rowcount:
                raise NoSilenceError(
                    f"there is no silence {silence!r} that holds; "
                    "`looptrace silences list` shows them."
                )
            audit.note(self.path.parent, "silence ended", None, silence=silence)
            self._hold_anew(now_ns)

    def note_outages(self, outages: Sequence[Inhibition], now_ns: int) -> None:
        """Let these outages hold back the gates that they cause, from now on.

        What they hold back already waits until their new ends.
        """
        before = {each.who: each for each in self._outages}
        self._outages = outages
        longer = [each for each in outages if each.who in before and before[each.who] != each]
        if not longer:
            return
        with self._transaction():
            for each in longer:
                (why,) = self._redacted(each.why)
                self._sql.execute(_PROLONG, (each.who, each.ends_ns, why, now_ns))
                self._sql.execute(_HOLD_LONGER, (each.who, each.ends_ns))

    def _held(self, event: GateEvent, opening: GateEvent, now_ns: int) -> tuple[str, int] | None:
        """Return the silence that holds an event of a loop, and its end.

        The first gate of an outage is none of those that the outage silences.
        """
        is_spared = False
        if event.type == "gate_opened":
            is_spared = self._is_first_of_outage(opening, now_ns)
        elif event.type == "gate_unanswered":
            is_spared = not self._rows(_IS_HELD, event.gate, now_ns)
        return self._silenced(opening, now_ns, of_outages=not is_spared)

    def _is_first_of_outage(self, opening: GateEvent, now_ns: int) -> bool:
        """Silence the incident of a gate that an outage causes; return whether it is its first."""
        outage = next((each for each in self._outages if each.causes(opening)), None)
        if outage is None or outage.ends_ns <= now_ns:
            return False
        is_first = not self._rows(_IS_INHIBITING, outage.who)
        incident, (why,) = incident_of(opening), self._redacted(outage.why)
        id_ = digest(f"{outage.who} {incident}")
        row = (id_, incident, now_ns, outage.ends_ns, outage.who, why)
        if self._sql.execute(_INHIBIT, row).rowcount:
            until_ns = outage.ends_ns
            audit.note(self.path.parent, "silenced", outage.who, silence=id_, until_ns=until_ns)
        return is_first

    def _silenced(
        self, event: GateEvent, now_ns: int, *, of_outages: bool = True
    ) -> tuple[str, int] | None:
        """Return the silence that holds an event longest, and its end; a mute is one, too."""
        incident = incident_of(event)
        held = [
            (each.ends_ns, each.id)
            for each in self.silences(now_ns)
            if each.matchers.matches(event) and (of_outages or not is_of_outage(each))
        ]
        held += [
            (until_ns, incident)
            for (until_ns,) in self._rows(_MUTED, incident)
            if until_ns is not None and until_ns > now_ns
        ]
        ends_ns, silence = max(held, default=(0, ""))
        return (silence, ends_ns) if silence else None

    def _hold_anew(self, now_ns: int) -> None:
        """Hold the openings that wait for webhooks by the silences of now, and no others."""
        for id_, body, before in self._rows(_OPENINGS):
            opening = self._read(body, GateEvent)
            # The first gate of an outage is not held.
            held = self._silenced(opening, now_ns, of_outages=bool(before))
            if held:
                self._sql.execute(_HOLD, (id_, *held))
            elif before:
                self._sql.execute(_HOLD, (id_, None, now_ns))

    def _unaware(self, event: GateEvent, now_ns: int) -> set[str]:
        """Return the endpoints that have not heard of a gate, because it is silenced.

        A gate that ends takes its held events with it.
        """
        if event.type not in ("gate_renamed", "gate_resolved"):
            return set()
        sql = _FORGET if event.type == "gate_resolved" else _HELD
        return {name for (name,) in self._rows(sql, event.gate, now_ns)}

    def _redacted(self, *texts: str | None) -> list[str | None]:
        """Return what people and judges write without secrets: all of it enters here."""
        key = content_key(self.path.parent)
        return [text and redact_text(text, key) for text in texts]
