"""Stretches: the turns at which a rule fired, joined to loops."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, pairwise, repeat
from typing import Any, NamedTuple

import numpy as np

from looptrace.analyzer.detect.loop_rows import LoopRow, TurnReader
from looptrace.analyzer.detect.rule_plugins import asked
from looptrace.analyzer.detect.shared_list import grown
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.payloads import names_in
from looptrace.rules.contract import Evaluation, Loop, Rule
from looptrace.rules.turns import Codes, Flags, Lane, Turns
from looptrace.rules.vocabulary import NS_PER_S

Key = tuple[str, str, str, int, int, int]


class Firing(NamedTuple):
    """A turn at which a loop was long enough that the rule fired, and the settings in force."""

    turn: int
    end_ns: int
    rule: Rule
    needed: int  # attempts at which the rule fires
    counted: int | None  # attempts, if they count from the start of the task


@dataclass(frozen=True)  # Without slots: what each moment of a loop needs is kept.
class Stretch:
    """A loop as one rule sees it: its task and agent, what repeats, and its turns in order."""

    task: str
    agent: str
    epoch: int
    period: int
    what: int
    first: tuple[LoopRow, ...]  # the turns of one round, which the others repeat
    last: LoopRow
    failing: int  # how many turns, from the first on, are known to have failed
    verbatim: int  # how many, from the first on, ask for the same, word by word
    by_first: int  # how many, from the first on, are turns of the agent of the first
    turn: Sequence[int]
    trace_id: Sequence[str]
    span_id: Sequence[str]
    fired: Sequence[Firing]

    @property
    def rule(self) -> Rule:
        """The rule as it was at the last turn that fired."""
        return self.fired[-1].rule

    @cached_property
    def key(self) -> Key:
        """The key that two parts of one loop share."""
        return (self.rule.name, self.task, self.agent, self.epoch, self.period, self.what)

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that one round calls, each once, in order."""
        names = (row.name for row in self.first if row.kind == "tool" and row.name)
        return tuple(dict.fromkeys(names))

    @property
    def attempts(self) -> int:
        """How many times the action, or the round of actions, was done."""
        return self.attempts_at(self.fired[-1])

    @property
    def failed(self) -> bool:
        """Whether every turn is known to have failed."""
        return self.failing == len(self.turn)

    def attempts_at(self, fired: Firing) -> int:
        """How many attempts there were when the rule fired."""
        return fired.counted or bisect_right(self.turn, fired.turn) // self.period

    def attempts_since(self, turn: int, fired: Firing) -> int:
        """Return how many attempts after a turn there were when the rule fired.

        If attempts count from the start of the task, return those since the rule last fired at or
        before that turn.
        """
        if fired.counted is None:
            turns = bisect_right(self.turn, fired.turn) - bisect_right(self.turn, turn)
            return turns // self.period
        fired_before = bisect_right(self.fired, turn, key=lambda each: each.turn)
        before = self.fired[fired_before - 1].counted if fired_before else None
        return max(fired.counted - (before or 0), 0)

    def agent_at(self, fired: Firing) -> str:
        """Return the agent of all turns of the loop when the rule fired; "" for several agents."""
        return self.first[0].agent if self.by_first > self.index_of(fired) else ""

    @cached_property
    def id(self) -> str:
        """The id of the finding; it stays the same however long the loop grows.

        It does not depend on the names of task or agent, which may come with a later span.
        """
        first = self.first[0]
        identity = (self.rule.name, first.trace_id, first.span_id)
        return digest("\x1f".join((*identity, first.call_id or "", str(self.period))))

    @cached_property
    def signature(self) -> str:
        """The signatures of the turns of one round."""
        return " → ".join(row.sign for row in self.first)

    @cached_property
    def signature_coarse(self) -> str:
        """The coarse signatures of the turns of one round; "" if any turn has none."""
        signs = [row.sign_coarse for row in self.first]
        return " → ".join(signs) if all(signs) else ""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The turns of one round as a person would name them."""
        return tuple(row.label for row in self.first)

    @cached_property
    def blockers(self) -> tuple[str, ...]:
        """The blockers of the attempts of the loop, if the attempts name any."""
        first = self.first[0]
        if first.kind != "attempt" or first.arguments is None:
            return ()
        return names_in(first.arguments)

    def seconds_at(self, fired: Firing) -> float:
        """How long the loop had lasted when the rule fired."""
        return (fired.end_ns - self.first[0].start_ns) / NS_PER_S

    def reason_at(self, fired: Firing) -> str:
        """Describe the loop in words as it was when the rule fired."""
        loop = Loop(
            labels=self.labels,
            attempts=self.attempts_at(fired),
            failed=self.failing > self.index_of(fired),
            reworded=self.reworded_at(fired),
            what=self.what,
            phase=self.last.phase,
            phase_before=self.last.phase_before,
            phases=tuple(row.phase or "" for row in self.first),
        )
        return f"{asked(fired.rule, fired.rule.say, loop)}, turns {self.first[0].turn}–{fired.turn}"

    def reworded_at(self, fired: Firing) -> bool:
        """Return whether some turn equalled the first only in meaning when the rule fired."""
        return fired.rule.compares_meaning and self.verbatim <= self.index_of(fired)

    def exact_at(self, fired: Firing) -> bool:
        """Return whether the turns were the same beyond doubt when the rule fired."""
        return fired.rule.exact and not self.reworded_at(fired)

    def index_of(self, fired: Firing) -> int:
        """Return the index, in the loop, of the turn at which the rule fired."""
        return bisect_right(self.turn, fired.turn) - 1

    def continues(self, before: Stretch) -> bool:
        """Return whether this loop is the continuation of an earlier one."""
        return self.fired[0].counted is not None or self.turn[0] <= before.turn[-1]

    def joined(self, later: Stretch) -> Stretch:
        """Return both as one; shared turns count once."""
        new = bisect_right(later.turn, self.turn[-1])
        fired = bisect_right(later.fired, self.fired[-1].turn, key=lambda fired: fired.turn)
        failing, verbatim, by_first = self.failing, self.verbatim, self.by_first
        if self.failed and later.failing >= new:
            failing += later.failing - new
        if verbatim == len(self.turn) and later.verbatim >= new:
            verbatim += later.verbatim - new
        same_agent = self.first[0].agent == later.first[0].agent
        if by_first == len(self.turn) and later.by_first >= new and same_agent:
            by_first += later.by_first - new
        return replace(
            self,
            last=later.last,
            failing=failing,
            verbatim=verbatim,
            by_first=by_first,
            fired=grown(self.fired, later.fired[fired:]),
            turn=grown(self.turn, later.turn[new:]),
            trace_id=grown(self.trace_id, later.trace_id[new:]),
            span_id=grown(self.span_id, later.span_id[new:]),
        )


class Growth(NamedTuple):
    """A loop, and a turn at which its rule fired; the loop may have grown since."""

    loop: Stretch
    fired: Firing

    @property
    def attempts(self) -> int:
        """The attempts of the loop up to that turn."""
        return self.loop.attempts_at(self.fired)


class StretchUpdate(NamedTuple):
    """Stretches that are still open, stretches that ended, and the growth of all of them."""

    opened: dict[Key, Stretch]
    ended: list[Stretch]
    grown: list[Growth]


def continue_stretches(opened: dict[Key, Stretch], later: Sequence[Stretch]) -> StretchUpdate:
    """Continue open stretches with later ones.

    A later stretch with the same key continues an open one if it begins within it. Otherwise it
    ends the open one.
    """
    still = dict(opened)
    ended: list[Stretch] = []
    grown: list[Growth] = []
    for stretch in later:
        before = still.get(stretch.key)
        continues = before and stretch.continues(before)
        after = before.joined(stretch) if before and continues else stretch
        if before and not continues:
            ended.append(before)
        seen = len(before.fired) if before and continues else 0
        grown += [Growth(after, fired) for fired in after.fired[seen:]]
        still[stretch.key] = after
    return StretchUpdate(still, ended, grown)


@dataclass(frozen=True, slots=True)
class LaneEvaluation:
    """The result of a rule at every turn of its lane, by the form in force at that turn."""

    rules: tuple[Rule, ...]
    lane: Lane
    evaluation: Evaluation
    held: Codes  # index into `rules`, or `OFF`


@dataclass(frozen=True, slots=True)
class StretchRows:
    """A stretch before its turns are read: the rows of the table that belong to it."""

    period: int
    what: int
    rows: Codes
    fired: Codes  # the rows at which the rule fired
    rules: list[Rule]  # the form of the rule at each of them
    needed: list[int]
    counted: list[int] | None  # attempts at each of them, if they count from the task's start
    outlasts_completion: bool  # as the lane says


def stretch_rows(lane_evaluation: LaneEvaluation, fires: Codes) -> Iterator[StretchRows]:
    """Join the firing turns of a lane to stretches.

    A firing turn continues a stretch of its kind if its loop began within that stretch.
    """
    lane, evaluation = lane_evaluation.lane, lane_evaluation.evaluation
    if not len(fires):
        return
    lane_start, period, what = (
        fires - lane.position[fires],
        evaluation.period[fires],
        evaluation.what[fires],
    )
    order = np.lexsort((fires, what, period, lane_start))
    fires, period, what, lane_start = fires[order], period[order], what[order], lane_start[order]
    since = np.maximum(fires - evaluation.length[fires] + 1, lane_start)
    begins = np.ones(len(fires), dtype=np.bool_)
    begins[1:] = (since[1:] > fires[:-1]) & (evaluation.spans != "fired")
    for column in (lane_start, period, what):
        begins[1:] |= column[1:] != column[:-1]
    forms = lane_evaluation.rules
    rules = [forms[0]] * len(fires)
    if len(forms) > 1:
        rules = [forms[form] for form in lane_evaluation.held[fires].tolist()]
    needed = np.broadcast_to(evaluation.needed, lane.rows.shape)[fires].tolist()
    counted = evaluation.reached[fires].tolist() if evaluation.spans == "fired" else None
    outlasts = forms[0].lane.outlasts_completion
    fired = lane.rows[fires]
    begin, last, of_period, of_what = (each.tolist() for each in (since, fires, period, what))
    borders = [*begins.nonzero()[0].tolist(), len(fires)]
    for start, end in pairwise(borders):
        rows = fired[start:end]
        if evaluation.spans != "fired":
            places = slice(begin[start], last[end - 1] + 1)
            rows = lane.rows[places]
            if evaluation.spans == "same":
                rows = rows[evaluation.what[places] == of_what[start]]
        yield StretchRows(
            rules=rules[start:end],
            needed=needed[start:end],
            period=of_period[start],
            what=of_what[start],
            rows=rows,
            fired=fired[start:end],
            counted=counted[start:end] if counted is not None else None,
            outlasts_completion=outlasts,
        )


def read_stretches(
    turns: Turns, reader: TurnReader, stretches: Sequence[StretchRows]
) -> list[Stretch]:
    """Read the turns of all stretches from the counted turns at once.

    The turns of one round and the last turn are read in full; only the ids are read of the rest.
    """
    if not stretches:
        return []
    rows = np.concatenate([members.rows for members in stretches])
    ends = np.cumsum([len(members.rows) for members in stretches])
    starts = np.concatenate([[0], ends[:-1]])
    failing = _prefixes(turns.failed[rows], starts, ends)
    call = turns.call[rows]
    verbatim = _prefixes(call == np.repeat(call[starts], ends - starts), starts, ends)
    agent = turns.agent[rows]
    by_first = _prefixes(agent == np.repeat(agent[starts], ends - starts), starts, ends)
    fired = _fired(reader, stretches)
    ids = [reader.column(name, rows) for name in ("turn", "trace_id", "span_id")]
    rounds = [members.rows[: members.period] for members in stretches]
    read = list(reader.turns(np.concatenate([*rounds, rows[ends - 1]])))
    first, last = iter(read), iter(read[-len(stretches) :])
    borders = zip(starts.tolist(), ends.tolist(), strict=True)
    return [
        _stretch(members, tuple(islice(first, members.period)), next(last), alike, part, at)
        for members, alike, part, at in zip(
            stretches,
            zip(failing, verbatim, by_first, strict=True),
            ([tuple(column[a:b]) for column in ids] for a, b in borders),
            fired,
            strict=True,
        )
    ]


def _prefixes(holds: Flags, starts: Codes, ends: Codes) -> list[int]:
    """Count in each part the elements from its start that hold, up to the first that does not."""
    broken = np.append((~holds).nonzero()[0], len(holds))
    first = broken[np.searchsorted(broken, starts)]
    lengths: list[int] = (np.minimum(first, ends) - starts).tolist()
    return lengths


def _fired(reader: TurnReader, stretches: Sequence[StretchRows]) -> Iterator[tuple[Firing, ...]]:
    """Read the firings of each stretch."""
    rows = np.concatenate([members.fired for members in stretches])
    every = map(
        Firing._make,
        zip(
            reader.column("turn", rows),
            reader.column("end_ns", rows),
            chain.from_iterable(members.rules for members in stretches),
            chain.from_iterable(members.needed for members in stretches),
            chain.from_iterable(
                members.counted or repeat(None, len(members.fired)) for members in stretches
            ),
            strict=True,
        ),
    )
    return (tuple(islice(every, len(members.fired))) for members in stretches)


def _stretch(
    members: StretchRows,
    first: tuple[LoopRow, ...],
    last: LoopRow,
    alike: tuple[int, int, int],
    ids: list[tuple[Any, ...]],
    fired: tuple[Firing, ...],
) -> Stretch:
    turn, trace_id, span_id = ids
    failing, verbatim, by_first = alike
    return Stretch(
        task=last.task,
        agent=last.agent if members.rules[0].lane.by == "agent" else "",
        # In a lane that goes on after a completion, one loop may cross the completion.
        epoch=last.resets_seen if members.outlasts_completion else last.epoch,
        period=members.period,
        what=members.what,
        first=first,
        last=last,
        failing=failing,
        verbatim=verbatim,
        by_first=by_first,
        turn=turn,
        trace_id=trace_id,
        span_id=span_id,
        fired=fired,
    )
