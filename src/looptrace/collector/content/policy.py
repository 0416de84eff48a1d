"""The policy for the content of spans: all of it, all but secrets, or only keyed hashes.

A policy is applied to spans before anything is written. `full` changes nothing. `redacted` replaces
secrets (`redaction`) and cuts long texts (`cut_texts`). `hashes` keeps what `hashing` lists.

The key of the hashes is in the store, for its owner alone: without it nobody can read a text from a
hash, or try out guesses.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec
import polars as pl

from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.content.cut_texts import cut_texts
from looptrace.collector.content.hashing import hash_content
from looptrace.collector.content.redaction import redact_texts

Content = Literal["full", "redacted", "hashes"]
CONTENTS: tuple[Content, ...] = get_args(Content)

# Longer texts are cut, and so is a value that is still longer after all texts in it were cut.
TEXT_BYTES_MAX = 2_048
VALUE_CHARS_MAX = 262_144

_JSON = ("attributes", "events", "links")
_PLAIN = ("name", "status_message", "service", "scope", "parent_span_id")
_LONG = ("attributes", "events", "status_message")
_JSON_DEPTH_MAX = 4
_ESCAPED = r'["\\\x00-\x1f]'  # what a string in JSON has an escape for


def with_content(
    spans: pl.DataFrame, content: Content, key: bytes, dialects: DialectTable = SHIPPED
) -> pl.DataFrame:
    """Return spans (`SPAN_SCHEMA`) with the content that the policy allows.

    Equal spans stay equal, and so do texts that compare as equal.
    """
    if content == "full" or spans.is_empty():
        return spans
    spans = _redacted(spans, key)
    return hash_content(spans, key, dialects) if content == "hashes" else _cut(spans, key)


def _redacted(spans: pl.DataFrame, key: bytes) -> pl.DataFrame:
    """Redact all columns in one pass; plain texts as JSON strings, which the patterns expect."""
    columns = [*(spans[name] for name in _JSON), *(_quoted(spans[name]) for name in _PLAIN)]
    given = pl.concat(columns)
    done = redact_texts(given, key)
    if done is given:
        return spans
    parts = [done.slice(i * spans.height, spans.height) for i in range(len(columns))]
    plain = [_unquoted(part) for part in parts[len(_JSON) :]]
    names = (*_JSON, *_PLAIN)
    return spans.with_columns(
        part.alias(name) for name, part in zip(names, [*parts[: len(_JSON)], *plain], strict=True)
    )


def _quoted(texts: pl.Series) -> pl.Series:
    quoted = pl.select(pl.concat_str(pl.lit('"'), texts, pl.lit('"'))).to_series()
    escaped = texts.str.contains(_ESCAPED).fill_null(value=False).arg_true()
    return quoted.scatter(escaped, [msgspec.json.encode(t).decode() for t in texts.gather(escaped)])


def _unquoted(texts: pl.Series) -> pl.Series:
    bare = texts.str.strip_prefix('"').str.strip_suffix('"')
    escaped = texts.str.contains("\\", literal=True).fill_null(value=False).arg_true()
    return bare.scatter(escaped, [msgspec.json.decode(text) for text in texts.gather(escaped)])


def _cut(spans: pl.DataFrame, key: bytes) -> pl.DataFrame:
    """Cut the long texts of spans, in any nesting of JSON.

    What rules need to know about the whole stays in a mark (`cut_texts`), so that they find the
    same.
    """
    places = {name: (spans[name].str.len_bytes() > TEXT_BYTES_MAX).arg_true() for name in _LONG}
    long = {name: rows for name, rows in places.items() if rows.len()}
    if not long:
        return spans
    given = {name: [_read(name, text) for text in spans[name].gather(long[name])] for name in long}
    # Most values are long because of many short texts: these are done when none of their texts is
    # cut.
    done = {name: list(map(_tried, values)) for name, values in given.items()}
    long_texts = {text for values in done.values() for _, found in values for text in found}
    cut = cut_texts(long_texts, key)

    def shortened(text: str) -> str:
        return cut.get(text) or cut_texts([text], key)[text]

    for name, values in done.items():
        texts = [
            _written(name, _shortened(whole, shortened) if found else tried)
            for whole, (tried, found) in zip(given[name], values, strict=True)
        ]
        spans = spans.with_columns(spans[name].clone().scatter(long[name], texts))
    return spans


def _tried(value: Any) -> tuple[Any, list[str]]:
    """Return a value with its long texts emptied, and these texts."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return ""

    return _shortened(value, note), found


def _read(column: str, text: str) -> Any:
    return text if column == "status_message" else msgspec.json.decode(text)


def _written(column: str, value: Any) -> str:
    return str(value) if column == "status_message" else msgspec.json.encode(value).decode()


def _shortened(value: Any, cut: Callable[[str], str], depth: int = 0) -> Any:
    """Return a value with each of its long texts cut, also in JSON within a text."""
    if isinstance(value, str):
        if _bytes_of(value) <= TEXT_BYTES_MAX:
            return value
        return _shortened_json(value, cut, depth) or cut(value)
    if isinstance(value, dict):
        return {name: _shortened(item, cut, depth) for name, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item, cut, depth) for item in value]
    return value


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _shortened_json(value: str, cut: Callable[[str], str], depth: int) -> str | None:
    """Shorten a text that is JSON; None where it is not, nested too deep, or still too long."""
    within = parsed(value) if depth < _JSON_DEPTH_MAX else value
    if not isinstance(within, dict | list):
        return None
    try:
        text = msgspec.json.encode(_shortened(within, cut, depth + 1)).decode()
    except RecursionError:
        return None
    return text if len(text) <= VALUE_CHARS_MAX else None
