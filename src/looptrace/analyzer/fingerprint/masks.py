"""The volatile parts of what comes out of calls, which are masked before texts are compared.

What is masked is told by its form alone, so that a turn reads the same whatever comes after it.
Masked are times, ids, addresses and temporary paths: whatever a program draws anew each time. In
errors, attempts are masked as well, because a client that retries counts them, and places
(`failure_places`) are left out. In results, values are masked whose key says that they are fresh
(`durationMs`, `message_id`), in JSON at any depth and in lines of text.

A result that is nothing but such values is news and stays as it is: the time that a poll tells, or
the commit that is asked for. Digests of results are kept too, because they change with what they
are of.

Numbers otherwise stay, although they may change on every call: pages, percents, rows, failing tests
and steps are the very figures by which work goes on, and a failure at a later step is another one.
For the same reason nothing is learned from a token that changes while all else stays: that is what
paging, polling and the deletion of one thing after the other look like. An id that the call itself
names is no volatile part of its error, because another id is other work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import Results, Sameness, TextMask
from looptrace.analyzer.fingerprint.failure_places import without_places

# Names in code hardly ever have two numbers apart from one another, and random texts mostly do.
_RANDOM = (
    "[A-Za-z]*[0-9]+[A-Za-z]+[0-9][A-Za-z0-9]{9,}|[A-Za-z0-9]{9,}[0-9][A-Za-z]+[0-9]+[A-Za-z]*"
)
# Without Unicode, borders of words are found fast in any text, and patterns are small.
_ID = (
    r"(?-u)(\b|_)(?:(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+[a-f][0-9a-f]{10,}"
    rf"|[a-f]+[0-9][0-9a-f]{{10,}}|{_RANDOM})\b|(?:call|toolu|chatcmpl|msg|req|run)_[A-Za-z0-9]{{8,}}"
    # What the content policy puts in the place of a secret, and of all that it cuts off a text.
    r"|(?:redacted|exact):[0-9a-f]{12}\b)"
)
# In this order; the patterns run in Rust's linear-time engine.
MASKS = (
    (
        r"(?-u)\b(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
        r"|\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
        # Seconds since 1970 from 2017 to 2033, or their thousandths and so on.
        r"|1[5-9]\d{8}(?:\d{3}){0,3}(?:\.\d+)?\b)",
        "<time>",
    ),
    (_ID, "${1}<id>"),
    (r"(?-u)\b0x[0-9a-fA-F]{4,}\b", "<address>"),
    (r"(?i-u)\bpid[ =:]+\d+", "<pid>"),
    (r"(/private)?(/var/folders|/tmp|/var/tmp)/[^\s'\")\]:,]+", "<temporary path>"),
    (
        r"(?i-u)\b\d+([.,]\d+)?[ \t]?(ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?)\b",
        "<duration>",
    ),
)
ERROR_MASK = (
    r"(?i-u)\b(?:(?:attempts?|retry|retries|try|tries) ?(?:#|no\.?|number|count)? ?[:=]? ?\d+"
    r"(?: ?(?:of|/) ?\d+)?|\d+(?:st|nd|rd|th)? (?:attempts?|retry|retries|try|tries))\b",
    "<attempt>",
)

PROMPT_MASKS = ((r"(?-u)[0-9]+(?:[.,:/-][0-9]+)*", "<number>"), (r"\s+", " "))


_HEX = "[0-9a-fA-F]"
# Digests by a word before them, and those that are as long as no id is.
_DIGEST = (
    rf"(?i)\b(?:sha-?(?:1|256|512)|md5|digest|checksum|hash|commit)[^\w\n]{{1,4}}"
    rf"(?:sha-?(?:1|256|512):)?{_HEX}{{12,128}}\b"
    rf"|\b(?:{_HEX}{{40}}|{_HEX}{{64}}|{_HEX}{{128}})\b"
)
_FRESH = "<fresh>"
_KEY_AND_MASK = r"[\w.-]+[\\\"']*\s*[:=]\s*[\\\"']*<[a-z ]+>|<[a-z ]+>"


def masked_results(results: pl.Series, sameness: Sameness) -> pl.Series:
    """Replace the volatile parts of each result, unless it has no other."""
    text = pl.col("text").str.strip_chars()
    for pattern in _fresh_patterns(sameness.results):
        text = text.str.replace_all(pattern, "${1}" + _FRESH + "${2}")
    fresh = results.to_frame("text").with_columns(fresh=text)
    table = fresh.with_columns(
        masked=masked(pl.col("fresh"), sameness.masks),
        digests=pl.col("fresh").str.extract_all(_DIGEST).list.join(" "),
    )
    says_more = pl.col("masked").str.replace_all(_KEY_AND_MASK, "").str.contains(r"\w")
    digests = pl.when(pl.col("digests") != "").then("digests")
    whole = pl.concat_str("masked", digests, separator=" ", ignore_nulls=True)
    compared = pl.when(says_more).then(whole).otherwise(pl.col("text").str.strip_chars())
    return table.select(compared).to_series()


@cache
def _fresh_patterns(results: Results) -> tuple[str, str]:
    """Return patterns of a key that is volatile in results, and of its value.

    The first is of texts in quotes and of what stands after "=". After a colon other values end
    with the line or with a sign, because a word before a colon is no key where a sentence follows.
    """
    keys = "|".join(sorted(_pattern_of(key) for key in results.keys))
    key = rf"(^|[\s\"'{{,(;&?])(?:{keys})\\?[\"']?[ \t]?"
    quoted = r'"(?:[^"\\]|\\[^"]){0,200}"|\\"[^"\\]{0,200}\\"|\'[^\'\n]{0,200}\''
    bare = r"[^\s\"'\\,;&)\]}]{1,200}"
    return (
        rf"(?im){key}(?:[:=][ \t]?(?:{quoted})|=[ \t]?{bare})()",
        rf"(?im){key}:[ \t]?{bare}([ \t]*(?:[,;)}}\]]|$))",
    )


def _pattern_of(key: str) -> str:
    """Return the pattern of a key in any case, with "_", "-" or nothing between its words."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^A-Za-z0-9_-]+", key)
    return "[_-]?".join(re.escape(word.lower()) for word in words) or re.escape(key)


def masked(text: pl.Expr, masks: Sequence[TextMask] = (), *, error: bool = False) -> pl.Expr:
    """Replace the volatile parts of a text: first those that a team declares, then the others.

    The text of an `error` is also left without the places that edits move.
    """
    for mask in masks:
        text = text.str.replace_all(mask.pattern, mask.name.replace("$", "$$"))
    text = without_places(text) if error else text
    for pattern, name in (*MASKS, *((ERROR_MASK,) if error else ())):
        text = text.str.replace_all(pattern, name)
    return text.str.strip_chars()


def prompt_words(text: pl.Expr, masks: Sequence[TextMask] = ()) -> pl.Expr:
    """Return what a message asks for: lower case, without volatile parts, numbers and spacing.

    An orchestrator counts its rounds in the prompt. A text without words is unknown.
    """
    words = masked(text, masks).str.to_lowercase()
    for pattern, name in PROMPT_MASKS:
        words = words.str.replace_all(pattern, name)
    words = words.str.strip_chars()
    return pl.when(words != "").then(words)


def named_ids(texts: pl.Series, arguments: pl.Series) -> pl.Series:
    """Return the ids in each text that its call's arguments name, joined; null where none is."""
    rows = (texts.str.contains(_ID) & arguments.is_not_null()).arg_true()
    pairs = zip(texts.gather(rows).str.extract_all(_ID), arguments.gather(rows), strict=True)
    named = [
        ",".join(i for i in ids if i.strip("_") in argument) or None for ids, argument in pairs
    ]
    return blank(len(texts)).scatter(rows, pl.Series(named, dtype=pl.String))


def blank(count: int) -> pl.Series:
    """Return so many unknown texts."""
    return pl.Series([None], dtype=pl.String).new_from_index(0, count)
