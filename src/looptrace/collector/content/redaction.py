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

import polars as pl

from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.payloads import is_redacted

KEY_BYTES = 32
_DIGEST_BYTES = 6
# This character marks both ends of the text to be replaced; in JSON it is always escaped.
_MARK = "\x00"

# A secret follows neither a word nor the backslash of an escape without its letter.
_BEFORE = r"(?P<k>^|\\u[0-9a-fA-F]{4}|\\[nrtbf\"\\/]|%[0-9A-Fa-f]{2}|[^A-Za-z0-9_\\])"
_WORD = r"(?:\\[nrt]|(?-u:\b))"  # The beginning of a word, also after an escape.

# Keys and tokens in the forms of their issuers. They were compared with the public list of gitleaks
# v8.28.0 (July 2025); docs/decisions/0010-redaction.md says how.
_ISSUED = "|".join(
    (
        r"sk-[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse
        r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}",  # Stripe, webhooks
        r"gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
        r"gl(?:pat|dt|rt|ptt|cbt|soat|agent|ft|imt|oas)-[A-Za-z0-9_-]{16,}",  # GitLab
        r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}",  # Slack
        r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}",  # Google
        r"A(?:KIA|SIA|BIA|CCA|GPA|IDA|IPA|NPA|NVA|ROA)[A-Z0-9]{16}",  # AWS
        r"(?:hf|gsk|npm|r8)_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}",
        r"(?:xai|pplx|tvly|nvapi|PMAK)-[A-Za-z0-9_-]{16,}|lsv2_(?:pt|sk)_[A-Za-z0-9_]{20,}",
        r"do[opr]_v1_[a-f0-9]{32,}|dapi[0-9a-f]{32}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
        r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,}|key-[0-9a-f]{32}|SK[0-9a-f]{32}",
        r"sntry[su]_[A-Za-z0-9=_+/-]{20,}|glsa_[A-Za-z0-9_]{20,}|hv[bs]\.[A-Za-z0-9_-]{20,}",
        r"sq0[a-z]{3}-[A-Za-z0-9_-]{20,}|[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}",  # Square, Telegram
        r"AGE-SECRET-KEY-1[A-Z0-9]{20,}",
        r"eyJ[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]*){0,4}",  # JSON Web Tokens
    )
)
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
    r"|connection_?-?string|(?:auth|access|refresh|id|session|bearer|api|security|csrf|xsrf|bot"
    r"|user|personal|deploy|github|gitlab|slack|hf|oauth)_?-?token)"
    r"(?:[_-]?(?:hash|key|value|id|confirm|confirmation|base64|[0-9]))?)"
    rf"|{_WORD}(?i-u:token|set-cookie|cookie|passcode|pin_?code|cvv|cvc))"
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
    rf"(?P<k>{_WORD}(?i-u:bearer|basic) +)(?P<v>{_LOOKS_RANDOM})",
    # Passwords in URLs, and tokens in the place of a user.
    rf"(?P<k>{_URL}[^ /:@\"'\\<>]*:)(?P<v>[^ /\"'\\<>\x00]+)(?P<s>@)",
    rf"(?P<k>{_URL})(?P<v>[A-Za-z0-9_.-]{{20,}})(?P<s>@)",
    rf"(?P<k>[?&](?i-u:key|code|sig|signature|auth|x-amz-[a-z-]+|x-goog-[a-z-]+)=)(?P<v>{_BARE})",
    r"(?P<k>hooks\.slack\.com\\*/services\\*/)(?P<v>[A-Za-z0-9/_-]{16,})",
    # Numbers of payment cards. A number in JSON is left alone; the check digit is looked at later.
    r"(?P<k>[\"'=#(]|[A-Za-z.] )(?P<v>[2456][0-9]{3}(?:[ -]?[0-9]{4}){3}"
    r"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5})(?P<s>[^0-9]|$)",
)
_GROUP = re.compile(r"\(\?P<([kqsv])>")
_NUMBERS = itertools.count()
_SECRET = _GROUP.sub(lambda group: f"(?P<{group[1]}{next(_NUMBERS)}>", "|".join(_FORMS))


def _groups(name: str) -> str:
    """Return a reference to all groups of a name; only those of the matched form have text."""
    return "".join(f"${{{group}}}" for group in re.findall(rf"\(\?P<({name}\d+)>", _SECRET))


_MARKED = f"{_groups('k')}{_groups('q')}{_MARK}{_groups('v')}{_MARK}{_groups('q')}{_groups('s')}"
_CARD = re.compile(r"[0-9][0-9 -]{13,22}")
_DONE = re.compile(r"\[redacted:[0-9a-f]+\]")
_ESCAPES = re.compile(r"\\+[nrt]?")


def redact_texts(texts: pl.Series, key: bytes) -> pl.Series:
    """Replace the secrets in texts (JSON or null) by `[redacted:...]`.

    The digits are a hash of the secret with this key, so that nobody without it can try out
    secrets.
    """
    rows = texts.str.contains(_SECRET).fill_null(value=False).arg_true()
    if rows.is_empty():
        return texts
    pieces = texts.gather(rows).str.replace_all(_SECRET, _MARKED).str.split(_MARK)
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
    if is_redacted(secret) or _DONE.fullmatch(secret) or _is_no_card(secret):
        return secret
    # A secret in deeper JSON has more backslashes.
    bare = _ESCAPES.sub("", secret)
    return f"[redacted:{digest(bare, key=key, size_bytes=_DIGEST_BYTES)}]"


def _is_no_card(number: str) -> bool:
    """Return whether a number fails Luhn's formula, which holds for card numbers."""
    if not _CARD.fullmatch(number):
        return False
    digits = [int(digit) for digit in reversed(number) if digit.isdigit()]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 != 0
