"""Tasks as a list: one row each from turns, findings and gates, filtered and searched."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import polars as pl

from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.gates.agent_states import NOTHING_HEARD, Heard
from looptrace.analyzer.text.times import NS_PER_HOUR
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.agent_states import left_tasks, with_agents
from looptrace.collector.page.worklist.filters import ListFilter, choices_of
from looptrace.collector.server.tokens.sight import Sight
from looptrace.collector.server.warming import QUIET_S, WARMING_TURNS_MAX, nearest_loops, read_ended
from looptrace.collector.store import reader
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.collector.store.gate_metrics import opened_gates, standing_of
from looptrace.collector.store.tables.finding_rows import PART_COLUMNS, loops_of_rows
from looptrace.rules.contract import ACTIONS
from looptrace.rules.vocabulary import NS_PER_S

ROWS_A_PAGE = 50
STATES = {
    "waiting": "waits for a person",
    "left": "ended at a gate",
    "looping": "has a loop",
    "warming": "warms up",
    "live": "at work",
    "past": "at rest",
}
PERIODS_H = {"1": "the last hour", "24": "the last day", "168": "the last 7 days"}

_NS_DIGITS_MAX = 19
# The texts of turns that a search looks through.
_SEARCHED_COLUMNS = ("error", "error_type", "arguments")
# The most words whose tasks are kept while the store does not change.
_SEARCHES_KEPT_MAX = 100
_FINDING_COLUMNS = [*PART_COLUMNS, "reason"]


@dataclass(frozen=True, slots=True)
class TaskFilter(ListFilter):
    """The filter of tasks."""

    state: str = ""
    service: str = ""
    agent: str = ""
    rule: str = ""
    action: str = ""
    hours: str = ""
    since: str = ""  # nanoseconds: only tasks whose last turn was then or later
    until: str = ""  # and before then
    gated: str = ""  # where it is set, the opening of a gate counts in place of the last turn

    @property
    def between_ns(self) -> tuple[int, int] | None:
        """The moments of `since` and `until`; None where one of them is no number."""
        texts = (self.since, self.until)
        if not all(each.isdecimal() and len(each) <= _NS_DIGITS_MAX for each in texts):
            return None
        return int(self.since), int(self.until)


@dataclass(frozen=True, slots=True)
class TaskPage:
    """One page of the matching tasks, and the possible values of the filter."""

    rows: list[dict[str, Any]]
    first: int  # tasks before these
    total: int
    choices: dict[str, list[str]]
    stored: int  # tasks of the store, whatever the filter

    @property
    def has_more(self) -> bool:
        """Whether there are tasks after these."""
        return self.first + len(self.rows) < self.total


@dataclass(slots=True)
class TaskIndex:
    """The tasks of a store; they are read again when its `version` has changed."""

    store_dir: Path
    rules: RuleSet
    heard: Callable[[], Heard] = lambda: NOTHING_HEARD  # from the processes of agents
    _searched: BoundedDict[Hashable, list[str]] = field(
        default_factory=lambda: BoundedDict(_SEARCHES_KEPT_MAX)
    )
    _lock: Lock = field(default_factory=Lock)
    _version: Hashable = None
    _table: pl.DataFrame = field(default_factory=pl.DataFrame)

    def find(
        self, wanted: TaskFilter, version: Hashable, sight: Sight, now_ns: int | None = None
    ) -> TaskPage:
        """Return a page of the matching tasks that are seen; those that wait come first."""
        now_ns = time.time_ns() if now_ns is None else now_ns
        table = self._read_once(version, now_ns)
        if not sight.is_whole:
            table = table.filter(pl.col("task").is_in(sight.every_task(self.store_dir)))
        is_quiet = pl.col("last_ns") <= now_ns - QUIET_S * NS_PER_S
        table = table.with_columns(
            is_live=~pl.col("has_ended") & ~is_quiet, is_left=pl.col("task").is_in(self._left())
        )
        fitting = table.filter(self._fits(wanted, version, now_ns)).sort(
            pl.col("status") == "active",
            pl.col("waits_ns").is_null(),
            "is_left",
            -pl.col("last_ns"),
            "task",
        )
        first = (wanted.page - 1) * ROWS_A_PAGE
        rows = fitting.slice(first, ROWS_A_PAGE)
        choices = {
            "service": choices_of(table["service"].unique()),
            "agent": choices_of(table["agents"].explode(empty_as_null=True).unique()),
            "rule": choices_of(table["rules"].explode(empty_as_null=True).unique()),
        }
        shown = list(rows.iter_rows(named=True))
        return TaskPage(shown, first, fitting.height, choices, table.height)

    def _fits(self, wanted: TaskFilter, version: Hashable, now_ns: int) -> pl.Expr:
        """Return the condition of a filter; a word may be in a turn or a note of the task."""
        text = pl.concat_str(
            "task",
            "service",
            "reason",
            pl.col("agents").list.join(" "),
            pl.col("rules").list.join(" "),
            separator=" ",
        ).str.to_lowercase()
        fits = _fits(wanted, now_ns)
        if wanted.between_ns and wanted.gated:
            fits &= pl.col("task").is_in(self._gated(*wanted.between_ns))
        elif wanted.between_ns:
            fits &= pl.col("last_ns").is_between(*wanted.between_ns, closed="left")
        for word in wanted.words:
            inside = pl.col("task").is_in(self._with_word(word, version))
            fits &= text.str.contains(word, literal=True) | inside
        return fits

    def _gated(self, since_ns: int, until_ns: int) -> list[str]:
        """Return the tasks with a gate that opened within a time."""
        with reader.open_gates(self.store_dir) as gates:
            opened = opened_gates(gates).filter(pl.col("status") != "withdrawn")
        within = pl.col("opened_ns").is_between(since_ns, until_ns, closed="left")
        return opened.filter(within)["task"].unique().to_list()

    def _with_word(self, word: str, version: Hashable) -> list[str]:
        """Return the tasks with a word in an error, in arguments, or in a note of a gate."""
        key = (word, version)
        if key not in self._searched:
            said = pl.any_horizontal(
                pl.col(name).str.to_lowercase().str.contains(word, literal=True)
                for name in _SEARCHED_COLUMNS
            )
            turns = reader.read_rows(self.store_dir, "turns", said, ["task"])
            with reader.open_gates(self.store_dir) as gates:
                noted = {gate.task for gate in gates.gates() if word in (gate.note or "").lower()}
            self._searched[key] = sorted({*turns["task"], *noted})
        return self._searched[key]

    def every(self, version: Hashable) -> pl.DataFrame:
        """Return all tasks, a row each."""
        return self._read_once(version, time.time_ns())

    def is_empty(self, version: Hashable) -> bool:
        """Return whether the store has no task."""
        return self.every(version).is_empty()

    def _left(self) -> set[str]:
        """Return the tasks with open gates at which no agent waits yet."""
        with reader.open_gates(self.store_dir) as gates:
            open_gates = gates.gates("open")
        return left_tasks(with_agents(self.store_dir, open_gates, self.heard()))

    def _read_once(self, version: Hashable, now_ns: int) -> pl.DataFrame:
        with self._lock:
            if version != self._version:
                self._table, self._version = self._read(now_ns), version
            return self._table

    def _read(self, now_ns: int) -> pl.DataFrame:
        findings = reader.read_rows(
            self.store_dir, "findings", pl.lit(value=True), _FINDING_COLUMNS
        )
        tasks = reader.read_tasks(self.store_dir)
        ended = read_ended(self.store_dir, now_ns - QUIET_S * NS_PER_S)
        with reader.open_gates(self.store_dir) as gates:
            standing = standing_of(gates).select("task", "status")
            open_gates = gates.gates("open")
        opened = pl.DataFrame(
            [(gate.task, gate.opened_ns) for gate in open_gates],
            {"task": pl.String(), "opened_ns": pl.Int64()},
            orient="row",
        )
        table = (
            pl.concat([tasks, _without_turns(open_gates, tasks)], how="diagonal_relaxed")
            .join(_loops_by_task(findings), on="task", how="left")
            .join(standing, on="task", how="left")
            .join(opened.group_by("task").agg(pl.min("opened_ns")), on="task", how="left")
            .with_columns(
                pl.col("reason").fill_null(pl.col("gate_reason")),
                pl.col("status").fill_null("active"),
                pl.col("rules").fill_null(pl.lit([], pl.List(pl.String))),
                pl.col("action").fill_null(""),
                has_ended=pl.col("task").is_in(ended),
                waits_ns=pl.coalesce("opened_ns", "waits_ns"),
            )
            .with_columns(pl.col("reason").fill_null(""))
        )
        warming = self._warming(table)
        return table.join(warming, on="task", how="left").with_columns(
            pl.col("warming").fill_null("")
        )

    def _warming(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return, by task, the rule that is one attempt short of a loop, and its progress."""
        schema = pl.Schema({"task": pl.String(), "warming": pl.String()})
        few = table.filter((pl.col("action") == "") & (pl.col("turns") <= WARMING_TURNS_MAX))
        tasks = few.sort("last_ns", descending=True)["task"].to_list()
        nearest = nearest_loops(self.store_dir, self.rules, tasks)
        rows = [(task, f"{rule} {at} of {of}") for task, (rule, at, of) in nearest.items()]
        return pl.DataFrame(rows, schema, orient="row")


def _loops_by_task(findings: pl.DataFrame) -> pl.DataFrame:
    """Return, by task, its rules, and the action and reason of its strongest loop."""
    strength = pl.col("action").replace_strict(
        {action: rank for rank, action in enumerate(ACTIONS)}, return_dtype=pl.Int8
    )
    leads = findings.select(loop="id", reason="reason")
    findings = findings.drop("reason").join(loops_of_rows(findings), on="id")
    of_loops = findings.join(leads, on="loop")
    strongest = of_loops.sort(strength, "attempts", descending=True, maintain_order=True)
    return strongest.group_by("task", maintain_order=True).agg(
        pl.col("action").first(),
        pl.col("reason").first(),
        rules=pl.col("rule").unique(maintain_order=True),
    )


def _without_turns(gates: Sequence[StoredGate], tasks: pl.DataFrame) -> pl.DataFrame:
    """Return rows for tasks that wait for a person although their turns were deleted."""
    rows = [
        (gate.task, "", [gate.agent] if gate.agent else [], 0, 0, gate.opened_ns, gate.reason)
        for gate in gates
    ]
    schema = {name: tasks.schema[name] for name in ("task", "service", "agents", "turns", "failed")}
    schema |= {"last_ns": tasks.schema["last_ns"], "gate_reason": pl.String()}
    return pl.DataFrame(rows, schema, orient="row").join(tasks, on="task", how="anti")


def _fits(wanted: TaskFilter, now_ns: int) -> pl.Expr:
    conditions = {
        "waiting": ((pl.col("status") != "active") | pl.col("waits_ns").is_not_null())
        & ~pl.col("is_left"),
        "left": pl.col("is_left"),
        "looping": pl.col("action") != "",
        "warming": pl.col("warming") != "",
        "live": pl.col("is_live"),
        "past": ~pl.col("is_live"),
    }
    fits = conditions.get(wanted.state, pl.lit(value=True))
    if wanted.service:
        fits &= pl.col("service") == wanted.service
    if wanted.agent:
        fits &= pl.col("agents").list.contains(wanted.agent)
    if wanted.rule:
        fits &= pl.col("rules").list.contains(wanted.rule)
    if wanted.action:
        fits &= pl.col("action") == wanted.action
    if wanted.hours in PERIODS_H:
        fits &= pl.col("last_ns") > now_ns - int(wanted.hours) * NS_PER_HOUR
    return fits
