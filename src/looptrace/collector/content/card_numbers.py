"""Numbers of payment cards in JSON texts, by their form and their check digit.

A number of JSON stays as it is, however deep its JSON is in the texts of another: there it is an id
more often than a card, and a placeholder would end the JSON. So texts that may have a card are read
string by string, which few are.
"""

import json  # msgspec refuses half surrogate pairs, which a text within a text may have
import re
from collections.abc import Callable

import polars as pl

from looptrace.analyzer.text.payloads import parsed

# Four groups of four digits (Visa, Mastercard, Discover, UnionPay, JCB), or American Express and
# Diners with their own groups; between groups a space, a hyphen or nothing.
_NUMBER = (
    r"(?:(?:[456][0-9]|2[2-7]|35)[0-9]{2}(?:[ -]?[0-9]{4}){3}"
    r"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}"
    r"|3(?:0[0-5]|[689][0-9])[0-9][ -]?[0-9]{6}[ -]?[0-9]{4})"
)
# A part of a longer token, of a decimal number or of a longer row of groups is no card.
_CARD = re.compile(
    r"(?:(?<=%[0-9A-Fa-f]{2})|(?<![A-Za-z0-9_])(?<![0-9]\.)(?<![0-9]-)(?<!(?<![0-9])[0-9]{4} ))"
    rf"{_NUMBER}(?![A-Za-z0-9_]|\.[0-9]|-[0-9]| [0-9]{{4}}(?![0-9]))"
)
# The same in JSON, for Rust's engine: an escape may stand before the number.
_MAY_HAVE_CARD = (
    r"(?:^|\\[nrtbf]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|[^A-Za-z0-9_])"
    rf"{_NUMBER}(?:[^A-Za-z0-9_]|$)"
)
_DIGITS = re.compile(_NUMBER)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def redact_cards(texts: pl.Series, instead: Callable[[str], str]) -> pl.Series:
    """Return texts (JSON or null) with each card number replaced by what stands for it."""
    rows = texts.str.contains(_MAY_HAVE_CARD).fill_null(value=False).arg_true()
    if rows.is_empty():
        return texts
    given = texts.gather(rows)
    done = [_in_json(text, instead) for text in given]
    return texts if done == given.to_list() else texts.clone().scatter(rows, done)


def _in_json(text: str, instead: Callable[[str], str]) -> str:
    """Redact the strings of a JSON text; all else of it stays as it is written."""

    def redacted(match: re.Match[str]) -> str:
        written = match[0]
        if not _DIGITS.search(written):
            return written
        string = json.loads(written)
        within = isinstance(parsed(string), dict | list)
        done = _in_json(string, instead) if within else _in_text(string, instead)
        return written if done == string else json.dumps(done)

    return _STRING.sub(redacted, text)


def _in_text(text: str, instead: Callable[[str], str]) -> str:
    return _CARD.sub(lambda m: instead(m[0]) if _has_check_digit(m[0]) else m[0], text)


def _has_check_digit(number: str) -> bool:
    """Return whether a number satisfies Luhn's formula, as card numbers do."""
    digits = [int(digit) for digit in reversed(number) if digit.isdigit()]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
