"""Messages that a hook, a goal or a wrapper writes for each round."""

from __future__ import annotations

import re
from functools import lru_cache

from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.fingerprint.fingerprints import policy_of
from looptrace.analyzer.schema.message import Message

# What differs between two messages that a hook, a goal or a wrapper writes for each round: which
# round it is, and an id. Other numbers stay, because another page is another request.
ROUND_MASKS = (
    (
        r"\b(?:attempts?|retry|retries|try|tries|rounds?|iterations?|turns?|reminders?|cycles?|pass"
        r"|loops?|steps?|checks?|continuations?) ?(?:#|no\.?|number|count)? ?[:=]? ?\d+"
        r"(?: ?(?:of|/) ?\d+)?",
        "<round>",
        ("attempt 3", "Iteration 2/10", "retry #4", "turns: 7"),
        ("page 3", "ticket 17"),
    ),
    (
        r"\b\d+(?:st|nd|rd|th)? (?:more )?(?:attempts?|retry|retries|try|tries|rounds?|iterations?"
        r"|turns?|reminders?|times?|left|remaining|so far)\b|[(\[]\d+ ?(?:of|/) ?\d+[)\]]",
        "<round>",
        ("the 3rd time", "7 turns left", "(2/5)", "4 attempts"),
        ("3 files", "17 tickets"),
    ),
    (
        r"\b[\w-]*(?:id|nonce|token|ref|hash|seq|uuid|session)[\"']?\s?[:=]\s?[\"']?[\w:.-]+",
        "<id>",
        ("id=8f3a2c", 'goal_id: "g-17"', "seq=4"),
        ("idea", "page: 3"),
    ),
    (
        r"^[\[<(#][^\])>\n]{0,60}\d[^\])>\n]{0,60}[\])>]?",
        "<tag>",
        ("[goal 8f3a] Go on.", "<hook run='17'>", "#41"),
        ("[hook] Go on.", "page 3"),
    ),
    (
        r"\b(?=[a-z-]*\d[\da-z-]*[a-z])(?=[\d-]*[a-z])[a-z\d][a-z\d-]{5,}\b",
        "<id>",
        ("8f3a2c1b", "g-8f3a2c"),
        ("python3", "page 17"),
    ),
)
_ROUNDS = tuple((re.compile(pattern, re.IGNORECASE), name) for pattern, name, *_ in ROUND_MASKS)
# Of a message no more is read, and one of fewer words may be a person's "Go on." each time.
_ROUND_CHARS, _ROUND_WORDS_MIN = 2_000, 5
_ROUNDS_KEPT = 1_000
_PLAIN_WORD = re.compile(r"[^\W\d_]+")


@lru_cache(_ROUNDS_KEPT)
def round_words(text: str) -> str | None:
    """Return a message without ids and numbers of rounds; None if it has few words."""
    words = policy_of(NOTHING).masked(text[:_ROUND_CHARS]).lower()
    for pattern, name in _ROUNDS:
        words = pattern.sub(name, words)
    return words if len(_PLAIN_WORD.findall(words)) >= _ROUND_WORDS_MIN else None


def comes_again(given: tuple[Message, ...]) -> str | None:
    """Return the words of the last message if it follows an answer, and came before; else None.

    A hook, a goal or a wrapper puts it into each round; ids and numbers of rounds do not count.
    """
    if len(given) <= 2 or given[-1].role != "user" or given[-1].results or not given[-1].text:
        return None
    before = given[-2]
    if before.role != "assistant" or before.calls or not before.text:
        return None
    words = round_words(given[-1].text)
    earlier = (m.text for m in given[:-2] if m.role == "user" and m.text and not m.results)
    return words if words and any(round_words(text) == words for text in earlier) else None
