"""P1: storing leaves time for receiving and for the rules, and takes all of it where they rest."""

import time
from pathlib import Path

import pytest

from looptrace.analyzer.settings.sections import default
from looptrace.collector.server.archiver import MANY_SPANS, SOME_SPANS, Archiver
from looptrace.collector.server.background.arrivals import PAUSES, QUIET_S, REMEMBERED_S, Arrivals
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.store.layout import LOG_FILE

ROUND_S = 0.4


@pytest.mark.parametrize(
    ("spans", "came_s_ago", "is_evaluated", "ended_s_ago", "is_due"),
    [
        (MANY_SPANS, 0.0, True, ROUND_S * 0.9, False),
        (MANY_SPANS, 0.0, True, ROUND_S, True),  # half of the time
        (SOME_SPANS, 0.0, True, ROUND_S * 9, False),  # more may come
        (SOME_SPANS, QUIET_S, True, 0.0, True),  # all of the time
        (SOME_SPANS - 1, QUIET_S, True, ROUND_S * 9, False),  # not worth a round
        (MANY_SPANS, QUIET_S, False, ROUND_S * 3.9, False),  # The rules are late.
        (MANY_SPANS, QUIET_S, False, ROUND_S * 4.1, True),  # a fifth of the time
    ],
)
def test_a_round_begins_when_others_can_spare_the_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spans: int,
    came_s_ago: float,
    *,
    is_evaluated: bool,
    ended_s_ago: float,
    is_due: bool,
) -> None:
    """A round took a while and ended some time ago."""
    log = IngestLog(tmp_path / LOG_FILE, 1 << 30)
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    log.spans = spans
    log.arrivals.note(now_s - came_s_ago)
    monkeypatch.setattr(log, "waiting_since_ns", lambda _: None if is_evaluated else 0)
    archiver = Archiver(tmp_path, default(), log, lambda: 0, lambda _: None)
    ended_s = now_s - ended_s_ago
    waits = next(archiver._until_due(ended_s - ROUND_S, ended_s), None)
    log.close()
    assert (waits is None) == is_due


def test_bursts_have_ended_only_after_a_longer_pause_than_between_them() -> None:
    """A round in each pause between the bursts of exporters took half a core."""
    arrivals, at_s = Arrivals(), 100.0
    for _ in range(3):
        arrivals.note(at_s)
        arrivals.note(at_s + 0.1)
        at_s += 1
    assert not arrivals.have_ended(at_s)
    assert arrivals.have_ended(at_s + PAUSES)
    for tick in range(int(REMEMBERED_S * 10) + 2):  # They come all the time now.
        arrivals.note(at_s + tick / 10)
    assert arrivals.have_ended(at_s + tick / 10 + QUIET_S)
