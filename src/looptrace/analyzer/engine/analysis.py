"""The result of an analysis: findings, and the counts around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import starmap

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.schema.spans import Skipped

# A part of large input keeps no more kinds: names may hold ids.
_KINDS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Unknown:
    """Tool turns that no rule could compare, because the trace does not say enough."""

    arguments: int
    results: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of an analysis. Tokens are those of model turns, so that no token counts twice."""

    sessions: int
    tasks: int
    turns: int
    spans: int
    input_tokens: int
    output_tokens: int
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class SpanKind:
    """Spans with the same scope and name, where no span is a turn."""

    scope: str | None
    name: str
    spans: int


def span_kinds(spans: pl.DataFrame) -> tuple[SpanKind, ...]:
    """Return the kinds of spans (`scope`, `name`), the most frequent first."""
    counts = spans.group_by("scope", "name").len()
    return most_frequent(starmap(SpanKind, counts.iter_rows()))


def most_frequent(kinds: Iterable[SpanKind]) -> tuple[SpanKind, ...]:
    """Return each kind once, with the sum of its spans, the most frequent first."""
    spans: Counter[tuple[str | None, str]] = Counter()
    for kind in kinds:
        spans[kind.scope, kind.name] += kind.spans
    ordered = sorted(spans.items(), key=lambda item: (-item[1], item[0][1], item[0][0] or ""))
    return tuple(SpanKind(*key, count) for key, count in ordered[:_KINDS_MAX])


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

    Of the `unpriced` findings some responses have no price.
    """

    currency: str
    spent: Mapping[str, float]
    unpriced: frozenset[str]


@dataclass(frozen=True, slots=True)
class Analysis:
    """One analysis: the counts, what was not read, the findings, and the turns that they name.

    Findings are ordered by task and first turn, events by task and time. `turns` has the schema
    `TURN_SCHEMA`, and may hold only the turns of looping tasks. `tasks` are the names of all tasks,
    in order. Outages are ordered by their first failure. `kinds` and `empty` say what was read
    where no span is a turn: the spans, and the sources without spans. `money` needs prices.
    """

    summary: Summary
    skipped: tuple[Skipped, ...]
    findings: tuple[Finding, ...]
    events: tuple[GateEvent, ...]
    turns: pl.DataFrame
    tasks: tuple[str, ...] = ()
    outages: tuple[Outage, ...] = ()
    kinds: tuple[SpanKind, ...] = ()
    empty: tuple[Skipped, ...] = ()
    money: Money | None = None

    @property
    def own(self) -> tuple[Finding, ...]:
        """The findings that are not explained by an outage."""
        explained = {finding for outage in self.outages for finding in outage.findings}
        return tuple(finding for finding in self.findings if finding.id not in explained)
