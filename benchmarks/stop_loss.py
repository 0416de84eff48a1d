"""The stop-loss: the cost and the savings of stopping each run at a detector's first alarm.

The outcome of a run shows what a stop would have done. A solved run is *lost* if it is stopped
before its last step. In the other runs the steps after the stop are *saved*. A run of one step
cannot be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.labelled import HEALTHY, Detector, Runs
from benchmarks.scatter import Axis, Point, scatter_svg
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine import batch
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.settings.profiles import PROFILES, rules_of_profile
from looptrace.analyzer.tuning.certificates import share_max
from looptrace.rules.contract import ACTIONS, Action

Alarms = Mapping[str, int]  # by session, the step of the first alarm
AlarmDetector = Callable[[Runs], Alarms]

# The mildest action that stops a run, by the words of the table.
LEVELS: Mapping[str, Action] = {"any finding": "warn", "pivot": "pivot", "gate": "gate"}
# The length control stops every run at this step.
LENGTHS = (5, 8, 12, 20, 30)
OURS, LENGTH = "looptrace", "length alone"
ALL = "all files"


@dataclass(frozen=True, slots=True)
class StopLoss:
    """The losses and savings of one form of a detector on the runs of a file."""

    file: str
    detector: str
    variant: str  # profile or length; empty where there is only one form
    solved: int  # runs
    losable: int  # of them, with a step after the first
    lost: int  # of them
    stopped: int  # runs that are stopped before their last step, solved or not
    steps: int  # of the runs that were not solved
    saved: int  # of them

    def __add__(self, other: StopLoss) -> StopLoss:
        return StopLoss(
            ALL,
            self.detector,
            self.variant,
            self.solved + other.solved,
            self.losable + other.losable,
            self.lost + other.lost,
            self.stopped + other.stopped,
            self.steps + other.steps,
            self.saved + other.saved,
        )

    @property
    def lost_share(self) -> float:
        """The share of the solved runs that are lost."""
        return _share(self.lost, self.solved)

    @property
    def lost_share_max(self) -> float:
        """The share of solved runs of this kind that are lost, at most, with 95 % confidence."""
        return share_max(self.lost, self.solved)

    @property
    def lost_share_of_losable(self) -> float:
        """The share of the solved runs of more than one step that are lost."""
        return _share(self.lost, self.losable)

    @property
    def lost_share_of_stopped(self) -> float:
        """The share of the stopped runs that would have been solved."""
        return _share(self.lost, self.stopped)

    @property
    def saved_share(self) -> float:
        """The share of the steps of the other runs that are saved."""
        return _share(self.saved, self.steps)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def stop_losses(every: Iterable[Runs], peers: Mapping[str, Detector]) -> list[StopLoss]:
    """Measure looptrace, the length alone, and peers, on each file whose outcomes are known.

    The sums over all files come last.
    """
    peer_detectors = {(name, ""): partial(_first_flags, flag) for name, flag in peers.items()}
    detectors: dict[tuple[str, str], AlarmDetector] = {
        **{
            (f"{OURS}, {level}", profile): partial(_first_events, policy, action)
            for level, action in LEVELS.items()
            for profile, policy in _policies().items()
        },
        **{(LENGTH, str(length)): partial(_at_length, length) for length in LENGTHS},
        **peer_detectors,
    }
    losses = [
        stop_loss(runs, detector, variant, alarms(runs))
        for runs in every
        if any(label.name == HEALTHY[0] for label in runs.labels)
        for (detector, variant), alarms in detectors.items()
    ]
    sums: dict[tuple[str, str], StopLoss] = {}
    for loss in losses:
        key = (loss.detector, loss.variant)
        sums[key] = sums.get(key, StopLoss(ALL, *key, 0, 0, 0, 0, 0, 0)) + loss
    return [*losses, *sums.values()]


def stop_loss(runs: Runs, detector: str, variant: str, alarms: Alarms) -> StopLoss:
    """Stop each run of a file at its alarm, and count the lost and saved."""
    outcomes = {
        label.session: label.value == HEALTHY[1]
        for label in runs.labels
        if label.name == HEALTHY[0]
    }
    steps = {session: run for session, run in _steps(runs).items() if session in outcomes}
    later = {
        session: sum(step > alarms[session] for step in run)
        for session, run in steps.items()
        if session in alarms
    }
    solved = [session for session in steps if outcomes[session]]
    others = [session for session in steps if not outcomes[session]]
    return StopLoss(
        file=runs.name,
        detector=detector,
        variant=variant,
        solved=len(solved),
        losable=sum(len(steps[session]) > 1 for session in solved),
        stopped=sum(count > 0 for count in later.values()),
        lost=sum(later.get(session, 0) > 0 for session in solved),
        steps=sum(len(steps[session]) for session in others),
        saved=sum(later.get(session, 0) for session in others),
    )


def _steps(runs: Runs) -> dict[str, list[int]]:
    """Return the steps of each session, in order, without spans that have no step."""
    spans = runs.turns.select("session", "trace_id", "span_id").iter_rows()
    numbers: dict[str, set[int]] = {}
    for session, trace, span in spans:
        step = runs.steps.get((trace, span), -1)
        if step >= 0:
            numbers.setdefault(session, set()).add(step)
    return {session: sorted(steps) for session, steps in numbers.items()}


def _policies() -> dict[str, DetectionPolicy]:
    """Return each profile without any other setting."""
    return {
        name: DetectionPolicy(
            RuleSet(tuple(rule for rule in rules_of_profile(name) if rule.on_by_default)),
            profile.recovery,
        )
        for name, profile in PROFILES.items()
    }


def _first_events(policy: DetectionPolicy, mildest: Action, runs: Runs) -> Alarms:
    """Return the step of each session's first event with this action or a stronger one."""
    strong = set(ACTIONS[ACTIONS.index(mildest) :])
    alarms: dict[str, int] = {}
    for event in batch.detect(runs.turns, policy).events:
        if event.action in strong:
            step = runs.steps.get((event.trace_id, event.span_id), event.turn)
            alarms[event.session] = min(step, alarms.get(event.session, step))
    return alarms


def _first_flags(flag: Detector, runs: Runs) -> Alarms:
    """Return the last step of the earliest loop that a peer flags in each session."""
    return {
        session: min(loop.steps[-1] for loop in loops)
        for session, loops in flag(runs).items()
        if loops
    }


def _at_length(length: int, runs: Runs) -> Alarms:
    """Return the step with this number in each session that has one."""
    return {
        session: steps[length - 1]
        for session, steps in _steps(runs).items()
        if len(steps) >= length
    }


def stop_loss_tables(losses: Sequence[StopLoss]) -> str:
    """Write a Markdown table for each file and for all: a row a detector and form."""
    by_file: dict[str, list[StopLoss]] = {}
    for loss in losses:
        by_file.setdefault(loss.file, []).append(loss)
    return "\n\n".join(f"{_title(found[0])}\n\n{_table(found)}" for found in by_file.values())


def _title(loss: StopLoss) -> str:
    return (
        f"{loss.file}: {loss.solved:,} solved runs, {loss.losable:,} of more than one step; "
        f"{loss.steps:,} steps of the others"
    )


def _table(losses: Iterable[StopLoss]) -> str:
    heads = ["detector", "form", "lost", "lost at most", "of those that can be lost"]
    rows = [[*heads, "of stopped runs", "steps saved"], ["---"] * (len(heads) + 2)]
    for loss in losses:
        shares = (loss.lost_share_max, loss.lost_share_of_losable)
        rows.append(
            [
                *(loss.detector, loss.variant or "defaults", str(loss.lost)),
                *(f"{share:.1%}" for share in shares),
                f"{loss.lost} of {loss.stopped}",
                f"{loss.saved_share:.1%}",
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(loss: StopLoss) -> str:
    return f"{loss.lost_share:.1%} / {loss.saved_share:.1%}"


def stop_loss_svg(losses: Iterable[StopLoss]) -> str:
    """Draw savings against losses: a panel for each file, a line for each detector.

    Both axes are stretched near 0 (the place is the square root), where the figures are.
    """
    panels: dict[str, list[Point]] = {}
    for loss in losses:
        form = f" ({loss.variant})" if loss.variant else ""
        note = f"{loss.detector}{form}: {_cell(loss)}"
        point = Point(loss.detector, loss.lost_share**0.5, loss.saved_share**0.5, note)
        panels.setdefault(loss.file, []).append(point)
    shares = (0.0, 0.02, 0.1, 0.3, 0.6, 1.0)
    ticks = {share**0.5: f"{share:.0%}" for share in shares}
    axes = Axis("solved runs lost", ticks), Axis("steps of the others saved", ticks)
    return scatter_svg(panels, *axes, lines=True)
