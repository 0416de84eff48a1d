"""Certificates: what gates would have cost and saved in runs whose outcome is known.

A solved run is *lost* if a gate opens before its last step. Of n solved runs of a kind k would have
been lost, so at most a share x is, with 95 % confidence: the exact one-sided bound of a binomial
share (Clopper and Pearson, 1934). Only runs with a step after the first can be lost, and only they
count. Runs that show the same turns are one run; of a problem that was tried several times, the
problem counts, and it is lost if any solved try is.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import starmap
from math import exp, lgamma, log, log1p
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from looptrace.analyzer.detect.counters import add_counters
from looptrace.analyzer.detect.evaluate import evaluate_rules
from looptrace.analyzer.detect.ruleset import RuleSet, without_spared
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.gates.decisions import Decision
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.digests import digest
from looptrace.errors import InputError
from looptrace.rules.prediction.likely_failure import LikelyFailure
from looptrace.rules.registry import RULES
from looptrace.typed_json import decoded

CONFIDENCE = 0.95
# A bound is computed so far; a share of loops is never known better.
_PRECISION = 1e-6
# More solved runs of one kind nobody has; a smaller share cannot be promised.
_NEEDED_MAX = 1 << 24
# The rules whose limit may be learned: those that count without asking what is the same.
COUNTERS = tuple(rule.name for rule in RULES if rule.learns_limit and rule is not LikelyFailure)
# What two runs share that are one: all that their turns show but ids and times.
SHOWN = ("kind", "agent", "name", "arguments", "result", "failed", "error", "text")


class OutcomesError(InputError):
    """The file of outcomes cannot be used; the message says where, why and what to do."""


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a run was solved: that of a task, or of all tasks of a session or a trace.

    `problem` names what was tried, where several runs tried the same.
    """

    solved: bool
    task: str | None = None
    session: str | None = None
    trace_id: str | None = None
    problem: str | None = None


class RunKind(NamedTuple):
    """What runs are alike: the kind of task, the agent and the model; "" where none is named."""

    task_kind: str
    agent: str
    model: str


class Peak(NamedTuple):
    """What a counter reached in a run for the first time, and the steps of the run after that."""

    reached: int
    later: int


@dataclass(frozen=True, slots=True)
class Run:
    """A run with a known outcome: its steps, and those after the first gate (0 without one).

    `peaks` has by rule what it counted, each time that it was more than before.
    """

    task: str
    kind: RunKind
    problem: str
    content: str  # a hash of what its turns show
    solved: bool
    steps: int
    later: int
    peaks: Mapping[str, tuple[Peak, ...]] = field(default_factory=dict)
    gate_rule: str = ""  # of the first gate
    end_ns: int = 0


@dataclass(frozen=True, slots=True)
class Certificate:
    """What gates would have done to the runs of a kind.

    `lost` are solved runs of `losable`; `stopped` are runs of `others`, which were not solved, and
    `saved` the share of the steps of all others that come after their gates. `needed` is how many
    solved runs promise the share that was asked for, with as many lost ones.
    """

    kind: RunKind
    solved: int
    losable: int
    lost: int
    others: int
    stopped: int
    saved: float
    needed: int | None

    @property
    def at_most(self) -> float:
        """The share of solved runs that is lost, at most."""
        return share_max(self.lost, self.losable)


@lru_cache(maxsize=1 << 16)  # Limits are tried by the hundred on the same runs.
def share_max(count: int, of: int) -> float:
    """Return the greatest share of which so few are likely: the exact bound, from one side."""
    if count >= of:
        return 1.0
    low, high = count / of, 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if _is_likely(count, of, middle) else (low, middle)
    return high


def _is_likely(count: int, of: int, share: float) -> bool:
    """Return whether `count` or fewer of so many are more likely than a chance of 5 %."""
    ways = (lgamma(of + 1) - lgamma(k + 1) - lgamma(of - k + 1) for k in range(count + 1))
    terms = (exp(way + k * log(share) + (of - k) * log1p(-share)) for k, way in enumerate(ways))
    return sum(terms) > 1 - CONFIDENCE


def needed_for(lost: int, share: float) -> int | None:
    """Return how many solved runs promise a share with so many lost ones; None if none do."""
    candidates = range(lost + 1, _NEEDED_MAX)
    place = bisect_left(candidates, True, key=lambda of: share_max(lost, of) <= share)
    return candidates[place] if place < len(candidates) else None


def read_outcomes(path: Path) -> list[Outcome]:
    """Read outcomes, a JSON object a line.

    Raises:
        OutcomesError: if the file cannot be read, or a line is no outcome of one thing.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise OutcomesError(f"{path}: cannot be read ({error.strerror}).") from error
    found = [_outcome(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise OutcomesError(f"{path}: has no outcome; write lines like {_EXAMPLE}.")
    return found


# What a line may name; what names the task itself is the nearest.
_NAMES = ("session", "trace_id", "task")
_EXAMPLE = '{"task": "ticket-42", "solved": true}'


def _outcome(path: Path, number: int, line: bytes) -> Outcome:
    try:
        outcome = decoded(line, Outcome)
    except msgspec.DecodeError as error:
        raise OutcomesError(f"{path}:{number}: {error}; write lines like {_EXAMPLE}.") from error
    names = [name for name in _NAMES if getattr(outcome, name) is not None]
    if len(names) != 1:
        raise OutcomesError(
            f"{path}:{number}: names {' and '.join(names) or 'nothing'}; it must name one of task, "
            "session and trace_id."
        )
    return outcome


# What a person's decision on a gate says of its run; of the others the end is not known.
_DECIDED: Mapping[Decision, bool] = {"not_a_loop": True, "cancel": False}


def runs_of(
    turns: pl.DataFrame,
    settings: Settings,
    outcomes: Sequence[Outcome],
    *,
    with_decisions: bool = False,
) -> list[Run]:
    """Return the runs with a known outcome in turns (`TURN_SCHEMA`) of whole tasks.

    People's decisions on gates are outcomes where nothing else is known of a run, if asked for.
    """
    known = (_decided_in(turns) if with_decisions else {}) | _outcomes_of(turns, outcomes)
    own = turns.filter(pl.col("task").is_in(known.keys()))
    gates: dict[str, GateEvent] = {}
    policy = replace(settings.policy, rule_set=without_spared(settings.policy.rule_set))
    for event in detect(own, policy).events:
        if event.type == "gate_opened":
            gates[event.task] = min(event, gates.get(event.task, event), key=attrgetter("turn"))
    steps = own.filter(IS_STEP).with_columns(shown=pl.struct(SHOWN).hash())
    peaks = peaks_of(own, settings.policy.rule_set)
    return [
        replace(
            _run(str(task), part, known[str(task)], gates.get(str(task))), peaks=peaks[str(task)]
        )
        for (task,), part in steps.partition_by("task", as_dict=True, maintain_order=True).items()
    ]


def peaks_of(turns: pl.DataFrame, rule_set: RuleSet) -> Mapping[str, dict[str, tuple[Peak, ...]]]:
    """Return by task what each of `COUNTERS` counted in turns (`TURN_SCHEMA`) of whole tasks."""
    found: dict[str, dict[str, tuple[Peak, ...]]] = defaultdict(dict)
    rows = add_counters(turns, rule_set.counting)
    after = IS_STEP.cast(pl.Int64).sum().over("task") - IS_STEP.cast(pl.Int64).cum_sum().over(
        "task"
    )
    told = rows.select("task", later=after)
    for rule in rule_set.rules:
        if rule.name not in COUNTERS:
            continue
        for lane in evaluate_rules(rows, replace(rule_set, rules=(rule,), overrides=())):
            seen = told[lane.lane.rows].with_columns(
                reached=pl.Series(lane.evaluation.reached, dtype=pl.Int64), at=lane.lane.rows
            )
            before = pl.col("reached").cum_max().shift(1, fill_value=0).over("task", order_by="at")
            new = seen.filter(pl.col("reached") > before).sort("at")
            for (task,), part in new.partition_by("task", as_dict=True).items():
                peaks = starmap(Peak, part.select("reached", "later").rows())
                found[str(task)][rule.name] = (*found[str(task)].get(rule.name, ()), *peaks)
    return found


def _outcomes_of(turns: pl.DataFrame, outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    """Return the outcome of each task that has one; the last line about it counts."""
    known: dict[str, Outcome] = {}
    for name in _NAMES:
        told = {key: each for each in outcomes if (key := getattr(each, name)) is not None}
        if told:
            named = turns.filter(pl.col(name).is_in(told.keys())).select("task", key=name).unique()
            known |= {task: told[key] for task, key in named.sort("key").iter_rows()}
    return known


def _decided_in(turns: pl.DataFrame) -> dict[str, Outcome]:
    """Return the outcome of each task with such a decision; the last counts."""
    decided = turns.filter(pl.col("kind") == "user", pl.col("name").is_in(_DECIDED.keys()))
    return {
        task: Outcome(solved=_DECIDED[decision], task=task)
        for task, decision in decided.select("task", "name").iter_rows()
    }


def _run(task: str, steps: pl.DataFrame, outcome: Outcome, gate: GateEvent | None) -> Run:
    models = steps.filter(pl.col("kind") == "model")["name"]
    kinds = steps["task_kind"].drop_nulls()
    agents = steps.filter(pl.col("agent") != "")["agent"]
    later = 0 if gate is None else steps.filter(pl.col("turn") > gate.turn).height
    return Run(
        task=task,
        kind=RunKind(*(str(_most(names) or "") for names in (kinds, agents, models))),
        problem=outcome.problem or task,
        content=digest(str(steps["shown"].to_list())),
        solved=outcome.solved,
        steps=steps.height,
        later=later,
        gate_rule=gate.rule if gate else "",
        end_ns=steps.select(pl.col("end_ns").max()).item(),
    )


def _most(names: pl.Series) -> object:
    """Return the most frequent name, of equally frequent ones the first in order."""
    counts = names.drop_nulls().value_counts().sort("count", names.name, descending=[True, False])
    return counts[names.name].first()


def certificates(runs: Iterable[Run], share: float) -> list[Certificate]:
    """Return the certificate of each kind, the kind with the most solved runs first."""
    made = [certificate(kind, alike, share) for kind, alike in by_kind(runs).items()]
    return sorted(made, key=lambda each: (-each.losable, each.kind))


def by_kind(runs: Iterable[Run]) -> dict[RunKind, list[Run]]:
    """Return the runs of each kind; those that show the same, and ended alike, are one."""
    found: dict[RunKind, dict[tuple[str, bool], Run]] = defaultdict(dict)
    for run in runs:
        found[run.kind].setdefault((run.content, run.solved), run)
    return {kind: [*distinct.values()] for kind, distinct in found.items()}


def halves(runs: Iterable[Run]) -> tuple[list[Run], list[Run]]:
    """Return the runs in two halves, by a hash of the problem: all tries of one are in one."""
    parts: tuple[list[Run], list[Run]] = ([], [])
    for run in runs:
        parts[int(digest(run.problem), 16) % 2].append(run)
    return parts


def certificate(kind: RunKind, runs: Sequence[Run], share: float) -> Certificate:
    """Return what gates would have done to distinct runs of a kind."""
    solved: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.solved:
            solved[run.problem].append(run)
    losable = [tries for tries in solved.values() if any(run.steps > 1 for run in tries)]
    lost = sum(any(run.later for run in tries) for tries in losable)
    others = [run for run in runs if not run.solved]
    steps = sum(run.steps for run in others)
    return Certificate(
        kind=kind,
        solved=len(solved),
        losable=len(losable),
        lost=lost,
        others=len(others),
        stopped=sum(run.later > 0 for run in others),
        saved=sum(run.later for run in others) / steps if steps else 0.0,
        needed=needed_for(lost, share),
    )
