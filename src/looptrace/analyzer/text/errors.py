"""Error texts: their type and message, and texts without information."""

from __future__ import annotations

import re

from looptrace.analyzer.text.payloads import is_redacted

# Longer errors have information; the pattern below takes the square of the length.
SAYS_NOTHING_CHARS_MAX = 500


# Frameworks write such a text in place of the real error.
_SAYS_NOTHING = re.compile(
    r"an error occurred( while running the tool)?\b.*try again|details are redacted"
    r"|^(error: )?function failed\.?$|^tool_error$|^error$|^\?*$",
    re.IGNORECASE | re.DOTALL,
)


# An exit code, or the name of an empty stream, tells only that something failed, not what.
_EXIT_WORDS = (
    "a an and code command duration elapsed empty error errors exit exitcode exited failed false"
    " finished interrupted is isn ms no non none null of ok output process program result return"
    " returncode returned script seconds shell signal status stderr stdout success task terminated"
    " the time tool wall was with zero aggregated bash completed content done s text took"
)
# A count is not an exit code.
_COUNTED = re.compile(r"\b\d+ (?:failed|errors?)\b", re.IGNORECASE)
# One of 1, or of 123, by which `xargs` tells that a command ended with 1.
_EXIT_ONE = re.compile(
    r"(?:exit|exited|code|status)\W{0,6}(?:(?:with|code|status|is)\W{1,3}){0,2}(?:1|123)(?!\d|\.\d)",
    re.IGNORECASE,
)
# A command that is shown before its output or within a sentence.
_SHOWN_COMMAND = re.compile(r"`[^`\n]*`|(?m:^[$>%] [^\n]*$)")
_COMMAND_EXITED = re.compile(
    r"(?:\w*Error: )?command [^\n]* (?:returned non-zero exit status|(?:exited|failed) with"
    r"(?: exit)? (?:code|status)) -?\d+\W*|command failed with exit code -?\d+: [^\n]*",
    re.IGNORECASE,
)


_TYPED = re.compile(
    r"([A-Za-z_][\w.]*(?:Error|Exception|Failure|Timeout|Interrupt)):\s*(.*)", re.DOTALL
)


_REPR = re.compile(r"([A-Za-z_][\w.]*)\((['\"])(.*)\2,?\)", re.DOTALL)


_TRACEBACK = "Traceback (most recent call last)"


def says_nothing(error: str) -> bool:
    """Return whether a text only says that there was an error, for example after redaction."""
    error = error.strip()
    if len(error) > SAYS_NOTHING_CHARS_MAX:
        return False
    return is_redacted(error) or bool(_SAYS_NOTHING.search(error)) or _is_exit_code(error)


def _is_exit_code(error: str) -> bool:
    """Return whether a text has only the exit code of a command."""
    return _has_exit_words(error) or bool(_COMMAND_EXITED.fullmatch(error))


def _has_exit_words(error: str) -> bool:
    words = set(re.findall(r"[^\W\d_]+", error.lower()))
    told = words & {"exit", "exitcode", "returncode", "exited"}
    return bool(told) and words.issubset(_EXIT_WORDS.split()) and not _COUNTED.search(error)


def answers_no(text: str) -> bool:
    """Return whether a text is the exit code 1 of a command and nothing else.

    Commands such as `grep` and `test` answer "no" by it.
    """
    if len(text) > SAYS_NOTHING_CHARS_MAX:
        return False
    shown = _SHOWN_COMMAND.sub(" ", text)
    return bool(_EXIT_ONE.search(shown)) and _has_exit_words(shown)


def error_of(text: str) -> tuple[str | None, str]:
    """Split an error into its type and its message, without the surrounding stack trace."""
    head, _, trace = text.partition(_TRACEBACK)
    last = trace.strip().rpartition("\n")[2].strip()
    # The text before a stack trace may be only the command.
    text = last if _TYPED.fullmatch(last) else head.strip() or last or text.strip()
    if match := _REPR.fullmatch(text) or _TYPED.fullmatch(text):
        return match[1].rsplit(".", 1)[-1], match[match.lastindex or 0].strip()
    return None, text
