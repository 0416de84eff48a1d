"""Judges as plug-ins: the entry points of the group `looptrace.judges`."""

from looptrace.analyzer.llm_judge import Judge
from looptrace.analyzer.plugins import PluginError, make, offered
from looptrace.analyzer.settings.judge import ChatSettings
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.errors import InputError, LooptraceError
from looptrace.installation import how_to_install

# Each names a callable without arguments that returns a judge.
GROUP = "looptrace.judges"

# The default: no model is asked, and nothing is sent.
NO_JUDGE = "none"

# A model behind an OpenAI-compatible endpoint, set by `[judge]` and environment variables.
CHAT = "chat"

_SHOWN_LENGTH_MAX = 200
_MUST = "made into an object with a method opinion(question)"


class JudgeError(InputError):
    """A judge cannot be used; the message is one line."""


def judge_named(name: str | None, chat: ChatSettings | None = None) -> Judge | None:
    """Make the judge of a name; None for `none`.

    Settings of a chat model are for the judge `chat`; without a name they select it.

    Raises:
        JudgeError: if no judge or several have that name, or it cannot be loaded.
    """
    name = name or (CHAT if chat else NO_JUDGE)
    if name == NO_JUDGE:
        return None
    judges = offered(GROUP)
    named = [point for point in judges if point.name == name]
    if not named:
        known = (NO_JUDGE, *sorted({point.name for point in judges}))
        shown = plain(repr(name), _SHOWN_LENGTH_MAX)
        raise JudgeError(f"there is no judge {shown}. {did_you_mean(name, known)}")
    if len(named) > 1:
        values = ", ".join(point.value for point in named)
        raise JudgeError(f"there are several judges {name} ({values}); uninstall all but one.")
    try:
        # A protocol is checked by its methods.
        given = (chat,) if name == CHAT else ()
        return make(named[0], Judge, _MUST, *given)  # type: ignore[type-abstract]
    except PluginError as error:
        cause = error.__cause__
        if isinstance(cause, LooptraceError):
            raise JudgeError(f"the judge {name} cannot be used: {cause}") from error
        if name == CHAT and isinstance(cause, ModuleNotFoundError) and cause.name == "httpx":
            raise JudgeError(
                f"the judge {CHAT} needs a package that is not installed; "
                f"run {how_to_install('judge')}."
            ) from error
        raise JudgeError(f"the judge {name}: {error}") from error
