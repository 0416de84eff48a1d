"""The volatile parts of results and errors, which are masked before texts are compared.

A part is masked by its form alone, so that a turn reads the same whatever comes after it. Times,
ids, addresses and temporary paths are masked, because a program makes new ones each time. So are
counters of the agent's own calls ("read 3 times"), unless a tool is asked for figures. White space
does not count. In errors, attempt numbers are masked as well, because a client that retries counts
them, and places (`failure_places`) are left out. In results, a value is masked if its key says that
it is fresh (`durationMs`, `message_id`), in JSON at any depth and in lines of text. What is new
because of the call itself (`volatile`) is left out before.

A result of nothing but such values is news and stays as it is: the time that a poll returns, or the
commit that a call looked up. Digests in results are kept too, because a digest changes with its
content.

Other numbers stay, although they may change on every call. Pages, percents, rows, failing tests and
steps are the figures that show that work goes on, and a failure at a later step is another failure.
For the same reason nothing is learned from a token that changes while all else stays: paging,
polling and the deletion of one thing after the other look like that. An id that the call itself
names is not a volatile part of its error, because another id is other work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import Results, Sameness, TextMask
from looptrace.analyzer.fingerprint.failure_places import without_places
from looptrace.analyzer.fingerprint.waiting import Form
from looptrace.analyzer.text.cut_texts import compared

# Names in code hardly ever have two separate numbers, and random texts mostly do.
_RANDOM = (
    "[A-Za-z]*[0-9]+[A-Za-z]+[0-9][A-Za-z0-9]{9,}|[A-Za-z0-9]{9,}[0-9][A-Za-z]+[0-9]+[A-Za-z]*"
)
# Without Unicode, word borders are found fast in any text, and patterns are small.
_ID = (
    r"(?-u)(\b|_)(?:(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+[a-f][0-9a-f]{10,}"
    rf"|[a-f]+[0-9][0-9a-f]{{10,}}|{_RANDOM})\b|(?:call|toolu|chatcmpl|msg|req|run)_[A-Za-z0-9]{{8,}}"
    # The content policy puts these in the place of a secret, and of text that is compared exactly.
    r"|(?:redacted|exact):[0-9a-f]{12}\b)"
)
# In this order; the patterns run in Rust's linear-time engine.
MASKS = (
    (
        r"(?-u)\b(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
        r"|\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
        # Seconds since 1970 from 2017 to 2033; also in milliseconds, microseconds, nanoseconds.
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
_OF = r"(?: ?(?:of|/|out of) ?\d+)?"
_CALLS = r"(?:(?:tool|function|api)[ _-]?)?(?:calls?|requests?|tries|attempts?|retries|tokens?)"
_TIMES = "\\d+ ?(?:\N{MULTIPLICATION SIGN}|x\\b|times\\b)"
# How often the agent called, as tools tell that want to be left. An attempt in a result is none of
# these: what goes on counts its attempts, too.
COUNTERS = (
    Form(
        "how often something was read or asked",
        r"\b(?:read|viewed|seen|shown|opened|fetched|requested|asked|tried|visited|accessed|queried"
        rf"|invoked)\b(?:[ :,]+[a-z'./_-][a-z0-9'./_-]{{0,80}}){{0,5}}[ :,]+{_TIMES}",
        (
            "read 3\N{MULTIPLICATION SIGN} this session",
            "You have read src/a.py already 4 times",
            "seen 2x",
        ),
        ("replaced 3 times", "read 3 lines"),
    ),
    Form(
        "how often the same call was made",
        rf"\b(?:this|the|same|exact|identical) (?:tool )?(?:call|request|query|command|search)"
        rf" (?:[a-z]+ ){{0,2}}(?:made|run|sent|repeated|tried) (?:[a-z]+ ){{0,2}}{_TIMES}",
        ("This exact call was made 3 times before",),
        ("the search found 3 times",),
    ),
    Form(
        "the ordinal of a call",
        r"\b\d+(?:st|nd|rd|th) (?:time|call|view|look|visit|repeat|repetition)\b",
        ("for the 3rd time",),
        ("the 3rd row",),
    ),
    Form(
        "the number of a call",
        rf"\b(?:(?:tool|function|api)[ _-]calls?|invocation) ?(?:#|no\.?|number|count)? ?[:=]? ?"
        rf"\d+{_OF}\b|\bcalls? ?#\d+{_OF}|\bcalls? \d+ ?(?:of|/) ?\d+",
        ("tool call 3 of 50", "[call #4]", "call 2/9"),
        ("page 3 of 50", "12 of 40 done", "attempt 2 of 5"),
    ),
    Form(
        "how many calls are left",
        rf"\b\d+ (?:more )?{_CALLS} (?:are |is )?(?:left|remaining|used)\b"
        rf"|\b{_CALLS} (?:left|remaining|used)[: =]+[\d,.]+(?: ?/ ?[\d,.]+)?",
        ("47 tool calls left", "Calls used: 3/50"),
        ("47 seats left",),
    ),
)
COUNTER_MASK = ("(?i-u)" + "|".join(f"(?:{form.pattern})" for form in COUNTERS), "<count>")
ERROR_MASK = (
    r"(?i-u)\b(?:(?:attempts?|retry|retries|try|tries) ?(?:#|no\.?|number|count)? ?[:=]? ?\d+"
    r"(?: ?(?:of|/) ?\d+)?|\d+(?:st|nd|rd|th)? (?:attempts?|retry|retries|try|tries))\b",
    "<attempt>",
)
# Keys of such counters in results.
_COUNTER_KEYS = (
    r"(?:read|view|access|call|visit|invocation|lookup)s?[_-]?(?:count|counter|number)",
    r"remaining[_-]?(?:calls|requests|attempts|tokens)",
    r"(?:calls|requests|attempts|tokens)[_-]?(?:left|remaining|made|used)",
    r"[a-z]{1,20}[_-]?tokens",
)

_SPACES = r"(?-u)[ \t\n\r]{2,}|[\t\n\r]"

PROMPT_MASKS = (
    (r"(?-u)\b[a-z0-9-]{0,20}[0-9][a-z]{1,20}[0-9][a-z0-9-]*\b", "<number>"),  # an id
    (r"(?-u)[0-9]+(?:[.,:/-][0-9]+)*", "<number>"),
    (r"\s+", " "),
)

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
)  # A sentence or two, which only say that the agent has heard: no code and no call in words.
BRIEF_ANSWER = r"^[^`{}\[\]<>|$=]{1,240}[.!?\u2026\u3002\uff01\uff1f][\"')]?\s*$"

_HEX = "[0-9a-fA-F]"
# Digests after a word that names them, and digests that are longer than any id.
_DIGEST = (
    rf"(?i)\b(?:sha-?(?:1|256|512)|md5|digest|checksum|hash|commit)[^\w\n]{{1,4}}"
    rf"(?:sha-?(?:1|256|512):)?{_HEX}{{12,128}}\b"
    rf"|\b(?:{_HEX}{{40}}|{_HEX}{{64}}|{_HEX}{{128}})\b"
)
FRESH = "<fresh>"
_KEY_AND_MASK = r"[\w.-]+[\\\"']*\s*[:=]\s*[\\\"']*<[a-z ]+>|<[a-z ]+>"


def masked_results(results: pl.Series, sameness: Sameness, *, counters: bool = True) -> pl.Series:
    """Replace the volatile parts of each result, unless it has no other parts.

    With `counters`, how often the agent called is such a part.
    """
    text = pl.col("text").str.strip_chars()
    for pattern in fresh_patterns(sameness.results, counters=counters):
        text = text.str.replace_all(pattern, "${1}" + FRESH + "${2}")
    fresh = results.to_frame("text").with_columns(fresh=text)
    whole = masked(pl.col("fresh"), sameness.masks)
    table = fresh.with_columns(
        masked=_one_spaced(_uncounted(whole) if counters else whole),
        digests=pl.col("fresh").str.extract_all(_DIGEST).list.join(" "),
    )
    # Most results have no mask, and the pattern of a key is slow.
    has_mask = pl.col("masked").str.contains("<", literal=True)
    rest = pl.when(has_mask).then("masked").str.replace_all(_KEY_AND_MASK, "")
    says_more = pl.coalesce(rest, "masked").str.contains(r"\w")
    digests = pl.when(pl.col("digests") != "").then("digests")
    both = pl.concat_str("masked", digests, separator=" ", ignore_nulls=True)
    compared = pl.when(says_more).then(both).otherwise(pl.col("text").str.strip_chars())
    return table.select(compared).to_series()


@cache
def fresh_patterns(results: Results, *, counters: bool) -> tuple[str, str]:
    """Return two patterns of a key that is volatile in results, with its value.

    The first is for texts in quotes and for values after "=". The second is for other values after
    a colon; they end with the line or with a sign. If a sentence follows, the word before the colon
    is not a key.
    """
    forms = [
        form
        for form in (_COUNTER_KEYS if counters else ())
        if not any(re.fullmatch(form, key, re.IGNORECASE) for key in results.telling_keys)
    ]
    keys = "|".join((*forms, *sorted(_pattern_of(key) for key in results.keys)))
    key = rf"(^|[\s\"'{{,(;&?])(?:{keys})\\?[\"']?[ \t]?"
    quoted = r'"(?:[^"\\]|\\[^"]){0,200}"|\\"[^"\\]{0,200}\\"|\'[^\'\n]{0,200}\''
    bare = r"[^\s\"'\\,;&)\]}]{1,200}"
    return (
        rf"(?im){key}(?:[:=][ \t]?(?:{quoted})|=[ \t]?{bare})()",
        rf"(?im){key}:[ \t]?{bare}([ \t]*(?:[,;)}}\]]|$))",
    )


# Signs before a key or after it become spaces, "=" becomes ":", and "_" and "-" are removed.
_KEYS = str.maketrans("\t\n\x0b\x0c\r\"'{,(;&?\\=", "              :", "_-")
_COUNTER_WORDS = re.compile(f" (?:{'|'.join(_COUNTER_KEYS).replace('[_-]?', '')}) ")


def may_be_fresh(text: str, results: Results) -> bool:
    """Return whether a volatile key may stand before "=" or ":" in a text.

    Python's engine tries the patterns of keys at each sign, which takes ten times as long.
    """
    words = _fresh_words(results)
    parts = text.lower().translate(_KEYS).split(":")
    lasts = {_last_word(part) for part in parts[:-1]}
    if "" in words or not words.isdisjoint(lasts):
        return True
    return _COUNTER_WORDS.search(f" {'  '.join(lasts)} ") is not None


@cache
def _fresh_words(results: Results) -> frozenset[str]:
    """Return the last word of each key that is volatile in results; "" for a key without words."""
    return frozenset(
        _last_word(key.lower().translate(_KEYS).split(":")[-1]) for key in results.keys
    )


def _last_word(text: str) -> str:
    return (text.rsplit(None, 1) or [""])[-1]


def _pattern_of(key: str) -> str:
    """Return the pattern of a key in any letter case, with "_", "-" or nothing between words."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^A-Za-z0-9_-]+", key)
    return "[_-]?".join(re.escape(word.lower()) for word in words) or re.escape(key)


def masked(text: pl.Expr, masks: Sequence[TextMask] = (), *, error: bool = False) -> pl.Expr:
    """Replace the volatile parts of a text: first those that a team declares, then the others.

    Counters, and the places that edits move, are also taken out of the text of an `error`.
    """
    text = compared(text, "error" if error else "result")
    for mask in masks:
        text = text.str.replace_all(mask.pattern, mask.name.replace("$", "$$"))
    text = without_places(text) if error else text
    for pattern, name in (*MASKS, *((ERROR_MASK,) if error else ())):
        text = text.str.replace_all(pattern, name)
    text = text.str.strip_chars()
    return _one_spaced(_uncounted(text)) if error else text


def _uncounted(text: pl.Expr) -> pl.Expr:
    """Replace the counters of the agent's own calls."""
    return text.str.replace_all(*COUNTER_MASK)


def _one_spaced(text: pl.Expr) -> pl.Expr:
    """Return a text with one space for any white space: widths of columns follow their values."""
    return text.str.replace_all(_SPACES, " ")


def prompt_words(text: pl.Expr, masks: Sequence[TextMask] = ()) -> pl.Expr:
    """Return the words of a message: lower case, without volatile parts, numbers and spacing.

    Numbers do not count because an orchestrator counts its rounds in the prompt. A text without
    words is unknown.
    """
    words = masked(compared(text, "prompt"), masks).str.to_lowercase()
    for pattern, name in PROMPT_MASKS:
        words = words.str.replace_all(pattern, name)
    words = words.str.strip_chars()
    return pl.when(words != "").then(words)


def masked_texts(texts: pl.Series, sameness: Sameness, *, error: bool = False) -> pl.Series:
    """Return texts as `masked` does."""
    text = masked(pl.col(texts.name), sameness.masks, error=error)
    return texts.to_frame().select(text).to_series()


def prompt_texts(texts: pl.Series, sameness: Sameness) -> pl.Series:
    """Return the words of messages as `prompt_words` does."""
    return texts.to_frame().select(prompt_words(pl.col(texts.name), sameness.masks)).to_series()


def named_ids(texts: pl.Series, arguments: pl.Series) -> pl.Series:
    """Return the ids in each text that its call's arguments name, joined; null without any."""
    rows = (texts.str.contains(_ID) & arguments.is_not_null()).arg_true()
    pairs = zip(texts.gather(rows).str.extract_all(_ID), arguments.gather(rows), strict=True)
    named = [
        ",".join(i for i in ids if i.strip("_") in argument) or None for ids, argument in pairs
    ]
    return blank(len(texts)).scatter(rows, pl.Series(named, dtype=pl.String))


def blank(count: int) -> pl.Series:
    """Return `count` unknown texts."""
    return pl.Series([None], dtype=pl.String).new_from_index(0, count)


def map_where(
    turns: pl.DataFrame,
    condition: pl.Expr,
    column: str,
    function: Callable[[pl.Series], pl.Series],
) -> pl.Series:
    """Apply a function to the texts of some turns; the others get null.

    A pattern that looks for nothing in a null still takes time, and most turns are of other kinds.
    """
    rows = turns.select(condition).to_series().arg_true()
    texts = blank(turns.height)
    return texts if rows.is_empty() else texts.scatter(rows, function(turns[column].gather(rows)))


def map_distinct(texts: pl.Series, function: Callable[[str], str | None]) -> pl.Series:
    """Apply a function to each distinct text; null stays null."""
    distinct = texts.drop_nulls().unique()
    values = pl.Series([function(text) for text in distinct], dtype=pl.String)
    return texts.replace_strict(distinct, values, default=None, return_dtype=pl.String)
