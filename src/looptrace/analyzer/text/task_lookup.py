"""The task that a person means by a name: its own, or that of its session."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.session_names import session_task
from looptrace.errors import InputError

_NAME_LENGTH_MAX = 60
_TASKS_SHOWN_MAX = 10


class NoTaskError(InputError):
    """There is no task of this name; the message names near ones."""


def task_named(name: str, tasks: Collection[str]) -> str:
    """Return the task of this name, else the task of the session of this name.

    Raises:
        NoTaskError: if there is neither.
        SeveralServicesError: if several services have the session.
    """
    if name in tasks:
        return name
    if of_session := session_task(name, tasks):
        return of_session[0]
    raise NoTaskError(
        f"there is no task {plain(name, _NAME_LENGTH_MAX)!r}; {some_of(tasks, name)}."
    )


def some_of(tasks: Collection[str], name: str = "") -> str:
    """Write `there are 12, such as …`, the tasks that are near the name or the first ones."""
    near = get_close_matches(name, tasks, n=_TASKS_SHOWN_MAX) or sorted(tasks)[:_TASKS_SHOWN_MAX]
    return some_shown([plain(each, _NAME_LENGTH_MAX) for each in near], len(tasks))


def some_shown(shown: Sequence[str], total: int) -> str:
    """Write how many there are, and those that are shown."""
    if not shown:
        return "there is none"
    names = ", ".join(shown)
    if total == 1:
        return f"there is one: {names}"
    return f"there are {total}{':' if len(shown) == total else ', such as'} {names}"
