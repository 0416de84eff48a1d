"""Secrets in texts: their form finds them, and a keyed hash replaces them.

The patterns run in Rust's linear-time engine over whole columns. None of them looks far ahead for
something that may be absent, else many matches in one text would take the square of its length.
They are written for JSON, also for JSON as a string within another: no match begins within an
escape, and the replaced text contains neither a quote nor a part of an escape, so that JSON stays
JSON of the same shape.

A secret has the same placeholder everywhere, so that equal texts stay equal, and another secret has
another one, so that different calls stay different. In results the placeholder is volatile, as the
secret itself was (`fingerprint.masks`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import polars as pl

from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.payloads import is_redacted
from looptrace.collector.content.card_numbers import redact_cards
from looptrace.collector.content.secret_forms import COMMANDS, ISSUED, WORD
from looptrace.typed_json import decoded

KEY_BYTES = 32
_DIGEST_BYTES = 6
# This character marks both ends of the text to be replaced; in JSON it is always escaped.
_MARK = "\x00"

# A secret follows neither a word nor the backslash of an escape without its letter.
_BEFORE = r"(?P<k>^|\\u[0-9a-fA-F]{4}|\\[nrtbf\"\\/]|%[0-9A-Fa-f]{2}|[^A-Za-z0-9_\\])"

_ISSUED = "|".join(form.pattern for form in ISSUED)
_TOKEN = "[A-Za-z0-9._~+/=-]"  # noqa: S105 - the characters of a token, and no token.
# A word of prose has no digit; a token without one is known by its length.
_LOOKS_RANDOM = rf"{_TOKEN}{{7,}}[0-9]{_TOKEN}*|{_TOKEN}*[0-9]{_TOKEN}{{7,}}|[A-Za-z]{{32,}}"

_LINE = r"(?:\\+[nrt]|[ \t\r\n])"
_MARK_OF_KEY = r" [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PRIVATE_KEY = (
    # Headers, whole lines, and the last line with the end; some of it may be cut off.
    rf"-----BEGIN{_MARK_OF_KEY}(?:{_LINE}+[A-Z][A-Za-z-]+: [A-Za-z0-9,.() -]+)*"
    rf"(?:{_LINE}*[A-Za-z0-9+/=]{{16,}})*"
    rf"(?:(?:{_LINE}*[A-Za-z0-9+/=]{{1,16}})?{_LINE}*-----END{_MARK_OF_KEY})?"
)

# The names of secrets. `token` alone is one; the counts of a model's tokens are not.
_NAME = (
    r"(?:(?i-u:(?:pass_?-?word|passwd|pass_?-?phrase|pwd|secret|api_?-?key"
    r"|(?:access|private|account|signing|encryption)_?-?key|credentials?|authorization"
    r"|connection_?-?string|card_?-?num(?:ber)?|(?:auth|access|refresh|id|session|bearer|api|security|csrf|xsrf|bot"
    r"|user|personal|deploy|github|gitlab|slack|hf|oauth)_?-?token)"
    r"(?:[_-]?(?:hash|key|value|id|confirm|confirmation|base64|[0-9]))?)"
    rf"|{WORD}(?i-u:token|set-cookie|cookie|passcode|pin_?code|cvv|cvc))"
)
_SCHEME = r"(?i-u:(?:bearer|basic|token|digest) +)?"
# A string in JSON, and in JSON within a string. A deeper one ends at its first quote or escape.
_STRING = r"(?:[^\"\\\x00]|\\[^\x00])+"
_STRING_WITHIN = r"(?:[^\"\\\x00]|\\\\(?:\\[\"\\]|[^\"\\\x00]))+"
_BARE = r"[^ \"'\\,;&<>(){}\[\]|\x00]{3,}"
_URL = r":(?:\\*/){2}"

# v is the secret, k and s are the texts before and after it, and q is a quote to put around the
# placeholder of a number.
_NAMED = "|".join(
    (
        rf'(?P<k>" *: *\[? *")(?P<v>{_STRING})',
        rf'(?P<k>\\" *: *\[? *\\")(?P<v>{_STRING_WITHIN})',
        r"(?P<k>(?P<q>\\*[\"']) *: *)(?P<v>-?[0-9][0-9.eE+-]*)",
        # A quote without a backslash would be the end of the whole string.
        rf"(?P<k>(?:\\*[\"'])? *(?::|=>?|%3D) *(?:\\+\"|\\*'){_SCHEME})(?P<v>[^\"'\\\x00]+)",
        rf"(?P<k> *(?::|=>?|%3D) *{_SCHEME})(?P<v>{_BARE})",
    )
)
_FORMS = (
    rf"{_BEFORE}(?P<v>{_ISSUED})",
    rf"(?P<v>{_PRIVATE_KEY})",
    rf"(?P<k>{_NAME})(?:{_NAMED})",
    rf"(?P<k>--[A-Za-z-]{{0,32}}?{_NAME} +)(?P<v>{_BARE})",
    rf"(?P<k>{WORD}(?i-u:bearer|basic) +)(?P<v>{_LOOKS_RANDOM})",
    # Passwords in URLs, and tokens in the place of a user.
    rf"(?P<k>{_URL}[^ /:@\"'\\<>]*:)(?P<v>[^ /\"'\\<>\x00]+)(?P<s>@)",
    rf"(?P<k>{_URL})(?P<v>[A-Za-z0-9_.-]{{20,}})(?P<s>@)",
    rf"(?P<k>[?&](?i-u:key|code|sig|signature|auth|x-amz-[a-z-]+|x-goog-[a-z-]+)=)(?P<v>{_BARE})",
    r"(?P<k>hooks\.slack\.com\\*/services\\*/)(?P<v>[A-Za-z0-9/_-]{16,})",
)
_GROUP = re.compile(r"\(\?P<([kqsv])>")


class _Pass(NamedTuple):
    """One pass over texts: what it finds, and the found text with marks around the secret."""

    pattern: str
    marked: str

    @classmethod
    def of(cls, forms: Iterable[str]) -> _Pass:
        """Return the pass of forms, each with its own groups."""
        numbers = itertools.count()
        pattern = _GROUP.sub(lambda group: f"(?P<{group[1]}{next(numbers)}>", "|".join(forms))
        # A reference to all groups of a name; only those of the matched form have text.
        k, q, s, v = (
            "".join(f"${{{group}}}" for group in re.findall(rf"\(\?P<({name}\d+)>", pattern))
            for name in "kqsv"
        )
        return cls(pattern, f"{k}{q}{_MARK}{v}{_MARK}{q}{s}")


# What a command keeps before its password may hold another secret, so that it is looked at first.
_PASSES = (_Pass.of(_FORMS), _Pass.of(form.pattern for form in COMMANDS))
_DONE = re.compile(r"\[redacted:[0-9a-f]+\]")
_ESCAPES = re.compile(r"\\+[nrt]?")


def redact_text(text: str, key: bytes) -> str:
    """Return a text that is no JSON without its secrets; half surrogate pairs become `?`."""
    quoted = msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()
    (done,) = redact_texts(pl.Series([quoted]), key)
    return decoded(done, str)


def redact_texts(texts: pl.Series, key: bytes) -> pl.Series:
    """Replace the secrets in texts (JSON or null) by `[redacted:...]`.

    The digits are a hash of the secret with this key, so that nobody without it can try out
    secrets.
    """
    for each in _PASSES:
        texts = _redacted(texts, each, key)
    return redact_cards(texts, lambda number: _instead(number, key))


def _redacted(texts: pl.Series, by: _Pass, key: bytes) -> pl.Series:
    rows = texts.str.contains(by.pattern).fill_null(value=False).arg_true()
    if rows.is_empty():
        return texts
    pieces = texts.gather(rows).str.replace_all(by.pattern, by.marked).str.split(_MARK)
    parts = pl.DataFrame({"row": rows, "part": pieces}).explode("part")
    is_secret = pl.int_range(pl.len()).over("row") % 2 == 1
    parts = parts.with_columns(is_secret=is_secret)
    secrets = parts.filter("is_secret")["part"].unique()
    instead = pl.Series([_instead(secret, key) for secret in secrets], dtype=pl.String)
    known = pl.col("part").replace_strict(secrets, instead, default=None, return_dtype=pl.String)
    joined = (
        parts.with_columns(pl.when("is_secret").then(known).otherwise("part").alias("part"))
        .group_by("row", maintain_order=True)
        .agg(pl.col("part").str.join(""))
    )
    return texts.clone().scatter(joined["row"], joined["part"])


def _instead(secret: str, key: bytes) -> str:
    """Return the placeholder of a secret; a match that is not a secret stays."""
    if is_redacted(secret) or _DONE.fullmatch(secret):
        return secret
    # A secret in deeper JSON has more backslashes.
    bare = _ESCAPES.sub("", secret)
    return f"[redacted:{digest(bare, key=key, size_bytes=_DIGEST_BYTES)}]"
