"""Why a task was flagged or not: how far each rule got, its events, the settings that matter."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from looptrace.analyzer.detect.counters import add_counters
from looptrace.analyzer.detect.evaluate import evaluate_rules, find_stretches
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.ruleset import OFF, RuleSet
from looptrace.analyzer.detect.times import waits_of
from looptrace.analyzer.engine.batch import decide_tasks, finding_of, in_order
from looptrace.analyzer.engine.policy import DEFAULT, DetectionPolicy
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.tuning.counterfactuals import Change, MovedGate, changes_of_rule, moved_gate

_UNSEEN = -1

# Below this a rule saw no repeat, and its settings are not searched.
REPEATED = 2

# The most gates to explain in one task: each takes some dozen evaluations of the task.
GATES_EXPLAINED_MAX = 3


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one rule: attempts at each turn, and the number that makes a loop there.

    `reached` is None where the rule does not evaluate the turn, or is off.
    """

    rule: str
    needed: tuple[int, ...]
    reached: tuple[int | None, ...]

    @property
    def furthest(self) -> int | None:
        """The index of the first turn with the highest count, among firing ones if any."""
        seen = [
            (attempts >= needed, attempts, -i)
            for i, (attempts, needed) in enumerate(zip(self.reached, self.needed, strict=True))
            if attempts is not None
        ]
        return -max(seen)[2] if seen else None

    @property
    def saw_a_repeat(self) -> bool:
        """Whether anything occurred twice."""
        return self.furthest is not None and (self.reached[self.furthest] or 0) >= REPEATED

    @property
    def fired(self) -> bool:
        """Whether the rule fired."""
        place = self.furthest
        return place is not None and (self.reached[place] or 0) >= self.needed[place]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons why one task was flagged or not.

    `changes` has, by rule, the settings with which a rule that saw a repeat would fire or be
    silent.
    """

    rules: tuple[Progress, ...]
    findings: tuple[Finding, ...]
    events: tuple[GateEvent, ...]
    changes: dict[str, tuple[Change, ...]]
    gates: tuple[MovedGate, ...]
    speakers: tuple[str | None, ...]  # of each turn that is a message
    waits: tuple[int, str] | None  # since when for a person, and by what


def explain(turns: pl.DataFrame, policy: DetectionPolicy = DEFAULT) -> Explanation:
    """Explain one task by its numbered turns (`TURN_SCHEMA`)."""
    rules = policy.rule_set
    rows = add_counters(turns, rules.counting)
    progress = tuple(progress_of(turns, rules))
    stretches = find_stretches(rows, rules)
    _, events = decide_tasks(rows, stretches, policy.recovery)
    seen = {rule.rule for rule in progress if rule.saw_a_repeat}
    opened = [event for event in events if event.type == "gate_opened"]
    return Explanation(
        rules=progress,
        findings=tuple(in_order([finding_of(stretch) for stretch in stretches])),
        events=tuple(events),
        changes={
            rule.name: changes_of_rule(rows, rule, policy)
            for rule in rules.rules
            if rule.name in seen
        },
        gates=tuple(
            moved_gate(rows, event, events, policy) for event in opened[:GATES_EXPLAINED_MAX]
        ),
        speakers=tuple(rows["speaker"].to_list()),
        waits=_waits(turns, events),
    )


def _waits(turns: pl.DataFrame, events: list[GateEvent]) -> tuple[int, str] | None:
    """Return since when a task waits for a person: at its gate, else in its last call."""
    ends = [event for event in events if event.type in ("gate_opened", "gate_resolved")]
    if ends and ends[-1].type == "gate_opened":
        return ends[-1].at_ns, f"gate by {ends[-1].rule}"
    asked = waits_of(turns).select("waits_ns", "asks").rows()
    return asked[0] if asked else None


def progress_of(turns: pl.DataFrame, rules: RuleSet) -> list[Progress]:
    """Return the progress of each rule at each row of numbered turns (`TURN_SCHEMA`).

    0 means that the turn has too little content to be compared, or that no pattern ends there.
    """
    progress = []
    for lane in evaluate_rules(add_counters(turns, rules.counting), rules):
        on = lane.held != OFF
        rows, evaluation = lane.lane.rows[on], lane.evaluation
        reached, needed = np.full(turns.height, _UNSEEN), np.zeros(turns.height, np.int64)
        reached[rows] = evaluation.reached[on]
        needed[rows] = np.broadcast_to(evaluation.needed, on.shape)[on]
        attempts = (None if count == _UNSEEN else count for count in reached.tolist())
        progress.append(Progress(lane.rules[0].name, tuple(needed.tolist()), tuple(attempts)))
    return progress
