"""The rows of a store's gates that go with forgotten turns: events, gates, decisions, notes."""

from collections.abc import Iterable
from dataclasses import replace

from looptrace.analyzer.gates.events import GateEvent
from looptrace.collector.erasure.choice import Choice
from looptrace.collector.store.gate_file.tables import GateFile
from looptrace.collector.store.sqlite_file import json_of

_NOTED = (
    "CREATE TEMP TABLE gone_traces (name TEXT PRIMARY KEY)",
    "CREATE TEMP TABLE gone_tasks (name TEXT PRIMARY KEY)",
    "CREATE TEMP TABLE gone_events (id TEXT PRIMARY KEY)",
    "CREATE TEMP TABLE gone_gates (id TEXT PRIMARY KEY)",
)
_EVENTS = """
    INSERT OR IGNORE INTO gone_events SELECT id FROM events
    WHERE task IN (SELECT name FROM gone_tasks)
        OR body ->> 'trace_id' IN (SELECT name FROM gone_traces)
        OR body ->> 'service' = ?
"""
_GATES = """
    INSERT OR IGNORE INTO gone_gates SELECT id FROM gates
    WHERE event IN (SELECT id FROM gone_events) OR task IN (SELECT name FROM gone_tasks)
"""
_EVENTS_OF_GATES = (
    "INSERT OR IGNORE INTO gone_events SELECT event FROM gates "
    "WHERE id IN (SELECT id FROM gone_gates)",
    "INSERT OR IGNORE INTO gone_events SELECT id FROM events "
    "WHERE body ->> 'gate' IN (SELECT id FROM gone_gates)",
)
# By table, in the order in which one names another.
_DELETED = {
    "attempts": "event IN (SELECT id FROM gone_events)",
    "chat_messages": "gate IN (SELECT id FROM gone_gates)",
    "outbox": "event IN (SELECT id FROM gone_events)",
    "pivots": "event IN (SELECT id FROM gone_events)",
    "opinions": "gate IN (SELECT id FROM gone_gates)",
    "waits": "gate IN (SELECT id FROM gone_gates)",
    "resolutions": "gate IN (SELECT id FROM gone_gates)",
    "pages": "gate IN (SELECT id FROM gone_gates)",
    "gates": "id IN (SELECT id FROM gone_gates)",
    "events": "id IN (SELECT id FROM gone_events)",
    "incident_words": "incident NOT IN (SELECT incident FROM gates WHERE incident NOT NULL)",
    "tasks": "task IN (SELECT name FROM gone_tasks)",
    "session_names": "task IN (SELECT name FROM gone_tasks)"
    " OR name IN (SELECT name FROM gone_tasks)",
    "task_aliases": "task IN (SELECT name FROM gone_tasks)"
    " OR name IN (SELECT name FROM gone_tasks)",
    "aliases": "of IN (SELECT id FROM gone_gates UNION SELECT id FROM gone_events)",
}
# What other servers told is theirs to forget, too; it names no traces.
_SPENT = {
    kind: f"DELETE FROM spent_elsewhere WHERE {kind} = ?"  # noqa: S608
    for kind in ("session", "user", "service")
}
# The last event keeps the last number, so that a reader who knows it hears of the next one.
_KEEP_NUMBER = "UPDATE events SET seq = ? WHERE seq = (SELECT max(seq) FROM events) AND seq < ?"
_LAST = "SELECT coalesce(max(seq), 0) FROM events"
_OF_TASK = "SELECT id, body FROM events WHERE task = ?"
_FINDINGS = "SELECT id, finding FROM gates WHERE task = ? AND finding IS NOT NULL"


class GateRows(GateFile):
    """The gates of a store that no other process uses."""

    def renamed(self) -> dict[str, str]:
        """Return the tasks that had another name, by that name."""
        return dict(self._rows("SELECT name, task FROM task_aliases"))

    def forget(self, choice: Choice) -> dict[str, int]:
        """Delete what is of forgotten turns, and return the number of rows by table.

        Pages of the file that had them are overwritten.
        """
        self._rows("PRAGMA secure_delete = ON")
        with self._transaction():
            self._note(choice)
            last = self._rows(_LAST)[0][0]
            rows = {
                table: self._sql.execute(f"DELETE FROM {table} WHERE {which}").rowcount  # noqa: S608
                for table, which in _DELETED.items()
            }
            self._sql.execute(_KEEP_NUMBER, (last, last))
            if spent := _SPENT.get(choice.wanted.kind):
                self._sql.execute(spent, (choice.wanted.name,))
            self._clean(choice)
        self._rows("VACUUM")
        self._rows("PRAGMA wal_checkpoint(TRUNCATE)")
        return rows

    def _note(self, choice: Choice) -> None:
        for statement in _NOTED:
            self._sql.execute(statement)
        self._fill("gone_traces", choice.traces)
        self._fill("gone_tasks", choice.tasks)
        wanted = choice.wanted
        service = wanted.name if wanted.kind == "service" else None
        self._sql.execute(_EVENTS, (service,))
        self._sql.execute(_GATES)
        for statement in _EVENTS_OF_GATES:
            self._sql.execute(statement)

    def _fill(self, table: str, names: Iterable[str]) -> None:
        insert = f"INSERT INTO {table} VALUES (?)"  # noqa: S608 - All tables are named above.
        self._sql.executemany(insert, [(name,) for name in names])

    def _clean(self, choice: Choice) -> None:
        """Take forgotten turns out of the events and gates of tasks that go on."""
        for task in choice.tasks_left:
            for id_, body in self._rows(_OF_TASK, task):
                event = self._read(body, GateEvent)
                kept = tuple(f for f in event.history if f.trace_id not in choice.traces)
                if kept != event.history:
                    text = json_of(replace(event, history=kept))
                    self._sql.execute("UPDATE events SET body = ? WHERE id = ?", (text, id_))
            for id_, finding in self._rows(_FINDINGS, task):
                if any(trace in finding for trace in choice.traces):
                    self._sql.execute("UPDATE gates SET finding = NULL WHERE id = ?", (id_,))
