"""The result of an analysis: findings, and the counts around them."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.normalize.understanding import NOTHING_SEEN, Understood
from looptrace.analyzer.schema.spans import Skipped


@dataclass(frozen=True, slots=True)
class Unknown:
    """Tool turns that no rule could compare, because the trace does not say enough.

    `calls` is the number of all tool turns.
    """

    arguments: int
    results: int
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of an analysis. Tokens are those of model turns, so that no token counts twice.

    What was cached is a part of the input, and what was thought of the output.
    """

    sessions: int
    tasks: int
    turns: int
    spans: int
    input_tokens: int
    output_tokens: int
    unknown: Unknown
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Outage:
    """One failure in many sessions: what failed, from when until when, and the loops it explains.

    It became an outage at `known_ns`. `sessions` are in the order of their first failures. A loop
    is explained if all calls between its first and its last turn are failures of an outage.
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
class Money:
    """What the responses of loops cost: the amount by id of the finding, in one currency.

    Of the `unpriced` findings some responses have no price. The `source` is the package that prices
    are from, with its version and day, or "".
    """

    currency: str
    spent: Mapping[str, float]
    unpriced: frozenset[str]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Analysis:
    """One analysis: the counts, what was not read, the findings, and the turns that they name.

    Findings are ordered by task and first turn, events by task and time. `turns` has the schema
    `TURN_SCHEMA`, and may hold only the turns of looping tasks. `tasks` are the names of all tasks,
    in order. Outages are ordered by their first failure. `understood` says how much of the spans
    was, and `empty` has the sources without spans. `money` needs prices.
    """

    summary: Summary
    skipped: tuple[Skipped, ...]
    findings: tuple[Finding, ...]
    events: tuple[GateEvent, ...]
    turns: pl.DataFrame
    tasks: tuple[str, ...] = ()
    outages: tuple[Outage, ...] = ()
    understood: Understood = NOTHING_SEEN
    empty: tuple[Skipped, ...] = ()
    money: Money | None = None

    @property
    def own(self) -> tuple[Finding, ...]:
        """The findings that are not explained by an outage."""
        explained = {finding for outage in self.outages for finding in outage.findings}
        return tuple(finding for finding in self.findings if finding.id not in explained)
