"""Times as text: their form, and what is kept of their precision."""

from datetime import UTC, datetime, timedelta

import pytest

from looptrace.analyzer.text.times import utc_day, utc_ms, utc_s, utc_us


@pytest.mark.parametrize("ns", [0, -1, 1_772_442_000_123_456_789, 2**63 - 1])
def test_reports_keep_the_microsecond(ns: int) -> None:
    """Floating point would lose the last digits of a time in nanoseconds."""
    at = datetime.fromisoformat(utc_us(ns))

    assert (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) == ns // 1000


def test_each_precision_has_its_form() -> None:
    """Receivers, logs and tables parse these forms, so that they may not change."""
    at_ns = 1_772_442_000_123_456_789

    assert utc_us(at_ns) == "2026-03-02T09:00:00.123456Z"
    assert utc_ms(at_ns) == "2026-03-02T09:00:00.123+00:00"
    assert utc_s(at_ns) == "2026-03-02 09:00:00"
    assert utc_day(at_ns) == "2026-03-02"
