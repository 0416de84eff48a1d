"""The rule `cross_task_cycle`."""

from dataclasses import dataclass, replace

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, cycles, ladder_setting, setting
from looptrace.rules.turns import STATUSES, UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row, pair, shortest

PERIOD_MIN = 2  # Other rules find attempts at one task in a row.


@dataclass(frozen=True, slots=True)
class CrossTaskCycle(Rule):
    """An agent switches between 2 or 3 tasks, and none of them makes progress.

    A session's attempts at its tasks are one sequence here. Two attempts are equal if task,
    status, blockers and completed work are the same, and say that the task is done, what blocks
    it, or what was completed. A finding belongs to the session.

    ## Looping
    - `($a switch(blocked, b is missing) $b switch(blocked, a is missing)) x3`
    - `($a switch(done)->page $b switch(done)->form $c switch(done)->mail) x3`

    ## Not looping
    - `($a switch(blocked, b is missing) $b switch(blocked, a is missing)) x2`: it may work out.
    - `($a switch(in_progress)->"page {n}" $b switch(in_progress)->"form {n}") x9`: both progress.
    - `($a switch(blocked, key) $b switch(in_progress)->"form {n}") x9`: one of them progresses.
    - `($a switch(in_progress) $b switch(in_progress)) x9`: the completed work is unknown.
    - `$a switch(blocked, key) x9`: one task is not a cycle.
    """

    name = "cross_task_cycle"
    lane = LaneSpec(by="task", kinds=("switch",))

    rounds_min: int = setting(3, ge=2, le=20, doc="Full rounds of the tasks that make a loop.")
    tasks_max: int = setting(
        3, ge=2, le=8, doc="Tasks in the longest round that the rule looks for."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"), Rung(5, "gate")))

    @property
    def lookback(self) -> int:
        """All rounds of the longest pattern."""
        return self.rounds_min * self.tasks_max

    def evaluate(self, lane: Lane) -> Evaluation:
        """Find at each attempt the shortest round of tasks with enough repeats."""
        done, blocked = (lane.status == STATUSES.index(name) + 1 for name in ("done", "blocked"))
        blockers, work = (np.where(one == UNKNOWN, 1, one) for one in (lane.call, lane.outcome))
        is_known = done | (blocked & (lane.call != UNKNOWN)) | (lane.outcome != UNKNOWN)
        state = pair(pair(lane.subtask, lane.status), pair(blockers, work))
        state = np.where(is_known, state, UNKNOWN)
        periods = range(PERIOD_MIN, self.tasks_max + 1)
        pattern = shortest(lane, state, periods, self.rounds_min, self.tasks_max)
        several = in_a_row(lane, lane.subtask) < pattern.period
        pattern = replace(pattern, reached=np.where(several, pattern.reached, 0))
        return cycles(state, pattern, self.rounds_min)

    def say(self, loop: Loop) -> str:
        """Say how many tasks are in the round."""
        tasks = f"{len(loop.labels)} tasks {loop.attempts} times"
        return f"the agent went through {tasks}, without progress in any"
