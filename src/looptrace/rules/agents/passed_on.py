"""The rule `passed_on`."""

import re
from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.turns import Flags, Lane, LaneSpec
from looptrace.rules.vocabulary import streak

# The beginning of a request says what it asks for; a longer request includes its material.
_CHARS_MAX = 4_000
_PERCENT = 100
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class PassedOn(RowRule):
    """A request goes from agent to agent, and nobody works on it.

    Each agent that is asked asks the next one, in almost the same words. A successful call, even
    one that only looks, ends the row. Where each agent waits for the answer of the next, the call
    may have come before the first answer, so a task in which any call succeeded is left out.

    ## Looping
    - `@a handoff(b, "Find out why the export is empty.") @b handoff(c, "Please find out why the
      export is empty.") @c handoff(d, "Find out why the export is empty, please.") @d handoff(e,
      "For e: find out why the export is empty.")`

    ## Not looping
    - `@a handoff(b, "Find out why the export is empty.") @b handoff(c, "Find out why the export is
      empty.") @c handoff(d, "Find out why the export is empty.")`: a chain of command may be as
      long.
    - `@a handoff(b, "Plan the new guide to exports.") @b handoff(c, "Write the new guide to
      exports.") @c handoff(d, "Check the new guide to exports.") @d handoff(e, "Print the new guide
      to exports.") @e handoff(f, "Send the new guide to exports.")`: each has work of its own.
    - `@a handoff(b, "Find out why the export is empty.") @b handoff(c, "Find out why the export is
      empty.") @c read(a)->text handoff(d, "Find out why the export is empty.") @d handoff(e, "Find
      out why the export is empty.") @e handoff(f, "Find out why the export is empty.")`: it looks.
    """

    name = "passed_on"
    lane = LaneSpec(by="task", kinds=("handoff",))
    exact = False  # The words may differ.
    reads_texts = True

    attempts_min: int = setting(
        4, ge=3, le=50, doc="Hand-offs of one request, each by the agent asked before, of a loop."
    )
    same_percent: int = setting(
        85, ge=50, le=100, doc="Percent of the words of the shorter request that both must have."
    )
    words_min: int = setting(
        5, ge=1, le=100, doc="Different words that a request must have to be compared."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(4, "warn"), Rung(6, "pivot"), Rung(8, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the hand-offs of one request from agent to agent."""
        passed = self._passed(lane)
        return repeats(streak(lane, passed) + 1, self.attempts_min, np.ones_like(lane.rows))

    def _passed(self, lane: Lane) -> Flags:
        """Return which hand-offs pass on the request of the one before, without work between."""
        asker, asked = lane.agent, lane.turns.name[lane.rows]
        calls = lane.turns.calls_seen[lane.rows]
        passed = np.zeros(len(lane.rows), dtype=np.bool_)
        onwards = asker[1:] == asked[:-1]
        # Who waits for an answer ends after the agent that was asked.
        waits = (asked[1:] == asker[:-1]) & (calls[1:] == 0)
        passed[1:] = (onwards | waits) & (calls[1:] == calls[:-1]) & (lane.position[1:] > 0)
        for i in passed.nonzero()[0].tolist():
            passed[i] = self._asks_the_same(lane.texts[i], lane.texts[i - 1])
        return passed

    def _asks_the_same(self, text: str | None, other: str | None) -> bool:
        shown, before = ((each or "")[:_CHARS_MAX].lower() for each in (text, other))
        if {*_NUMBER.findall(shown)} != {*_NUMBER.findall(before)}:
            return False
        words, known = {*_WORD.findall(shown)}, {*_WORD.findall(before)}
        fewer = min(len(words), len(known))
        both = len(words & known)
        return fewer >= self.words_min and _PERCENT * both >= self.same_percent * fewer

    def say(self, loop: Loop) -> str:
        """Name the first request."""
        return f"one request was passed on {loop.attempts} times, from {loop.labels[0]} on"
