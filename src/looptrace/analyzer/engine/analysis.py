"""What an analysis says: findings, and the counts around them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.schema.spans import Skipped


@dataclass(frozen=True, slots=True)
class Unknown:
    """Tool turns that no rule could take for equal, because the trace does not say."""

    arguments: int
    results: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of an analysis. Tokens are those of model turns, so that none counts twice."""

    sessions: int
    tasks: int
    turns: int
    spans: int
    input_tokens: int
    output_tokens: int
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class Outage:
    """One failure in many sessions: what, since when and until when, and which loops it explains.

    It became one at `known_ns`, and `sessions` are in the order in which they failed first. A loop
    is explained where all calls between its first and its last turn are failures of an outage.
    """

    id: str
    signature: str
    error_kind: str
    tool: str
    first_ns: int
    last_ns: int
    known_ns: int
    failures: int
    sessions: tuple[str, ...]
    findings: tuple[str, ...] = ()  # ids


@dataclass(frozen=True, slots=True)
class Analysis:
    """One analysis: the counts, what was not read, the findings, and the turns they speak of.

    Findings are ordered by task and first turn, events by task and as they came about; `turns` has
    the schema `TURN_SCHEMA`, and may have those of looping tasks alone. `tasks` are the names of
    all tasks, in their order. Outages are ordered by their first failure.
    """

    summary: Summary
    skipped: tuple[Skipped, ...]
    findings: tuple[Finding, ...]
    events: tuple[GateEvent, ...]
    turns: pl.DataFrame
    tasks: tuple[str, ...] = ()
    outages: tuple[Outage, ...] = ()

    @property
    def own(self) -> tuple[Finding, ...]:
        """The findings that no outage explains."""
        explained = {finding for outage in self.outages for finding in outage.findings}
        return tuple(finding for finding in self.findings if finding.id not in explained)
