"""Outages as turns arrive: the same outages as in batch, in bounded memory."""

from dataclasses import dataclass, field

import polars as pl

from looptrace.analyzer.engine.analysis import Outage
from looptrace.analyzer.engine.live_task import HORIZON_S
from looptrace.analyzer.engine.outages import (
    DEFAULT,
    OutageRun,
    OutageSettings,
    by_signature,
    failures_of,
    in_order,
    rows_of,
)
from looptrace.rules.vocabulary import NS_PER_S


@dataclass(slots=True)
class _Signature:
    """The failures of one signature: its settled row, and the failures that may still move."""

    waiting: pl.DataFrame
    settled: OutageRun | None = None
    settled_ns: int = -(2**63)  # failures that end before this come too late
    newest_ns: int = -(2**63)
    outages: list[Outage] = field(default_factory=list)  # as they were last


class OutageWatch:
    """Finds outages in turns of any tasks, in any batches.

    For each signature it keeps the failures that may still move, as far back as for tasks, and the
    state of the row before them. Failures that come later than that are left out and counted.
    """

    def __init__(self, settings: OutageSettings = DEFAULT) -> None:
        self.settings = settings
        self.late = 0  # failures left out because they came too late
        self._held: dict[str, _Signature] = {}

    def __len__(self) -> int:
        """Return the number of signatures that are held."""
        return len(self._held)

    @property
    def held(self) -> list[Outage]:
        """The outages whose failures may go on, or ended not long ago."""
        return [outage for held in self._held.values() for outage in held.outages]

    def feed(self, turns: pl.DataFrame) -> list[Outage]:
        """Take turns (`TURN_SCHEMA`); return the outages that opened or grew."""
        changed: list[Outage] = []
        parts = failures_of(turns).partition_by("signature", as_dict=True)
        for (signature,), failures in parts.items():
            held = self._held.setdefault(str(signature), _Signature(failures.clear()))
            before, held.outages = held.outages, self._added(held, failures)
            changed += [outage for outage in held.outages if outage not in before]
        return in_order(changed)

    def forget(self, now_ns: int) -> None:
        """Drop the rows that are over."""
        since_ns = now_ns - (self.settings.within_s + HORIZON_S) * NS_PER_S
        self._held = {name: held for name, held in self._held.items() if held.newest_ns >= since_ns}

    def _added(self, held: _Signature, failures: pl.DataFrame) -> list[Outage]:
        """Sort in new failures, and return the outages of the row that is held."""
        in_time = failures.filter(pl.col("end_ns") >= held.settled_ns)
        self.late += failures.height - in_time.height
        if in_time.is_empty():
            return held.outages
        # If a turn comes twice, the later one knows more.
        waiting = pl.concat([held.waiting, in_time]).unique(
            ["trace_id", "span_id", "call_id"], keep="last", maintain_order=True
        )
        outages = [row.outage for row in self._rows(held.settled, waiting)]
        held.newest_ns = max(held.newest_ns, in_time.select(pl.col("end_ns").max()).item())
        held.settled_ns = held.newest_ns - HORIZON_S * NS_PER_S
        settles = pl.col("end_ns") < held.settled_ns
        settled = self._rows(held.settled, waiting.filter(settles))
        held.settled = settled[-1] if settled else None
        held.waiting = waiting.filter(~settles)
        return [outage for outage in outages if outage]

    def _rows(self, before: OutageRun | None, failures: pl.DataFrame) -> list[OutageRun]:
        every = [one for part in by_signature(failures).values() for one in part]
        return rows_of(before, every, self.settings)
