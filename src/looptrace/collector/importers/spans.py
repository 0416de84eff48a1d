"""Rows of the span table from exports of tracing systems: ids, times, values, attributes."""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.otlp.span_rows import (
    ERROR,
    LINE_NS_MAX,
    OK,
    UNSET,
    BadSpanError,
    span_row,
    time_ns_of,
)

TRACE_DIGITS, SPAN_DIGITS = 32, 16
NS_PER_US, NS_PER_MS, NS_PER_S = 1_000, 1_000_000, 1_000_000_000

# Attributes of pydantic-ai, which have no dots.
_PLAIN_NAMES = frozenset({"tool_arguments", "tool_response", "agent_name"})

_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]+)")
_encode = msgspec.json.Encoder(enc_hook=str).encode
# The size of a number since 1970 shows its unit, from seconds to nanoseconds: a second of 2001 has
# nine digits more as nanoseconds.
_UNITS = ((1e17, 1), (1e14, NS_PER_US), (1e11, NS_PER_MS), (0, NS_PER_S))


def trace_id(text: object) -> str:
    """Return a trace's id in hex, from a UUID, base64 or any other text."""
    return _hex_id(text, TRACE_DIGITS)


def span_id(text: object) -> str:
    """Return a span's id in hex, as `trace_id`; empty for none."""
    return _hex_id(text, SPAN_DIGITS)


def _hex_id(text: object, digits: int) -> str:
    if text is None or text == "":
        return ""
    plain = str(text).replace("-", "")
    if (hexadecimal := _HEX.fullmatch(plain)) and len(hexadecimal[1]) <= digits:
        return hexadecimal[1].lower().rjust(digits, "0")
    if plain.endswith("="):
        try:
            data = b64decode(str(text), validate=True)
        except (Base64Error, ValueError):
            data = b""
        if len(data) * 2 == digits:
            return data.hex()
    return digest(str(text), size_bytes=digits // 2)


def time_ns(value: object) -> int:
    """Return a time since 1970 in nanoseconds, from an ISO 8601 text or a number of any unit.

    0 for none, or before 1970. Raises BadSpanError for any other value, or from 2262 on.
    """
    if value is None or value == "":
        return 0
    if isinstance(value, datetime):
        value = str(value)
    at_ns = time_ns_of(value)
    if at_ns is None:
        at_ns = _number_ns(value)
    if at_ns is None or at_ns > LINE_NS_MAX:
        raise BadSpanError(f"expected a time before 2262, found {value!r:.60}")
    return at_ns


def _number_ns(value: object) -> int | None:
    """Return the nanoseconds of a number of any unit; None for what is none."""
    try:
        number = Decimal(str(value))
    except (InvalidOperation, ValueError):
        return None
    if not number.is_finite() or number > LINE_NS_MAX:
        return None
    number = max(Decimal(0), number)
    return round(number * next(factor for least, factor in _UNITS if number >= least))


def mapping(value: object) -> dict[str, Any]:
    """Return a mapping, also from JSON in a string; empty for anything else."""
    value = parsed(value)
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list, which may be JSON in a text; none for anything else."""
    value = parsed(value)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text_of(value: object) -> str | None:
    """Return a value as an attribute's text: JSON, unless it is text; None for none."""
    if value is None or isinstance(value, str):
        return value
    return _encode(value).decode()


def flat_attributes(
    held: Mapping[str, Any], whole: Collection[str] = (), prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield attributes that were nested by their dots, with dots for objects, numbers for lists.

    The objects named `whole` are texts.
    """
    for name, value in held.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            if key in whole:
                yield key, text_of(value)
            else:
                yield from flat_attributes(value, whole, f"{key}.")
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            numbered = {str(index): item for index, item in enumerate(value)}
            yield from flat_attributes(numbered, whole, f"{key}.")
        elif value is not None:
            yield key, value


def original_attributes(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span that a tracing system keeps beside its own fields.

    They have dots in their names, as conventions have; an object or a list is JSON.
    """
    known = {name: held[name] for name in held if "." in name or name in _PLAIN_NAMES}
    return plain_attributes(known)


def plain_attributes(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span, with JSON for an object or a list."""
    return {
        name: text_of(value) if isinstance(value, dict | list) else value
        for name, value in held.items()
    }


def foreign_row(
    *,
    trace: object,
    span: object,
    parent: object,
    name: object,
    start_ns: int,
    end_ns: int,
    attributes: Mapping[str, Any],
    failed: bool | None = None,
    error: object = None,
    service: object = None,
    scope: object = None,
    events: Iterable[tuple[str, int, dict[str, Any]]] = (),
    links: Iterable[tuple[str, str]] = (),
) -> SpanRow:
    """Return the row of a span whose ids may have any form; attributes that are None are left out.

    Its end is 0 if it has not ended, and then it is marked as open.

    Raises:
        BadSpanError: if it has no trace, no id, or bad times.
    """
    return span_row(
        trace_id=trace_id(trace),
        span_id=span_id(span),
        parent_span_id=span_id(parent),
        name="" if name is None else str(name),
        start_ns=start_ns,
        end_ns=end_ns,
        status=UNSET if failed is None else ERROR if failed else OK,
        status_message="" if error is None else text_of(error) or "",
        service=None if service is None else str(service),
        scope=None if scope is None else str(scope),
        attributes={
            **{key: value for key, value in attributes.items() if value is not None},
            **({} if end_ns else {semconv.OPEN: True}),
        },
        events=events,
        links=links,
    )


def session_attributes(session: object) -> dict[str, Any]:
    """Return the attribute of a session, which is None where there is none."""
    return {semconv.SESSION_ID: None if session in (None, "") else str(session)}
