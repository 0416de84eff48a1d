"""Judges as plug-ins: the entry points of the group `looptrace.judges`."""

from __future__ import annotations

import traceback
from importlib.metadata import entry_points

from looptrace.analyzer.llm_judge import Judge
from looptrace.analyzer.text.display import did_you_mean, plain
from looptrace.errors import InputError, LooptraceError

# Each names a callable without arguments that returns a judge.
GROUP = "looptrace.judges"

# The default: nobody is asked, and nothing is sent.
NO_JUDGE = "none"

# A model behind an OpenAI-compatible endpoint, set by environment variables.
CHAT = "chat"

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
    named = {entry.value: entry for entry in offered if entry.name == name}
    if not named:
        known = (NO_JUDGE, *sorted({entry.name for entry in offered}))
        raise JudgeError(f"there is no judge {_shown(repr(name))}. {did_you_mean(name, known)}")
    if len(named) > 1:
        values = ", ".join(sorted(named))
        raise JudgeError(f"there are several judges {name} ({values}); uninstall all but one.")
    ((value, entry),) = named.items()
    try:
        judge = entry.load()()
    except LooptraceError as error:
        raise JudgeError(f"the judge {name} cannot be had: {error}") from error
    except ModuleNotFoundError as error:
        if name == CHAT and error.name == "httpx":
            raise JudgeError(
                f"the judge {CHAT} needs a package that is not installed; "
                "run pip install 'looptrace[judge]'."
            ) from error
        raise JudgeError(_unloadable(name, value, error)) from error
    except Exception as error:  # A plug-in is foreign code and may raise anything at all.
        raise JudgeError(_unloadable(name, value, error)) from error
    if not isinstance(judge, Judge):
        raise JudgeError(f"the judge {name} ({value}) has no method opinion(question).")
    return judge


def _unloadable(name: str, value: str, error: Exception) -> str:
    why = _shown(traceback.format_exception_only(error)[-1])
    return f"the judge {name} ({value}) cannot be loaded: {why}"


def _shown(text: str) -> str:
    return plain(text, _SHOWN_LENGTH_MAX)
