"""Times as text, in UTC, out of nanoseconds since 1970; each function is named by its precision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from looptrace.rules.vocabulary import NS_PER_S

_NS_PER_US = 1_000
_EPOCH = datetime(1970, 1, 1)


def utc_us(at_ns: int) -> str:
    """Write `2026-03-14T02:11:09.000000Z`, as reports do; nanoseconds are cut off."""
    at = _EPOCH + timedelta(microseconds=at_ns // _NS_PER_US)
    return at.isoformat(timespec="microseconds") + "Z"


def utc_ms(at_ns: int) -> str:
    """Write `2026-03-14T02:11:09.000+00:00`, as logs and answers do."""
    return datetime.fromtimestamp(at_ns / NS_PER_S, UTC).isoformat(timespec="milliseconds")


def utc_s(at_ns: int) -> str:
    """Write `2026-03-14 02:11:09`, as tables on a terminal do."""
    return f"{datetime.fromtimestamp(at_ns // NS_PER_S, UTC):%Y-%m-%d %H:%M:%S}"


def utc_day(at_ns: int) -> str:
    """Write `2026-03-14`, as notes of people do."""
    return utc_ms(at_ns)[:10]
