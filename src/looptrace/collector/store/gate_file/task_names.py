"""The names of the tasks of a store: their own, or those of their sessions."""

from collections.abc import Mapping

from looptrace.analyzer.text.session_names import session_name, session_task
from looptrace.collector.store.gate_file.tables import GateFile

_PUT = """
    INSERT INTO session_names VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET task = excluded.task
"""
# A name is the session, "@" and the service, and "A" comes after "@". A name is no longer valid
# when its session has another task because services share it.
_OF_SESSION = """
    SELECT task FROM tasks WHERE task > ?1 || '@' AND task < ?1 || 'A'
        AND task NOT IN (SELECT name FROM session_names)
    ORDER BY task
"""


_PUT_ALIAS = """
    INSERT INTO task_aliases VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET task = excluded.task
"""


class TaskNames(GateFile):
    """The names of the tasks that gates know."""

    def add_session_names(self, joined: Mapping[str, str]) -> None:
        """Record the other names of tasks whose session several services share."""
        if not joined:
            return
        with self._transaction():
            self._sql.executemany(_PUT, joined.items())

    def session_names(self) -> dict[str, str]:
        """Return the tasks whose session several services share, by their other names."""
        return dict(self._rows("SELECT name, task FROM session_names"))

    def names_of(self, task: str) -> list[str]:
        """Return the other names of a task that several services share."""
        rows = self._rows("SELECT name FROM session_names WHERE task = ? ORDER BY name", task)
        return [name for (name,) in rows]

    def _put_alias(self, name: str, task: str) -> None:
        """Let the old name of a task, and those before it, lead to its new one."""
        self._sql.execute("DELETE FROM task_aliases WHERE name = ?", (task,))
        self._sql.execute("UPDATE task_aliases SET task = ? WHERE task = ?", (task, name))
        self._sql.execute(_PUT_ALIAS, (name, task))

    def renamed(self, name: str) -> list[str]:
        """Return a list of the task that had this name before, empty where there is none."""
        rows = self._rows("SELECT task FROM task_aliases WHERE name = ?", name)
        return [task for (task,) in rows]

    def tasks_named(self, name: str, service: str | None = None) -> list[str]:
        """Return the tasks that a name may mean: the task of that name, and that of the session.

        Raises:
            SeveralServicesError: if several services have such a session, and none is given.
        """
        own = session_name(name, service)
        if own != name:
            rows = self._rows("SELECT task FROM session_names WHERE name = ?", own)
            return [name, rows[0][0] if rows else own]
        tasks = [task for (task,) in self._rows(_OF_SESSION, name)]
        return [name, *session_task(name, tasks)]
