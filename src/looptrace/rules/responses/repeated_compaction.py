"""The rule `repeated_compaction`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, among, ladder_setting, setting
from looptrace.rules.counting import WindowRule
from looptrace.rules.needs import has
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import pair, same_among


@dataclass(frozen=True, slots=True)
class RepeatedCompaction(WindowRule):
    """An agent's history is compacted again and again, to the same summary, without any work.

    A compacted history is known by the trace. The response to it is the same each time, and no
    call of the task did more than look in between. Summaries that differ, or work between them,
    are those of a long task.

    ## Looping
    - `(say("The tests fail.", compacted=yes) read(a)->text read(b)->text) x3`

    ## Not looping
    - `(say("The tests fail.", compacted=yes) read(a)->text) x2`: twice may be bad luck.
    - `(say("Part {n} is done.", compacted=yes) read(part{n})->text) x9`: other summaries.
    - `(say("Compacted.", compacted=yes) edit({n})->ok) x9`: it works.
    - `(say(?, compacted=yes) read(a)->text) x3`: the summaries are unknown.
    - `(user("Go on, {n}.") say("Noted.", compacted=yes)) x9`: a person asks.
    """

    name = "repeated_compaction"
    compared = "responses"
    lane = LaneSpec(by="agent", kinds=("model",))
    needs = has("compacted")

    attempts_min: int = setting(
        3, ge=2, le=50, doc="Compactions to the same summary, without work, that make a loop."
    )
    window: int = setting(
        60, ge=2, le=100, doc="Last responses among which they are counted, including the newest."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "pivot"), Rung(8, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the equal responses to compacted histories since the last work."""
        summary = pair(lane.turns.compacted[lane.rows], lane.works_seen + 1)
        reached = same_among(lane, summary, self.window)
        length = np.minimum(self.window, lane.position + 1)
        return among(reached, self.attempts_min, summary, length)

    def say(self, loop: Loop) -> str:
        """Say how often, and quote the summary."""
        times = f"the history was compacted {loop.attempts} times to the same summary"
        return f"{times}, “{loop.labels[0]}”"
