"""Metrics of loops and gates for Prometheus, read from the store, and a log line for each.

Labels are rules, actions and decisions, whose values the settings limit.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any

import polars as pl

from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.normalize.understanding import COUNTS
from looptrace.collector.server.background.loop_answers import COSTS, HELP, LoopAnswers
from looptrace.collector.server.detection.counts import DetectorCounts, Shown
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.server.receiver.receiver_metrics import (
    Durations,
    Instrument,
    Values,
    age_s,
    counter,
    gauge,
    histogram,
)
from looptrace.collector.store import reader
from looptrace.collector.store.locks import StoreError
from looptrace.rules.vocabulary import NS_PER_S

_logger = logging.getLogger(__name__)

# The bounds of the histogram of times until a decision: from at once to over the weekend.
RESOLUTION_BOUNDS_S = (10.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 259_200.0)
# All numbers of one page come from the same look at the gates.
GATES_EVERY_S = 1.0
# The label of a person's message to the agent, which is none of the decisions.
_BY_MESSAGE = "message"
_BOUNDS = {"estimate": "share", "low": "share_min", "high": "share_max"}

_NEW_EVENTS = """
    SELECT rule, coalesce(json_extract(body, '$.action'), ''), count(*), max(seq) FROM events
    WHERE seq > {seq} AND type IN ('loop_detected', 'pivot_issued', 'gate_opened')
    GROUP BY 1, 2
"""
_EVENT_COUNTS = pl.Schema(
    {"rule": pl.String(), "action": pl.String(), "count": pl.Int64(), "seq": pl.Int64()}
)
_GATES = "SELECT rule, status, decision, opened_ns, resolved_ns FROM gates"
_GATE_ROWS = pl.Schema(
    dict.fromkeys(("rule", "status", "decision"), pl.String())
    | dict.fromkeys(("opened_ns", "resolved_ns"), pl.Int64())
)


@dataclass(slots=True)
class LoopMetrics:
    """The loops and gates of a store in numbers, which are read on request.

    Where the store cannot be read, the numbers are those of the last time.
    """

    store_dir: Path
    log: IngestLog
    detection: DetectorCounts
    shown: Shown
    answers: LoopAnswers
    prices: Prices | None = None
    _events: Counter[tuple[str, str]] = field(default_factory=Counter)
    _seq: int = 0
    _gates: pl.DataFrame = field(default_factory=_GATE_ROWS.to_frame)
    _gates_at_s: float = -inf
    _lock: Lock = field(default_factory=Lock)

    def instruments(self) -> list[Instrument]:
        """Return the instruments."""
        return [
            *self._of_events(),
            *self._of_gates(),
            *self._of_costs(),
            *self._of_interventions(),
            gauge(
                "looptrace.understood.spans",
                "Spans since the start by what they became: turns, parts of turns, agents, "
                "structure, unread (not understood).",
                self._understood,
                "became",
            ),
            histogram(
                "looptrace.detection.seconds",
                "Time from the arrival of a request to the recording of its events.",
                self.shown.detected.read,
            ),
            gauge(
                "looptrace.detection.lag_seconds",
                "Age of the oldest acknowledged request that the rules have not run on.",
                self._lag,
            ),
        ]

    def _understood(self) -> Values:
        seen = self.shown.understood
        return {(name,): getattr(seen, name) for name in COUNTS}

    def _of_events(self) -> list[Instrument]:
        return [
            counter(
                "looptrace.loops.events",
                "Warnings, pivots and gates, by rule and action.",
                self._read_events,
                "rule",
                "action",
            ),
            counter("looptrace.loops.pivots", "Pivots: directives to change course.", self._pivots),
        ]

    def _of_gates(self) -> list[Instrument]:
        gates = "looptrace.gates"
        return [
            counter(f"{gates}.opened", "Opened gates, by rule.", self._opened, "rule"),
            counter(
                f"{gates}.resolved",
                "Resolved gates, by decision; message is a person's message to the agent.",
                self._resolved,
                "decision",
            ),
            gauge(
                f"{gates}.open",
                "Open gates.",
                lambda: self._read_gates().filter(status="open").height,
            ),
            gauge(
                f"{gates}.oldest_open_seconds",
                "Age of the oldest open gate, 0 if none is open.",
                self._oldest,
            ),
            histogram(
                f"{gates}.resolution_seconds",
                "Time from the opening of a gate to its resolution.",
                self._resolution,
            ),
        ]

    def _of_costs(self) -> list[Instrument]:
        return [
            gauge(
                "looptrace.loops.tokens",
                "Tokens inside the stored loops, each loop once.",
                lambda: self._costs({(kind,): f"{kind}_tokens" for kind in ("input", "output")}),
                "kind",
            ),
            gauge(
                "looptrace.loops.money",
                "What models cost inside the stored loops, by currency; only with prices.",
                self._money,
                "currency",
            ),
            gauge(
                "looptrace.loops.seconds",
                "Time inside the stored loops.",
                lambda: self._costs({(): "seconds"}),
            ),
            gauge(
                "looptrace.loops.stored",
                "Stored loops, each once, however many rules see it.",
                lambda: self._costs({(): "loops"}),
            ),
        ]

    def _of_interventions(self) -> list[Instrument]:
        interventions, labels = "looptrace.interventions", ("rule", "intervention")
        return [
            gauge(
                f"{interventions}.told",
                "Warnings, pivots, decisions, and loops left alone (recovery.shadow), by rule.",
                partial(self._interventions, "times"),
                *labels,
            ),
            gauge(
                f"{interventions}.recovered",
                "Interventions after which the run got on within ten turns.",
                partial(self._interventions, "recovered"),
                *labels,
            ),
            gauge(
                f"{interventions}.share",
                "Share that recovered, of those with a turn after them, with its 95 % bounds.",
                self._shares,
                *labels,
                "bound",
            ),
        ]

    def _read_events(self) -> Values:
        with self._lock:
            new = self._table(_NEW_EVENTS.format(seq=self._seq), _EVENT_COUNTS)
            for rule, action, count, seq in () if new is None else new.iter_rows():
                self._events[rule, action] += count
                self._seq = max(self._seq, seq)
            return {key: float(count) for key, count in self._events.items()}

    def _pivots(self) -> float:
        return sum(count for (*_, of), count in self._read_events().items() if of == "pivot")

    def _read_gates(self) -> pl.DataFrame:
        with self._lock:
            if time.monotonic() - self._gates_at_s > GATES_EVERY_S:
                self._gates_at_s = time.monotonic()
                gates = self._table(_GATES, _GATE_ROWS)
                self._gates = self._gates if gates is None else gates
            return self._gates

    def _opened(self) -> Values:
        return {(rule,): count for rule, count in Counter(self._read_gates()["rule"]).items()}

    def _resolved(self) -> Values:
        decisions = self._read_gates().filter(status="resolved")["decision"]
        counts = Counter(decisions.fill_null(_BY_MESSAGE))
        return {(decision,): count for decision, count in counts.items()}

    def _oldest(self) -> Values:
        opened = self._read_gates().filter(status="open")["opened_ns"]
        return {(): age_s(min(opened, default=None))}

    def _resolution(self) -> Values:
        resolved = self._read_gates().filter(status="resolved")
        durations = Durations(RESOLUTION_BOUNDS_S)
        for wait_s in ((resolved["resolved_ns"] - resolved["opened_ns"]) / NS_PER_S).drop_nulls():
            durations.add(wait_s)
        return durations.read()

    def _costs(self, labels: Mapping[tuple[str, ...], str]) -> Values:
        """Return by label the sum of a column over all days; nothing before the first answer."""
        days = self.answers.rows(COSTS)
        if days is None:
            return {}
        return {key: float(sum(day[name] or 0 for day in days)) for key, name in labels.items()}

    def _interventions(self, column: str) -> Values:
        return {key: row[column] for key, row in self._helped().items()}

    def _helped(self) -> dict[tuple[str, ...], Mapping[str, Any]]:
        """Return what followed interventions, by rule and intervention."""
        rows = self.answers.rows(HELP) or ()
        return {(row["rule"] or "", row["intervention"] or _BY_MESSAGE): row for row in rows}

    def _shares(self) -> Values:
        return {
            (*key, bound): row[column]
            for key, row in self._helped().items()
            for bound, column in _BOUNDS.items()
            if row[column] is not None
        }

    def _money(self) -> Values:
        return self._costs({(self.prices.currency,): "money"}) if self.prices else {}

    def _lag(self) -> Values:
        try:
            return {(): age_s(self.log.waiting_since_ns(self.detection.seq))}
        except StoreError as error:
            _logger.warning("%s", error)
            return {}

    def _table(self, sql: str, schema: pl.Schema) -> pl.DataFrame | None:
        """Read a table of the gates; None where it cannot be read."""
        try:
            with reader.open_gates(self.store_dir) as gates:
                return gates.table(sql, schema)
        except StoreError as error:
            _logger.warning("%s", error)
            return None


def log_events(events: Iterable[GateEvent]) -> None:
    """Log a line for each loop, gate and decision, with ids and without the content of traces."""
    for event in events:
        about = (event.type, event.rule or "-", event.action or event.decision or "-")
        _logger.info("%s: rule %s, %s; event %s, gate %s", *about, event.id, event.gate or "-")
