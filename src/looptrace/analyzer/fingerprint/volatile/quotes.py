"""What the error of a call quotes of the call itself, and what is fresh in it.

An edit that is refused quotes the text that it was to replace, so that eight refused edits of other
texts would be eight failures.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import Results
from looptrace.analyzer.fingerprint.masks import FRESH, blank, fresh_patterns, may_be_fresh
from looptrace.analyzer.fingerprint.tool_kinds import CHANGES, READS, SEARCHES
from looptrace.analyzer.text.payloads import parsed

# What a call writes, says or runs, as its arguments name it; other arguments say where.
_CONTENT_KEY = re.compile(
    r"(?i)(?:(?:old|new|find|search|replace(?:ment)?|insert)_?)?(?:str(?:ing)?|text|contents?|code"
    r"|lines?|block)|old|new|body|message|patch|diff|command|cmd|script|sql|query|statement|input"
    r"|data|values|rows|prompt|html|markdown"
)
_QUOTED = "<argument>"
_QUOTED_CHARS_MIN = 4
_WORD, _VALUE_END = re.compile(r"\w+"), re.compile(r"[^\s\"'\\:=,;&)\]}]+")
# Backslashes in a row, as `re.escape` writes them; one quantifier each would take for ever.
_ESCAPES = re.compile(r"(?:\\\\)+")
# As much of a text that is quoted as far as dots must be quoted at least.
_BEGUN_CHARS_MIN = 20
# Longer arguments are known by their beginning, and more of them than any call has are not tried.
_CONTENT_CHARS_MAX = 2_000
_CONTENTS_MAX = 20
# In longer errors nothing is looked for.
_ERROR_CHARS_MAX = 20_000


def compared_errors(turns: pl.DataFrame, results: Results) -> pl.Series:
    """Return the errors of turns (`name`, `arguments`, `error`) as `compared_error` does."""
    rows = turns["error"].is_not_null().arg_true()
    asked = turns[rows].select("error", "name", "arguments").iter_rows()
    errors = [compared_error(error, tool, given, results) for error, tool, given in asked]
    return blank(turns.height).scatter(rows, pl.Series(errors, dtype=pl.String))


def compared_error(error: str, tool: str | None, arguments: str | None, results: Results) -> str:
    """Return the error of a call without fresh values, and without what it quotes of the call.

    Only text that the call was to write or to run is such a quote. A target and what a look asks
    for count, because another one is other work; so does a value that the arguments name.
    """
    given = arguments or ""

    def fresh(match: re.Match[str]) -> str:
        is_given = _VALUE_END.findall(match[0])[-1] in given
        return match[0] if is_given else f"{match[1]}{FRESH}{match[2]}"

    for pattern in _compiled(results) if may_be_fresh(error, results) else ():
        error = pattern.sub(fresh, error)
    edits = tool is not None and bool(CHANGES.search(tool))
    looks = tool is None or READS.search(tool) or SEARCHES.search(tool)
    value = parsed(given) if given.startswith("{") and (edits or not looks) else None
    is_short = len(error) <= _ERROR_CHARS_MAX
    contents = _contents(value, edits=edits) if is_short and isinstance(value, dict) else []
    for content in sorted(contents, key=len, reverse=True)[:_CONTENTS_MAX]:
        error = _without(error, content)
    return error


@cache
def _compiled(results: Results) -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, fresh_patterns(results, counters=True)))


def _contents(values: dict[str, Any], *, edits: bool) -> list[str]:
    """Return the texts among arguments: of several words, or any that an edit is given."""
    texts: list[str] = []
    left = [item for key, item in values.items() if _CONTENT_KEY.fullmatch(key)]
    while left:
        item = left.pop()
        if isinstance(item, (list, dict)):
            left += item if isinstance(item, list) else item.values()
        elif isinstance(item, str):
            lines = re.split(r"\n[-+ ]?", item) if edits else []
            texts += [item, *(line for line in lines if " " in line.strip())]
    return [
        text.strip()[:_CONTENT_CHARS_MAX]
        for text in texts
        if len(text.strip()) >= _QUOTED_CHARS_MIN and (edits or re.search(r"\s", text.strip()))
    ]


def _without(error: str, content: str) -> str:
    """Return an error without a text, whatever its white space and however it is escaped."""
    begins = content[:_BEGUN_CHARS_MIN]
    if max(_WORD.findall(begins) or [begins], key=len) not in error:
        return error
    error = re.sub(rf"(?<!\w){_spaced(content)}(?!\w)", _QUOTED, error)
    if len(content) <= _BEGUN_CHARS_MIN:
        return error
    rest = rf"[\s\S]{{0,{len(content)}}}?(?:\.\.\.|…)"
    return re.sub(rf"(?<!\w){_spaced(begins)}{rest}", _QUOTED, error)


def _spaced(text: str) -> str:
    """Return the pattern of a text with any white space and escapes."""
    escaped = map(re.escape, text.split())
    words = (_ESCAPES.sub(r"\\\\+", word).replace('"', r"\\*\"") for word in escaped)
    return r"(?:\s|\\[nrt])+".join(words)
