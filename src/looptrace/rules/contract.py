"""The contract of a rule: settings, a lane, and one pure function over the turns of that lane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, TypeVar, cast, get_args

import numpy as np

from looptrace.errors import InputError
from looptrace.rules.actions import ACTIONS, Action
from looptrace.rules.needs import ALWAYS, Need
from looptrace.rules.turns import Codes, Flags, Lane, LaneSpec
from looptrace.rules.vocabulary import Pattern, gathered

__all__ = [
    "ACTIONS",
    "Action",
    "Bounds",
    "Evaluation",
    "Loop",
    "Rule",
    "Rung",
    "SettingError",
    "counts",
    "cycles",
    "ladder_setting",
    "repeats",
    "setting",
]

# When a rule is checked among the others of a turn: guards stand before the loops or after them.
Checked = Literal["before_loops", "with_loops", "after_loops"]
CHECKED: tuple[Checked, ...] = get_args(Checked)

RUNGS_MAX = 8  # More rungs are of no use.
RUNG_ATTEMPTS_MAX = 1_000  # A loop of more attempts has been gated long before.


T = TypeVar("T")


class SettingError(InputError):
    """A setting has a wrong value; the message begins with its name and a space.

    `texts` has a message for each wrong setting of the object.
    """

    def __init__(self, *texts: str) -> None:
        super().__init__(" ".join(texts))
        self.texts = texts


def refuse(problems: Iterable[str]) -> None:
    """Refuse the settings of an object that has problems, with a message for each.

    Raises:
        SettingError: if there is one.
    """
    if texts := tuple(problems):
        raise SettingError(*texts)


def setting(default: T, *, doc: str, **bounds: float) -> T:
    """Declare a setting: its default, its meaning, and of a number the bounds `ge` and `le`."""
    result: T = field(default=default, metadata={**bounds, "doc": doc})
    return result


def required(doc: str) -> Any:
    """Declare a setting without a default, by its meaning."""
    return field(metadata={"doc": doc})


def numbers(owner: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return each `setting` of a dataclass: its value, and its bounds and sentence."""
    declared = [item for item in fields(owner) if "ge" in item.metadata]
    return {item.name: (getattr(owner, item.name), dict(item.metadata)) for item in declared}


def check_bounds(name: str, settings: Mapping[str, tuple[Any, Mapping[str, Any]]]) -> None:
    """Check that all values are within their bounds.

    Raises:
        SettingError: if a value is not; the message has the owner's name and the setting's.
    """
    for key, (value, about) in settings.items():
        if not about["ge"] <= value <= about["le"]:
            raise SettingError(
                f"{name}.{key} is {value}; it must be between {about['ge']} and {about['le']}."
            )


class Bounds(TypedDict):
    """The declaration of a number by `setting`: its least and greatest value, and its meaning."""

    ge: int
    le: int
    doc: str


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder: from this many attempts on, a finding asks for this action.

    A gate at a learned limit has the share of solved runs that it promises to lose at most, and the
    share of tasks in which it only warns, so that the promise can be tested.
    """

    attempts: int
    action: Action
    lost_percent: float = 0.0
    spared_percent: int = 0


def ladder_setting(default: tuple[Rung, ...]) -> tuple[Rung, ...]:
    """Declare the ladder of a rule, which is also a setting: its default, with rising attempts."""
    result: tuple[Rung, ...] = field(default=default)
    return result


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop, as input for a rule's sentence."""

    labels: tuple[str, ...]  # of the turns that the others repeat, such as run_tests(a.py)
    attempts: int
    failed: bool  # true where every turn of the loop is known to have failed
    phase: str | None = None  # of the last turn, and the one before it
    phase_before: str | None = None
    phases: tuple[str, ...] = ()  # of the turns that the others repeat
    reworded: bool = False  # some requests mean the same in other words
    what: int = 0  # the code of what repeats, as the evaluation has it


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of a rule at every turn of a lane; all columns have one element for each turn.

    A loop fires at a turn when `reached` is at least `needed`. It then spans the last `length`
    turns of the lane. It continues if a later turn sees a loop of the same period and the same
    `what` that begins within it.
    """

    reached: Codes  # number of attempts, or rounds of a cycle, that end here
    needed: int | Codes  # one for all turns, or one for each turn if settings differ between them
    period: Codes  # turns in one round; 1 where one thing repeats
    length: Codes  # turns from the first of the loop to this one
    what: Codes  # code of the repeated turns, the same at every turn that sees the same loop
    # Which turns of its span belong to a loop: all, those with the same `what`, or those at which
    # it fired. The last is for a `reached` that counts from the start of the task: such a loop goes
    # on however far its turns lie apart, and its attempts are what its last turn has reached.
    spans: Literal["all", "same", "fired"] = "all"

    @property
    def fires(self) -> Flags:
        """The turns at which the loop is long enough to be a finding."""
        return self.reached >= self.needed


@dataclass(frozen=True, slots=True)
class Rule(ABC):
    """A rule: a frozen dataclass whose fields are its settings.

    The first sentence of its docstring says what the rule finds. *Looping* and *Not looping* list
    turns in the notation of `looptrace.analyzer.testing.notation`; tests run them.

    Raises:
        SettingError: if a setting is outside its bounds.
    """

    name: ClassVar[str]
    lane: ClassVar[LaneSpec]
    # The needs of a turn at which the rule may fire; other turns are not evaluated.
    needs: ClassVar[Need] = ALWAYS
    # Whether its findings are exact matches. A judge may be asked about other findings.
    exact: ClassVar[bool] = True
    # Whether the rule may treat paraphrases as equal. Such a finding is exact only if the texts are
    # identical.
    compares_meaning: ClassVar[bool] = False
    # Whether it is on by default.
    on_by_default: ClassVar[bool] = True
    # Whether it reads the texts of its lane, which are kept for such rules only.
    reads_texts: ClassVar[bool] = False
    # Whether it reads how long turns took, and fires only at turns of `seconds_min` or more, or
    # after a pause of as long.
    reads_times: ClassVar[bool] = False
    checked: ClassVar[Checked] = "with_loops"
    # Whether its attempts are percents of a limit.
    counts_percents: ClassVar[bool] = False
    # Whether `calibrate` may learn its limit: it counts without asking what is the same.
    learns_limit: ClassVar[bool] = False
    # The actions that its ladder may have; a rule that only guesses may have few.
    actions: ClassVar[tuple[Action, ...]] = ACTIONS

    def __post_init__(self) -> None:
        _check_ladder(f"{self.name}.ladder", self.ladder, self.actions)
        _check_promises(f"{self.name}.ladder", self.ladder, learns_limit=self.learns_limit)
        check_bounds(self.name, self.settings())

    if TYPE_CHECKING:
        # The actions by number of attempts; each rule has a field of `ladder_setting`.
        ladder: tuple[Rung, ...] = field(init=False)
    else:  # Type checkers refuse a field in place of a property.

        @property
        @abstractmethod
        def ladder(self) -> tuple[Rung, ...]:
            """Refuse a rule without a ladder."""

    @property
    @abstractmethod
    def lookback(self) -> int:
        """The number of turns of its lane, including the turn itself, on which a result depends."""

    @property
    def seconds_min(self) -> int:
        """The seconds that a turn at which the rule fires takes at least, or the pause before."""
        return 0

    @abstractmethod
    def evaluate(self, lane: Lane) -> Evaluation:
        """Return the state of a loop at every turn of the lane."""

    @abstractmethod
    def say(self, loop: Loop) -> str:
        """Return a sentence about a loop, without its turn numbers."""

    def action(self, attempts: int, seconds: float = inf) -> Action:  # noqa: ARG002
        """Return the highest rung of the ladder that this many attempts reach.

        `seconds` is the duration of the loop; most rules ignore it.
        """
        reached = [rung.action for rung in self.ladder if attempts >= rung.attempts]
        return reached[-1] if reached else self.ladder[0].action

    def settings(self) -> dict[str, tuple[int, Bounds]]:
        """Return each number's value, and its bounds and sentence (`ge`, `le`, `doc`)."""
        return cast("dict[str, tuple[int, Bounds]]", numbers(self))


@lru_cache
def constant(value: int, count: int) -> Codes:
    """Return a read-only array that repeats one value, in the memory of one.

    `np.broadcast_to` takes as long as a rule needs for a few turns.
    """
    return np.ndarray(count, np.int64, np.int64(value).tobytes(), strides=(0,))


def counts(reached: Codes, needed: int, what: Codes) -> Evaluation:
    """Return the evaluation of a rule that counts from the start of the task."""
    one = constant(1, len(reached))
    return Evaluation(reached, needed, one, one, what, spans="fired")


def among(reached: Codes, needed: int, what: Codes, length: Codes) -> Evaluation:
    """Return the evaluation of a rule that counts equal turns among the last `length` of a lane."""
    one = constant(1, len(reached))
    return Evaluation(reached, needed, one, length, what, spans="same")


def cycles(codes: Codes, pattern: Pattern, needed: int) -> Evaluation:
    """Return the evaluation of a rule that counts the rounds of a pattern of codes."""
    period = pattern.period
    return Evaluation(pattern.reached, needed, period, needed * period, gathered(codes, period))


def repeats(reached: Codes, needed: int, what: Codes) -> Evaluation:
    """Return the evaluation of a rule that counts one thing in a row."""
    period = constant(1, len(reached))
    return Evaluation(reached, needed, period, constant(needed, len(reached)), what)


def _check_ladder(name: str, ladder: tuple[Rung, ...], actions: tuple[Action, ...]) -> None:
    """Refuse a ladder that is empty or too long, has an unknown action, or leads downwards."""
    if not 1 <= len(ladder) <= RUNGS_MAX:
        raise SettingError(f"{name} has {len(ladder)} rungs; it must have 1 to {RUNGS_MAX}.")
    for rung in ladder:
        if rung.action not in actions:
            known = ", ".join(actions)
            raise SettingError(f"{name} has the action {rung.action!r}; the actions are: {known}.")
        if not 1 <= rung.attempts <= RUNG_ATTEMPTS_MAX:
            raise SettingError(
                f"{name} has a rung at {rung.attempts} attempts; "
                f"it must be between 1 and {RUNG_ATTEMPTS_MAX}."
            )
    for lower, upper in pairwise(ladder):
        if upper.attempts <= lower.attempts:
            raise SettingError(
                f"{name} goes from {lower.attempts} to {upper.attempts} attempts; they must rise."
            )
        if ACTIONS.index(upper.action) < ACTIONS.index(lower.action):
            raise SettingError(
                f"{name} goes from {lower.action} to {upper.action}; "
                f"an action must not be milder than the one before it ({' < '.join(ACTIONS)})."
            )


# A promise of more than half of the runs is none, and so is a gate that spares more than half.
LOST_PERCENT_MAX = SPARED_PERCENT_MAX = 50


def _check_promises(name: str, ladder: tuple[Rung, ...], *, learns_limit: bool) -> None:
    """Refuse a promise or spared tasks where there is no gate at a learned limit."""
    for rung in ladder:
        if not 0 <= rung.lost_percent <= LOST_PERCENT_MAX:
            raise SettingError(f"{name} has lost_percent {rung.lost_percent}; {_UP_TO_HALF}")
        if not 0 <= rung.spared_percent <= SPARED_PERCENT_MAX:
            raise SettingError(f"{name} has spared_percent {rung.spared_percent}; {_UP_TO_HALF}")
        if rung.lost_percent and not (learns_limit and rung.action == "gate"):
            raise SettingError(
                f"{name} has lost_percent, which is for gates at limits that `calibrate` learned."
            )
        if rung.spared_percent and not rung.lost_percent:
            raise SettingError(
                f"{name} has spared_percent without lost_percent: only a promise is tested so."
            )


_UP_TO_HALF = f"it must be between 0 and {LOST_PERCENT_MAX}."
