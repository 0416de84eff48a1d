"""Judges as plug-ins: the entry points of the group `looptrace.judges`."""

from __future__ import annotations

import traceback
from importlib.metadata import entry_points

from looptrace.analyzer.llm_judge import Judge
from looptrace.analyzer.text.display import did_you_mean, plain
from looptrace.errors import InputError

# Each names a callable without arguments that returns a judge.
GROUP = "looptrace.judges"

# The default: nobody is asked, and nothing is sent.
NO_JUDGE = "none"

_SHOWN_LENGTH_MAX = 200


class JudgeError(InputError):
    """A judge cannot be had; the message is one line."""


def judge_named(name: str) -> Judge | None:
    """Make the judge that a name stands for; None for `none`.

    Raises:
        JudgeError: if there is none or more than one of that name, or it cannot be loaded.
    """
    if name == NO_JUDGE:
        return None
    offered = entry_points(group=GROUP)
    # A distribution that stands on the path twice offers the same thing, not a second one.
    found = {entry.value: entry for entry in offered if entry.name == name}
    if not found:
        known = (NO_JUDGE, *sorted({entry.name for entry in offered}))
        raise JudgeError(f"there is no judge {_shown(repr(name))}. {did_you_mean(name, known)}")
    if len(found) > 1:
        values = ", ".join(sorted(found))
        raise JudgeError(f"there are several judges {name} ({values}); uninstall all but one.")
    ((value, entry),) = found.items()
    try:
        judge = entry.load()()
    except Exception as error:  # A plug-in is foreign code and may raise anything at all.
        why = _shown(traceback.format_exception_only(error)[-1])
        raise JudgeError(f"the judge {name} ({value}) cannot be loaded: {why}") from error
    if not isinstance(judge, Judge):
        raise JudgeError(f"the judge {name} ({value}) has no method opinion(question).")
    return judge


def _shown(text: str) -> str:
    return plain(text, _SHOWN_LENGTH_MAX)
