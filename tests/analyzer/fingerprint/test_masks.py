"""Which parts of a result make it another one."""

from __future__ import annotations

import time

import polars as pl
import pytest

from looptrace.analyzer.fingerprint.equivalence import NOTHING, Results, Sameness
from looptrace.analyzer.fingerprint.masks import masked_results

MEGABYTE = 1_000_000
SECONDS_MAX = 5


def read(*results: str, sameness: Sameness = NOTHING) -> list[str]:
    """Return what is compared of results."""
    return masked_results(pl.Series(results), sameness).to_list()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"ok":true,"messageId":"om_17"}', '{"ok":true,"messageId":"om_18"}'),
        ('{"rows":3,"meta":{"durationMs":17}}', '{"rows":3,"meta":{"durationMs":1804}}'),
        ('[{"a":1,"message_id":7},{"ts":1.5}]', '[{"a":1,"message_id":8},{"ts":2.5}]'),
        (r'{"text":"{\"run-id\": \"a\", \"n\": 1}"}', r'{"text":"{\"run-id\": \"b\", \"n\": 1}"}'),
        ("saved\nETag: W/17", "saved\nETag: W/18"),
        ("sent messageId=4, ts=11", "sent messageId=5, ts=12"),
        ("4 rows; took: 3.1", "4 rows; took: 4.2"),
    ],
)
def test_fresh_values_make_no_other_result(first: str, second: str) -> None:
    """A message that is sent twenty times has another id each time, and is one message."""
    assert len(set(read(first, second))) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"elapsed_s":12}', '{"elapsed_s":24}'),
        ("12 s", "24 s"),
        ('{"durationMs":17,"rows":3}', '{"durationMs":17,"rows":4}'),
        ("0f3a9c01b7d24e68aa05fbc9e7d13a248b6c0d5f", "1f3a9c01b7d24e68aa05fbc9e7d13a248b6c0d5f"),
        ("commit 0f3a9c01b7d24e68 pushed", "commit 1f3a9c01b7d24e68 pushed"),
        ('{"ok":true,"sha256":"0f3a9c01b7d24e68"}', '{"ok":true,"sha256":"1f3a9c01b7d24e68"}'),
        ("main.ts: 3 errors", "main.ts: 4 errors"),
        ("took: 3 of 9 tickets", "took: 4 of 9 tickets"),
    ],
)
def test_news_make_another_result(first: str, second: str) -> None:
    """What a poll tells, a digest, and a word that is no key, are what work goes on by."""
    assert len(set(read(first, second))) == 2


def test_keys_are_settings() -> None:
    """A team names further keys, and those that do tell something to it."""
    own = Sameness(results=Results(volatile_keys=("servedBy",), telling_keys=("etag",)))
    assert len(set(read("ok served_by=a", "ok served_by=b", sameness=own))) == 1
    assert len(set(read("ok etag=a", "ok etag=b", sameness=own))) == 2


@pytest.mark.parametrize(
    "part", ["ts=", "ts:", "messageId ", '"', "\\", "commit ", "a" * 40, "<id>", "0 s ", "took: x "]
)
def test_long_results_take_linear_time(part: str) -> None:
    """A hostile result must not hold up all others."""
    began = time.process_time()
    read(part * (MEGABYTE // len(part)))
    assert time.process_time() - began < SECONDS_MAX
