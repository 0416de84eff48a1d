"""The rule `near_duplicate_output`."""

import re
from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, ladder_setting, repeats, setting
from looptrace.rules.turns import Flags, Lane, LaneSpec
from looptrace.rules.vocabulary import streak

# Of a longer output only the beginning and the end are compared, which show its kind and outcome.
_CHARS_MAX = 4_000
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class NearDuplicateOutput(Rule):
    """Several outputs in a row are almost alike.

    An output is the result of a tool or the words of a model. It is compared with the last
    outputs of its agent, letter by letter (the normalised distance of insertions and
    deletions). Outputs with different numbers are not alike, because work changes numbers.

    ## Looping
    - `look({n})->"The page of the orders could not be rendered by the old template engine" x3`
    - `say("I will now look at the failing login test again, step by step.") x3`

    ## Not looping
    - `look({n})->"The page of the orders could not be rendered by the old template engine" x2`
    - `look({n})->"Migrated {n}00 of 900 rows of the orders table to the new schema" x5`
    - `look({n})->ok x5`: too short to tell.
    - `look(a)->? x5`: the results are unknown.
    - `(user("And now?") look({n})->"There is nothing new in the inbox of the support team") x4`
    """

    name = "near_duplicate_output"
    lane = LaneSpec(by="agent", kinds=("tool", "model"))
    exact = False
    on_by_default = False
    reads_texts = True

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Outputs in a row, each like an earlier one, that make a loop."
    )
    similar_percent: int = setting(
        90, ge=50, le=100, doc="Percent of two outputs that must agree if they are alike."
    )
    window: int = setting(5, ge=1, le=50, doc="Earlier outputs to compare an output with.")
    chars_min: int = setting(
        40, ge=1, le=4_000, doc="Characters that an output must have to be compared."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "pivot"), Rung(7, "gate")))

    @property
    def lookback(self) -> int:
        """The outputs of a loop, and those with which the first of them is compared."""
        return self.attempts_min + self.window

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the outputs in a row that are like an earlier one."""
        alike = self._alike(lane)
        return repeats(streak(lane, alike) + 1, self.attempts_min, np.ones_like(lane.rows))

    def _alike(self, lane: Lane) -> Flags:
        texts = [_shortened(text) for text in lane.texts]
        alike = np.zeros(len(texts), dtype=np.bool_)
        for i, (text, position) in enumerate(zip(texts, lane.position.tolist(), strict=True)):
            before = texts[i - min(self.window, position) : i]
            alike[i] = any(self._are_alike(text, other) for other in before)
        return alike

    def _are_alike(self, text: str | None, other: str | None) -> bool:
        if text is None or other is None or min(len(text), len(other)) < self.chars_min:
            return False
        if _NUMBERS.findall(text) != _NUMBERS.findall(other):
            return False
        from rapidfuzz.fuzz import ratio  # noqa: PLC0415 - Few traces need it.

        return ratio(text, other, score_cutoff=self.similar_percent) >= self.similar_percent

    def say(self, loop: Loop) -> str:
        """Name the first turn."""
        return f"{loop.attempts} outputs in a row are almost alike, from {loop.labels[0]} on"


def _shortened(text: str | None) -> str | None:
    if text is None or len(text) <= _CHARS_MAX:
        return text
    half = _CHARS_MAX // 2
    return text[:half] + text[-half:]
