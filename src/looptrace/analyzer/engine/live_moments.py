"""What happened to tasks at some of their turns: loops that were seen, and resets."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from looptrace.analyzer.detect.stretches import Growth, Key, Stretch, continue_stretches
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.gates.state_machine import TaskState, advance
from looptrace.analyzer.gates.timeline import TaskReset, moments_of


class Happened(NamedTuple):
    """What happened to a task at some of its turns: loops that were seen, and resets."""

    loops: list[Stretch]
    resets: list[TaskReset]


class Standing(NamedTuple):
    """A task after some turn: its loops that may go on, and its state."""

    loops: dict[Key, Stretch]
    state: TaskState

    def without(self, ended: Set[Key]) -> Standing:
        """Return it without loops that have ended."""
        if ended.isdisjoint(self.loops):
            return self
        loops = {key: loop for key, loop in self.loops.items() if key not in ended}
        return Standing(loops, self.state)

    def with_gate(self, gated: TaskState | None) -> Standing:
        """Return it with the gate that was open in a state, if it has none."""
        if gated is None or self.state.gate is not None:
            return self
        return Standing(self.loops, replace(self.state, status=gated.status, gate=gated.gate))


class Passage(NamedTuple):
    """A task after some turns: how it stands, and the ended loops, the growth and the events."""

    standing: Standing
    ended: Sequence[Stretch]
    grown: Sequence[Growth]
    events: Sequence[GateEvent]


def passage(name: str, since: Standing, happened: Happened, recovery: Recovery) -> Passage:
    """Advance a task through what happened at some turns."""
    update = continue_stretches(since.loops, happened.loops)
    moments = moments_of(happened.resets, update.grown).get(name, ())
    state, events = advance(since.state, moments, recovery)
    return Passage(Standing(update.opened, state), update.ended, update.grown, events)


def still_open(
    loops: dict[Key, Stretch], epoch: int, resets_seen: int
) -> tuple[dict[Key, Stretch], list[Stretch]]:
    """Return the loops that may go on after the last settled turn, and those that a reset ended.

    The resets up to that turn are counted with completions and runs (`epoch`), and without them.
    """
    opened: dict[Key, Stretch] = {}
    over: list[Stretch] = []
    for key, loop in loops.items():
        outlasts = loop.rule.lane.outlasts_completion
        if loop.epoch == (resets_seen if outlasts else epoch):
            opened[key] = loop
        else:
            over.append(loop)
    return opened, over
