"""Outages: one failure of many sessions at once, reported once instead of as many loops.

No rule can find this, because a rule looks at one task. Failures of one signature, without a pause
longer than `within_s` between them, are a row. A row is an outage if enough sessions failed within
`within_s` at some time. Only failures that may have an external cause count. An agent's own
failure, such as a failing test, does not count, however many agents have it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import polars as pl

from looptrace._core import EXTERNAL
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.analysis import Analysis, Outage
from looptrace.analyzer.text.digests import digest
from looptrace.rules.contract import check_bounds, numbers, setting
from looptrace.rules.vocabulary import NS_PER_S

# One agent's timeout or unknown failure may be its own fault; the same in many sessions is not.
SHARED = (*EXTERNAL, "timeout", "unknown")


@dataclass(frozen=True, slots=True)
class OutageSettings:
    """When a failure of several sessions is an outage."""

    sessions_min: int = setting(
        3, ge=2, le=1_000, doc="Sessions that must fail in the same way to make an outage."
    )
    within_s: int = setting(
        300,
        ge=1,
        le=86_400,
        doc="Seconds within which they must fail; after as many without a failure the outage ends.",
    )
    inhibits: bool = setting(
        True,
        doc="Of the gates that an outage causes, a server pages only the first; the "
        "others are held back until it has ended.",
    )

    def __post_init__(self) -> None:
        check_bounds("outages", numbers(self))


DEFAULT = OutageSettings()


FrameT = TypeVar("FrameT", pl.DataFrame, pl.LazyFrame)

# The columns that `with_outages` reads from the turns of an analysis, and the filter.
IS_CALL = pl.col("kind") == "tool"
CALL_COLUMNS = ("task", "session", "kind", "turn", "agent", "signature", "end_ns")


class SharedFailure(NamedTuple):
    """A failed call that may have an external cause."""

    signature: str
    end_ns: int
    session: str
    task: str
    trace_id: str
    span_id: str
    call_id: str | None
    turn: int
    agent: str
    name: str | None
    error_kind: str


@dataclass(frozen=True, slots=True)
class OutageRun:
    """A row of failures with one signature: the first, the number, and the sessions by time."""

    first: SharedFailure
    last_ns: int
    failures: int = 0
    sessions: dict[str, None] = field(default_factory=dict)
    recent: dict[str, int] = field(default_factory=dict)  # when each session failed last
    known_ns: int | None = None  # when it became an outage

    @property
    def outage(self) -> Outage | None:
        """The outage of the row, or None if it is none."""
        if self.known_ns is None:
            return None
        first = self.first
        identity = (first.signature, first.trace_id, first.span_id, first.call_id or "")
        return Outage(
            id=digest("\x1f".join(("outage", *identity))),
            signature=first.signature,
            error_kind=first.error_kind,
            tool=first.name or "",
            first_ns=first.end_ns,
            last_ns=self.last_ns,
            known_ns=self.known_ns,
            failures=self.failures,
            sessions=tuple(self.sessions),
        )


def rows_of(
    before: OutageRun | None, failures: Iterable[SharedFailure], settings: OutageSettings
) -> list[OutageRun]:
    """Add ordered failures to the row of one signature, if there is a row, and return all rows.

    The last row may go on.
    """
    rows = [] if before is None else [before]
    for failure in failures:
        since_ns = failure.end_ns - settings.within_s * NS_PER_S
        if not rows or rows[-1].last_ns < since_ns:
            rows.append(OutageRun(failure, failure.end_ns))
        rows[-1] = _grown(rows[-1], failure, since_ns, settings.sessions_min)
    return rows


def _grown(row: OutageRun, failure: SharedFailure, since_ns: int, sessions_min: int) -> OutageRun:
    recent = {name: at_ns for name, at_ns in row.recent.items() if at_ns >= since_ns}
    recent[failure.session] = failure.end_ns
    known_ns = row.known_ns
    if known_ns is None and len(recent) >= sessions_min:
        known_ns = failure.end_ns
    is_new = failure.session not in row.sessions
    return replace(
        row,
        last_ns=failure.end_ns,
        failures=row.failures + 1,
        sessions={**row.sessions, failure.session: None} if is_new else row.sessions,
        recent={} if known_ns is not None else recent,  # No longer needed.
        known_ns=known_ns,
    )


_IS_SHARED = (
    pl.col("failed") & pl.col("error_kind").is_in(SHARED) & pl.col("signature").is_not_null()
)


def failures_of(turns: FrameT) -> FrameT:
    """Return the failures (`SharedFailure`) of turns (`TURN_SCHEMA`) that can make an outage."""
    return turns.filter(_IS_SHARED).select(SharedFailure._fields)


def calls_to_explain(turns: pl.DataFrame, findings: Iterable[Finding]) -> pl.DataFrame:
    """Return the calls (`CALL_COLUMNS`) of tasks with a finding that an outage may explain.

    Between the first and the last turn of such a finding its agent has no other calls than
    failures that can make an outage. No other finding is explained, whatever failed elsewhere.
    """
    key = {name: turns.schema[name] for name in ("task", "agent", "turn")}
    wanted = pl.DataFrame(
        [(f.task, f.agent, f.turn_first, f.turn_last) for f in findings],
        {**key, "turn_last": key["turn"]},
        orient="row",
    ).sort("turn")
    # Most tasks have no failure that can make an outage.
    asked = wanted["task"].unique().implode()
    failing = turns.filter(_IS_SHARED & pl.col("task").is_in(asked))["task"].unique().implode()
    wanted = wanted.filter(pl.col("task").is_in(failing))
    calls = turns.filter(IS_CALL & pl.col("task").is_in(failing))
    others = calls.filter(~_IS_SHARED.fill_null(value=False)).select(*key).sort("turn")
    tasks = []
    for by, of_agents in (
        (["task"], pl.col("agent") == ""),
        (["task", "agent"], pl.col("agent") != ""),
    ):
        of_rule = wanted.filter(of_agents)
        met = of_rule.join_asof(
            others.select(*by, "turn", turn_met="turn"),
            on="turn",
            by=by,
            strategy="forward",
            check_sortedness=False,
        )
        tasks.append(
            met.filter(~(pl.col("turn_met") <= pl.col("turn_last")).fill_null(value=False))
        )
    explicable = pl.concat(met["task"] for met in tasks).unique()
    return calls.filter(pl.col("task").is_in(explicable.implode())).select(CALL_COLUMNS)


def by_signature(failures: pl.DataFrame) -> dict[str, list[SharedFailure]]:
    """Return the failures of each signature, in the order of time."""
    by_name: dict[str, list[SharedFailure]] = {}
    order = ["end_ns", "trace_id", "span_id", pl.col("call_id").fill_null("")]
    for row in failures.sort(order).iter_rows():
        by_name.setdefault(row[0], []).append(SharedFailure._make(row))
    return by_name


def outages_of(failures: pl.DataFrame, settings: OutageSettings = DEFAULT) -> list[Outage]:
    """Return the outages among failures (`failures_of`) of any tasks, by time and signature."""
    # Most signatures have too few sessions to be an outage.
    common = failures.filter(
        pl.col("session").n_unique().over("signature") >= settings.sessions_min
    )
    rows = [row for one in by_signature(common).values() for row in rows_of(None, one, settings)]
    return in_order(outage for row in rows if (outage := row.outage))


def in_order(outages: Iterable[Outage]) -> list[Outage]:
    """Sort outages by their first failure and by signature."""
    return sorted(outages, key=lambda outage: (outage.first_ns, outage.signature))


def with_outages(
    analysis: Analysis, failures: pl.DataFrame, settings: OutageSettings = DEFAULT
) -> Analysis:
    """Add the outages among the failures of an analysis, with the findings that they explain."""
    outages = outages_of(failures, settings)
    calls = _calls(analysis.turns, outages)
    explained = {finding.id: _explaining(finding, calls) for finding in analysis.findings}
    return replace(
        analysis,
        outages=tuple(
            replace(
                outage, findings=tuple(key for key, ids in explained.items() if outage.id in ids)
            )
            for outage in outages
        ),
    )


_OutageCall = tuple[int, str, str | None]  # turn, agent, and the outage that the failure belongs to


def _calls(turns: pl.DataFrame, outages: Sequence[Outage]) -> dict[str, list[_OutageCall]]:
    """Return the calls of each task that an outage affected, in order."""
    spans: dict[str, list[Outage]] = {}
    for outage in outages:
        spans.setdefault(outage.signature, []).append(outage)
    met = {session for outage in outages for session in outage.sessions}
    tasks = turns.filter(pl.col("session").is_in(met))["task"].unique()
    calls = turns.filter(IS_CALL & pl.col("task").is_in(tasks.implode()))
    by_task: dict[str, list[_OutageCall]] = {}
    asked = ("task", "turn", "agent", "signature", "end_ns")
    for task, turn, agent, signature, end_ns in calls.select(asked).iter_rows():
        mine = (o.id for o in spans.get(signature, ()) if o.first_ns <= end_ns <= o.last_ns)
        by_task.setdefault(task, []).append((turn, agent, next(mine, None)))
    return by_task


def _explaining(finding: Finding, calls: dict[str, list[_OutageCall]]) -> set[str]:
    """Return the outages that explain a finding; none if one of its calls is not part of them."""
    if finding.attempts * finding.period > len(finding.turns):
        return set()  # Its attempts count from the start of its task, long before.
    within = [
        outage
        for turn, agent, outage in calls.get(finding.task, ())
        if finding.turn_first <= turn <= finding.turn_last and finding.agent in ("", agent)
    ]
    explaining = {outage for outage in within if outage is not None}
    return explaining if None not in within else set()
