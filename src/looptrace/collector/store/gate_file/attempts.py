"""The log of deliveries: each attempt, its result, and the events that are to be sent again."""

from dataclasses import dataclass

from looptrace.analyzer.text.times import NS_PER_MINUTE
from looptrace.collector.store.gate_file.tables import GateFile
from looptrace.rules.vocabulary import NS_PER_S

# The log has so many attempts of each endpoint, and none that is older.
ATTEMPTS_MAX = 10_000
KEPT_S = 30 * 86_400
# How many attempts there are between two looks at the length of the log.
_TRIM_EVERY = 256

_ADD = """
    INSERT INTO attempts (endpoint, event, at_ns, status, ms, error)
    SELECT ?2, id, ?3, ?4, ?5, ?6 FROM events WHERE id = ?1
"""
_TRIM = """
    DELETE FROM attempts WHERE endpoint = ?1 AND seq <= (
        SELECT seq FROM attempts WHERE endpoint = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2
    )
"""
_LOG = """
    SELECT attempts.event, type, task, coalesce(body ->> 'gate', ''), endpoint, attempts.at_ns,
        attempts.status, ms, error
    FROM attempts JOIN events ON events.id = attempts.event
    WHERE (?1 IS NULL OR endpoint = ?1) AND (?2 IS NULL OR attempts.event = ?2)
        AND (NOT ?3 OR error <> '')
    ORDER BY attempts.at_ns DESC, attempts.seq DESC LIMIT ?4
"""
# The latest attempts of an endpoint, without those of a clock that was ahead.
_NTH = """
    SELECT at_ns FROM attempts WHERE endpoint = ?1 AND at_ns <= ?2
    ORDER BY at_ns DESC LIMIT 1 OFFSET ?3
"""
_AGAIN = """
    INSERT INTO outbox (event, endpoint, created_ns, next_try_ns, tries, is_resent)
    SELECT DISTINCT event, endpoint, ?1, ?1, 0, 1 FROM attempts
    WHERE at_ns >= ?2 AND (?3 IS NULL OR endpoint = ?3) AND (?4 IS NULL OR event = ?4)
    ON CONFLICT DO UPDATE SET dead_ns = NULL, tries = 0, next_try_ns = ?1, created_ns = ?1,
        silence = NULL, is_resent = 1
"""
_GIVEN_UP = """
    UPDATE outbox SET dead_ns = NULL, tries = 0, next_try_ns = ?1, created_ns = ?1, is_resent = 1
    WHERE dead_ns >= ?2 AND (?3 IS NULL OR endpoint = ?3)
"""


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of an attempt: when it ended, its HTTP status or none, and its error or none."""

    at_ns: int
    status: int | None = None
    ms: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to deliver an event to an endpoint; `error` is empty if it was accepted."""

    event: str
    type: str
    task: str
    gate: str
    endpoint: str
    at_ns: int
    status: int | None
    ms: int
    error: str


class Attempts(GateFile):
    """The log of deliveries in the file of a store's gates."""

    def attempts(
        self,
        endpoint: str | None = None,
        event: str | None = None,
        *,
        failed: bool = False,
        limit: int = ATTEMPTS_MAX,
    ) -> list[Attempt]:
        """Return the latest attempts, the newest first: all, or those that `failed`."""
        rows = self._rows(_LOG, endpoint, event, failed, limit)
        return [Attempt(*row) for row in rows]

    def allowed_ns(self, endpoint: str, per_minute: int, now_ns: int) -> int:
        """Return when an endpoint may be tried again, if it may be so many times a minute."""
        rows = self._rows(_NTH, endpoint, now_ns, per_minute - 1)
        return rows[0][0] + NS_PER_MINUTE if rows else now_ns

    def replay(
        self, endpoint: str | None, since_ns: int, now_ns: int, *, accepted: bool = False
    ) -> int:
        """Queue the dead letters since a time again; return their number.

        With `accepted` also the events that the log has since then, whatever came of them.
        """
        with self._transaction():
            count = self._sql.execute(_GIVEN_UP, (now_ns, since_ns, endpoint)).rowcount
            if accepted:
                again = (now_ns, since_ns, endpoint, None)
                count += self._sql.execute(_AGAIN, again).rowcount
            return count

    def resend(self, event: str, endpoint: str | None, now_ns: int) -> int:
        """Queue an event again for the endpoints to which it was sent; return their number."""
        with self._transaction():
            return self._sql.execute(_AGAIN, (now_ns, 0, endpoint, event)).rowcount

    def _note(self, endpoint: str, event: str, tried: Tried) -> None:
        row = (event, endpoint, tried.at_ns, tried.status, tried.ms, tried.error)
        seq = self._sql.execute(_ADD, row).lastrowid or 0
        if seq % _TRIM_EVERY == 0:
            self._sql.execute(_TRIM, (endpoint, ATTEMPTS_MAX))

    def _forget_old_attempts(self, now_ns: int) -> None:
        oldest_ns = now_ns - KEPT_S * NS_PER_S
        self._sql.execute("DELETE FROM attempts WHERE at_ns < ?", (oldest_ns,))
        self._sql.execute("DELETE FROM chat_messages WHERE at_ns < ?", (oldest_ns,))
