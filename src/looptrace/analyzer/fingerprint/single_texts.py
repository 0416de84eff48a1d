"""Python's regex engine made to read texts as Rust's does, for turns read one at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from looptrace.analyzer.fingerprint.masks import (
    _ID,
    BRIEF_ANSWER,
    COUNTER_MASK,
    ERROR_MASK,
    MASKS,
    ROUND_MASKS,
)
from looptrace.analyzer.text.cut_texts import compared_text

# Longer texts are left to Rust's engine, because Python's does not run in linear time.
CHARS_MAX = 4_096
FAILURE_CHARS_MAX = 2_048

# White space as Rust has it.
_SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
# Signs for which both engines agree whether they are letters, and on their other case.
PLAIN = re.compile(
    "[\x00-\x1b\x20-\x7f\x85\xa0-\xb1\xb4-\xb8\xba\xbb\xbf-\u012f\u0132-\u024f\u0391-\u03a1\u03a3-\u03c9"
    "\u0400-\u0481\u048a-\u052f\u2000-\u200a\u2010-\u203e\u2041-\u2053\u2055-\u205e\u20a0-\u20bf\u2190-\u23ff\u2500-\u26ff"
    "\u2701-\u2775\u2794-\u27bf\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
    "\U0001f300-\U0001f5ff\U0001f600-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff]*"
)

_READ_CHARS = 200


def is_plain(text: str | None, chars_max: int) -> bool:
    """Return whether a text is short enough and both engines read it alike."""
    return text is None or (len(text) <= chars_max and bool(PLAIN.fullmatch(text)))


def python_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern for Rust's engine; in plain texts both engines find the same."""
    flags, rest = "", pattern
    if head := re.match(r"\(\?([ims]*(?:-u)?)\)", pattern):
        flags, rest = head[1], pattern[head.end() :]
    steps, in_class = list[str](), False
    for step in re.findall(r"\\.|.", rest, re.DOTALL):
        # Python's "$" also matches before a newline at the end.
        is_end = step == "$" and not in_class and "m" not in flags
        steps.append(r"\Z" if is_end else step)
        in_class = (in_class or step == "[") and step != "]"
    options = re.ASCII if "-u" in flags else re.NOFLAG
    options |= re.IGNORECASE if "i" in flags else re.NOFLAG
    options |= re.MULTILINE if "m" in flags else re.NOFLAG
    return re.compile("".join(steps).replace("(?i-u:", "(?ai:"), options)


# Patterns that every text that a mask changes contains, by the mask's name. Masks begin with a word
# border, so Python's engine tries them at each letter. It finds these patterns fast, because each
# alternative begins with a sign that few texts have.
_NEEDED = {
    "<time>": r"[0-9][0-9](?:[-:][0-9][0-9]|[0-9]{8})",
    "${1}<id>": (
        # Ids of twelve or more letters and digits, with at least six on one side of a digit.
        r"[0-9](?:[A-Za-z0-9]{6}|(?<=[A-Za-z0-9]{7}))",
        r"-[0-9A-Fa-f]{4}-",
        r"_(?:(?<=call_)|(?<=toolu_)|(?<=chatcmpl_)|(?<=msg_)|(?<=req_)|(?<=run_))[A-Za-z0-9]",
        r":[0-9a-f]{12}",
    ),
    "<address>": r"0x",
    "<pid>": r"[pP][iI][dD]",
    "<temporary path>": r"/(?:tmp|var/folders)/",
    "<duration>": r"[0-9][ \t]?[numsNUMSµ]",
}


# The signs of an id, which has at least this many.
_ID_WORDS = re.compile("[0-9A-Za-z_:-]{12,}")


def _mask_of(
    pattern: str, name: str
) -> tuple[re.Pattern[str], str | Callable[[re.Match[str]], str], list[re.Pattern[str]]]:
    """Return a pattern, its replacement, and patterns; a text must match one of these first."""
    needed = _NEEDED[name]
    patterns = list(map(re.compile, [needed] if isinstance(needed, str) else needed))
    mask, name_by_group = python_pattern(pattern), re.sub(r"\$\{(\d+)\}", r"\\g<\1>", name)
    if pattern == _ID:
        return _ID_WORDS, lambda word: mask.sub(name_by_group, word[0]), patterns
    return mask, name_by_group, patterns


_MASKS = [_mask_of(*mask) for mask in MASKS]
_ATTEMPTS, _COUNTERS = map(python_pattern, (ERROR_MASK[0], COUNTER_MASK[0]))
# Each counter has one of these words or signs, which are found faster than its pattern.
_COUNTER_WORDS = (
    "times",
    "\N{MULTIPLICATION SIGN}",
    "call",
    "invocation",
    "left",
    "remaining",
    "used",
)
_COUNTER_SIGNS = re.compile("[0-9](?: ?[xX]\\b|(?:[sS][tT]|[nNrR][dD]|[tT][hH]) )")
_ESCAPES, _NO_WORDS = re.compile(r"\\[nrt]"), re.compile(r"[^\w.]+")


def stripped(text: str) -> str:
    """Strip white space."""
    return text.strip(_SPACES)


def masked_text(text: str, *, error: bool = False) -> str:
    """Do what `masks.masked` does; the caller takes the places out of an error's text."""
    text = compared_text(text, "error" if error else "result")
    for mask, name, needed in _MASKS:
        for pattern in needed:
            if pattern.search(text):
                text = mask.sub(name, text)
                break
    if not error:
        return stripped(text)
    return one_spaced(uncounted(stripped(_ATTEMPTS.sub(ERROR_MASK[1], text))))


def uncounted(text: str) -> str:
    """Replace the counters of the agent's own calls."""
    lower = text.lower()
    if not any(word in lower for word in _COUNTER_WORDS) and not _COUNTER_SIGNS.search(text):
        return text
    return _COUNTERS.sub(COUNTER_MASK[1], text)


def one_spaced(text: str) -> str:
    """Put one space in the place of any white space, as `masks` does by a pattern."""
    for blank in "\t\n\r":
        text = text.replace(blank, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def slug(text: str | None) -> str | None:
    """Return the words at the head of a text, joined with hyphens."""
    if text is None:
        return None
    head = _ESCAPES.sub(" ", text[:_READ_CHARS])
    return _NO_WORDS.sub("-", head).strip("-")


def found(pattern: re.Pattern[str], text: str) -> str | None:
    """Return the first group of the first match."""
    match = pattern.search(text)
    return match[1] if match else None


def joined_all(separator: str, *parts: str | None) -> str | None:
    """Join parts; None if any of them is unknown."""
    return None if None in parts else separator.join(map(str, parts))


def joined_known(separator: str, *parts: str | None) -> str:
    """Join the parts that are known."""
    return separator.join(part for part in parts if part is not None)


_ROUNDS = tuple((re.compile(pattern, re.IGNORECASE), name) for pattern, name, *_ in ROUND_MASKS)
# Of a message no more is read, and one of fewer words may be a person's "Go on." each time.
_ROUND_CHARS, _ROUND_WORDS_MIN = 2_000, 5
_ROUNDS_KEPT = 1_000
_PLAIN_WORD = re.compile(r"[^\W\d_]+")


_BRIEF = re.compile(BRIEF_ANSWER)


def is_brief(answer: str | None) -> bool:
    """Return whether an answer is a sentence or two."""
    return answer is not None and bool(_BRIEF.search(answer))


@lru_cache(_ROUNDS_KEPT)
def round_words(text: str) -> str | None:
    """Return a message without ids and numbers of rounds; None if it has few words."""
    words = masked_text(text[:_ROUND_CHARS]).lower()
    for pattern, name in _ROUNDS:
        words = pattern.sub(name, words)
    return words if len(_PLAIN_WORD.findall(words)) >= _ROUND_WORDS_MIN else None
