"""What happened to tasks at some of their turns: loops that were seen, and resets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from looptrace.analyzer.detect.loop_rows import LoopRow
from looptrace.analyzer.detect.stretches import Growth, Key, Stretch
from looptrace.analyzer.gates.state_machine import Moment
from looptrace.analyzer.gates.timeline import TaskReset, moments_of


class Happened(NamedTuple):
    """What happened to a task at some of its turns: loops that were seen, and resets."""

    loops: list[Stretch]
    resets: list[TaskReset]


def moments_in(name: str, happened: Happened, grown: Iterable[Growth]) -> Sequence[Moment]:
    """Return what happened to a task, in order."""
    return moments_of(happened.resets, grown).get(name, ())


def still_open(
    loops: dict[Key, Stretch], last: LoopRow
) -> tuple[dict[Key, Stretch], list[Stretch]]:
    """Return the loops that may go on after the last settled turn, and those that a reset ended."""
    opened: dict[Key, Stretch] = {}
    over: list[Stretch] = []
    for key, loop in loops.items():
        outlasts = loop.rule.lane.outlasts_completion
        if loop.epoch == (last.resets_seen if outlasts else last.epoch):
            opened[key] = loop
        else:
            over.append(loop)
    return opened, over
