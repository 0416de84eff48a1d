"""Times as text, in UTC, from and to nanoseconds since 1970; writers are named by precision."""

from datetime import UTC, datetime, timedelta

from looptrace.rules.vocabulary import NS_PER_S

_NS_PER_US = 1_000
NS_PER_MINUTE, NS_PER_HOUR = 60 * NS_PER_S, 3_600 * NS_PER_S
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Lines of a stream without times are placed one after the other from 1970 on; no span is from then.
KNOWN_FROM_NS = 31_536_000 * NS_PER_S
NO_TIME = "no time"


def is_known(at_ns: int) -> bool:
    """Return whether this is a time, and not the place of a line without one."""
    return at_ns >= KNOWN_FROM_NS


def known_us(at_ns: int) -> str | None:
    """Return the time as `utc_us` does; None without a time."""
    return utc_us(at_ns) if is_known(at_ns) else None


def utc_us(at_ns: int) -> str:
    """Write `2026-03-14T02:11:09.000000Z`, the form of reports; nanoseconds are cut off."""
    at = EPOCH + timedelta(microseconds=at_ns // _NS_PER_US)
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def utc_ms(at_ns: int) -> str:
    """Write `2026-03-14T02:11:09.000+00:00`, the form of logs and answers."""
    return datetime.fromtimestamp(at_ns / NS_PER_S, UTC).isoformat(timespec="milliseconds")


def utc_s(at_ns: int) -> str:
    """Write `2026-03-14 02:11:09`, the form of tables in a terminal, or that there is no time."""
    if not is_known(at_ns):
        return NO_TIME
    return f"{datetime.fromtimestamp(at_ns // NS_PER_S, UTC):%Y-%m-%d %H:%M:%S}"


def utc_day(at_ns: int) -> str:
    """Write `2026-03-14`, the form of people's notes."""
    return utc_ms(at_ns)[:10]
