"""Outages of which the operator hears once, and which hold back the gates that they cause."""

import logging
import time
from collections.abc import Sequence

import polars as pl

from looptrace.analyzer.detect.counters import DAY_S
from looptrace.analyzer.engine.live_outages import OutageWatch
from looptrace.analyzer.engine.live_task import LATENESS_S
from looptrace.analyzer.engine.outages import OutageSettings
from looptrace.analyzer.gates.silences import Inhibition
from looptrace.analyzer.report.wording import outage_text
from looptrace.analyzer.schema.turns import AT, TURN_SCHEMA, TurnTuple
from looptrace.collector.server.detection.counts import DetectorCounts
from looptrace.collector.server.detection.stored_tasks import StoredTasks
from looptrace.collector.store.gates import GateStore
from looptrace.rules.vocabulary import NS_PER_S

_logger = logging.getLogger(__name__)


class OutageNotices:
    """The outages of the running server. Tasks get the events of their own failures as usual."""

    def __init__(
        self,
        settings: OutageSettings,
        stored: StoredTasks,
        gates: GateStore,
        counts: DetectorCounts,
    ) -> None:
        """Look for outages in the failures of `stored` tasks and in those that come."""
        self._watch, self._stored = OutageWatch(settings), stored
        self._gates, self._counts = gates, counts
        self._logged: dict[str, int] = {}  # by id, the time at which the outage was known

    def take(self, turns: Sequence[TurnTuple]) -> None:
        """Log each outage once; those that go on hold back the pages of the gates they cause."""
        failed = [turn for turn in turns if turn[AT["failed"]]]
        if not failed:
            return
        failures = pl.DataFrame(failed, TURN_SCHEMA, orient="row")
        stored = self._stored.take_failures(failures["signature"].drop_nulls().unique())
        known = self._watch.feed(stored)  # They were logged before.
        self._logged |= {outage.id: outage.known_ns for outage in known}
        for outage in self._watch.feed(failures):
            if outage.id not in self._logged:
                self._logged[outage.id] = outage.known_ns
                self._counts.outages += 1
                about = (len(outage.sessions), outage.id, outage.error_kind)
                # The text of the failure is content, and stays in the store.
                _logger.warning("an outage in %d sessions at once: %s, %s", *about)
        if self._watch.settings.inhibits:
            self._gates.note_outages(self._inhibitions(), time.time_ns())

    def forget(self, now_ns: int) -> None:
        """Forget outages that are over."""
        self._watch.forget(now_ns)
        since_ns = now_ns - DAY_S * NS_PER_S
        self._logged = {o: at for o, at in self._logged.items() if at > since_ns}

    def _inhibitions(self) -> list[Inhibition]:
        lasts_ns = (self._watch.settings.within_s + LATENESS_S) * NS_PER_S
        return [
            Inhibition(
                outage.id,
                outage.signature,
                frozenset(outage.sessions),
                outage.last_ns + lasts_ns,
                outage_text(outage),
            )
            for outage in self._watch.held
            if outage.last_ns + lasts_ns > time.time_ns()
        ]
