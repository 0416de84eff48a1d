"""The server of each session among several, also while their number changes.

A session of a former server stays there with its turns and gates for as long as the settings name
that server: its spans go to the former server, which knows whether it has the session.
"""

import time
from collections.abc import Collection
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import polars as pl

from looptrace.analyzer.engine.live_task import HORIZON_S
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.settings.shards import ShardSettings
from looptrace.collector.server.detection.backlog import logged_names
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.server.shards.ring import Ring
from looptrace.collector.store import reader
from looptrace.rules.vocabulary import NS_PER_S

_NAMES = ("session", "task", "subtask", "trace_id")


class Why(Enum):
    """The reason why a server has a session."""

    NOW = "it is its own as the servers are now"
    STAYED = "it began here, before their number changed"
    ASKED = "it would have had it before, and knows whether it does"
    PASSED = "the server that would have had it before does not"


class Owner(NamedTuple):
    """The number of a server, and the reason for it."""

    server: int
    why: Why


class Owners:
    """Servers, first the current ones, then the former ones that are gone."""

    def __init__(self, settings: ShardSettings, url: str, held: Collection[str]) -> None:
        """Share sessions; `held` are the names of sessions at the server with `url`."""
        gone = [
            (url, name)
            for url, name in zip(settings.former_urls, settings.former_ring, strict=True)
            if url not in settings.urls
        ]
        self.urls = [*settings.urls, *(url for url, _ in gone)]
        self.names = [*settings.ring, *(name for _, name in gone)]
        self.own = self.urls.index(url)
        self._held = held
        self._ring = Ring(settings.ring, settings.attribute)
        self._former_ring = Ring(settings.former_ring, settings.attribute)
        self._former = [self.urls.index(url) for url in settings.former_urls]

    def of(self, key: str) -> Owner:
        """Return the owner of a key."""
        now, before = self._ring.owner(key), self._before(key)
        if before is None or before == now:
            return Owner(now, Why.NOW)
        if before != self.own:
            return Owner(before, Why.ASKED)
        return Owner(before, Why.STAYED) if key in self._held else Owner(now, Why.PASSED)

    def of_forwarded(self, key: str) -> Owner:
        """Return the owner of spans that were forwarded to this server: itself, or the current one.

        Only spans that this server would have had before go on; under other settings they would
        circulate.
        """
        return self.of(key) if self._before(key) == self.own else Owner(self.own, Why.NOW)

    def _before(self, key: str) -> int | None:
        return self._former[self._former_ring.owner(key)] if self._former else None


def held_names(store_dir: Path, log: IngestLog, policy: DetectionPolicy) -> set[str]:
    """Return the sessions, tasks and traces of a server that may go on.

    They were silent for less than the life of counts, or have an open gate.
    """
    # The log is read first, because spans stored meanwhile are then in one of both.
    names = logged_names(log, 0, log.last_seq(), policy.dialects)
    with reader.open_gates(store_dir) as gates:
        waiting = [gate.task for gate in gates.gates("open")]
    turns = reader.read_rows(store_dir, "turns", pl.lit(value=True), [*_NAMES, "end_ns"])
    since_ns = time.time_ns() - (policy.rule_set.counting.idle_s + HORIZON_S) * NS_PER_S
    goes_on = pl.col("end_ns").max().over("task") > since_ns
    turns = turns.filter(goes_on | pl.col("task").is_in(waiting))
    for column in _NAMES:
        names.update(turns[column].drop_nulls().unique())
    return names
