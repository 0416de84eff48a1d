"""The section `outcomes` of the settings: what says of a run whether it was solved."""

import re
from dataclasses import dataclass
from math import inf
from typing import Annotated

from msgspec import Meta

from looptrace.rules.contract import SettingError, check_bounds, numbers, setting

_CHARS_MAX = 500
_WANTED = re.compile(r"(?P<name>[^=<>]+?)\s*(?P<how>>=|=)\s*(?P<what>[^=].*)")


@dataclass(frozen=True, slots=True)
class Solved:
    """The evaluation or attribute that says whether a run was solved, by a label or a value."""

    name: str
    label: str | None = None
    value_min: float = inf

    def holds(self, name: str, label: str | None, value: float | None) -> bool | None:
        """Return whether a run was solved; None by another evaluation, or without the score."""
        if name != self.name:
            return None
        if self.label is not None:
            return None if label is None else label == self.label
        return None if value is None else value >= self.value_min


def solved_where(text: str) -> Solved:
    """Return the condition in a text such as `correctness=pass` or `correctness>=0.8`.

    Raises:
        ValueError: if the text has no name and score.
    """
    if (found := _WANTED.fullmatch(text.strip())) is None:
        raise ValueError(f"{text!r} is not a condition")
    if found["how"] == "=":
        return Solved(found["name"], label=found["what"])
    return Solved(found["name"], value_min=float(found["what"]))


@dataclass(frozen=True, slots=True)
class OutcomeSources:
    """What in a store says whether runs were solved, and how often a server asks."""

    evaluation: Annotated[str, Meta(min_length=1, max_length=_CHARS_MAX)] = setting(
        "",
        doc="The evaluation (`gen_ai.evaluation.result`) of solved runs: `NAME=LABEL`, "
        "or `NAME>=VALUE`.",
    )
    attribute: Annotated[str, Meta(min_length=1, max_length=_CHARS_MAX)] = setting(
        "", doc="The same for an attribute of any span of a run."
    )
    decisions: bool = setting(
        False,
        doc="Whether a person's `not_a_loop` means solved, and `cancel` not solved, "
        "where nothing else is known of a run.",
    )
    test_every_s: int = setting(
        3_600,
        ge=1,
        le=604_800,
        doc="Seconds between two tests of the promises of learned limits by a server.",
    )

    def __post_init__(self) -> None:
        check_bounds("outcomes", numbers(self))
        for name in ("evaluation", "attribute"):
            try:
                self._condition(name)
            except ValueError as error:
                raise SettingError(
                    f"outcomes.{name} is {getattr(self, name)!r}; write NAME=LABEL, or NAME>=VALUE."
                ) from error

    @property
    def are_known(self) -> bool:
        """Whether anything says of runs how they ended."""
        return bool(self.evaluation or self.attribute or self.decisions)

    @property
    def by_evaluation(self) -> Solved | None:
        """The condition on evaluations."""
        return self._condition("evaluation")

    @property
    def by_attribute(self) -> Solved | None:
        """The condition on attributes."""
        return self._condition("attribute")

    def _condition(self, name: str) -> Solved | None:
        text = getattr(self, name)
        return solved_where(text) if text else None
