"""The tasks that a live engine holds, of which the quiet ones are packed.

Most tasks that are held are over, and are there in case another span comes. Packed, the turns of a
task take a fifth to a tenth of their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import islice

from looptrace.analyzer.engine.live_moments import Standing
from looptrace.analyzer.engine.live_task import LiveTask
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.schema.turns import Turn
from looptrace.rules.vocabulary import NS_PER_S

# A task is quiet if it was not fed for so many rounds, and its last turn ended so many seconds
# before the newest one of the round. Rounds alone would pack tasks at work that are fed in turn,
# and time alone would trust the clocks of all agents.
QUIET_ROUNDS = 100
QUIET_S = 60
# At least so many quiet tasks may be packed in a round, else as many as were fed in it.
PACKED_A_ROUND = 4


class LiveTasks:
    """Tasks by name; the one that was fed last comes last."""

    def __init__(self, recall: Callable[[str], TaskState], tasks_max: int | None) -> None:
        """Hold at most `tasks_max` tasks; `recall` gives the state of one that is not held."""
        self.evicted = 0  # tasks dropped to make room for others
        self._recall = recall
        self._tasks_max = tasks_max
        self._tasks: dict[str, LiveTask] = {}
        self._awake: dict[str, int] = {}  # by name, the round in which it was used last
        self._round = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, name: str) -> bool:
        return name in self._tasks

    def __getitem__(self, name: str) -> LiveTask:
        """Return a task with its turns."""
        task = self._tasks[name]
        task.unpack()
        self._awake.pop(name, None)
        self._awake[name] = self._round
        return task

    def peek(self, name: str) -> LiveTask | None:
        """Return a task whose turns may be packed, or None."""
        return self._tasks.get(name)

    def every(self) -> Collection[LiveTask]:
        """Return all tasks, whose turns may be packed."""
        return self._tasks.values()

    def touch(self, names: Iterable[str]) -> None:
        """Hold these tasks, and make them the last to be dropped."""
        for name in names:
            task = self._tasks.pop(name, None)
            if task is None:
                # Counts start again with the next turn; a gate still waits for a person.
                state = self._recall(name)
                standing = Standing({}, state if state.gate else TaskState(name))
                task = LiveTask(standing, standing, recalled=state.gate is not None)
            self._tasks[name] = task

    def renew(self, name: str) -> list[Turn]:
        """Hold a task without its turns; return the decisions of persons in it."""
        before, standing = self[name], Standing({}, TaskState(name))
        self._tasks[name] = LiveTask(standing, standing)
        self._tasks[name].emitted_elsewhere.update(before.emitted_ever)
        return before.decisions

    def end_round(self, fed: Collection[LiveTask]) -> None:
        """Drop the tasks for which there is no room, and pack some quiet ones."""
        over = len(self._tasks) - (self._tasks_max or len(self._tasks))
        if over > 0:
            self.drop(list(islice(self._tasks, over)))
            self.evicted += over
        self._round += 1
        if fed:
            self._pack(max(PACKED_A_ROUND, len(fed)), max(task.newest_ns for task in fed))

    def _pack(self, count_max: int, now_ns: int) -> None:
        for name in list(islice(self._awake, count_max)):
            task = self._tasks[name]
            is_new = task.newest_ns > now_ns - QUIET_S * NS_PER_S
            if is_new or self._awake[name] >= self._round - QUIET_ROUNDS:
                return
            del self._awake[name]
            task.pack()

    def drop(self, names: Iterable[str]) -> None:
        """Drop tasks."""
        for name in names:
            del self._tasks[name]
            self._awake.pop(name, None)

    def forget(self, newest_ns: int) -> int:
        """Drop tasks whose turns are all settled by this time and that wait for nobody.

        Returns how many there were.
        """
        idle = [
            name
            for name, task in self._tasks.items()
            if task.settled_ns < newest_ns and not task.paused
        ]
        self.drop(idle)
        return len(idle)
