"""The four rules as a plain loop over turns: the obvious first version, and an oracle.

It is written from the description of the rules and shares no code with them. Each lane is a small
state machine of ints, lists and dicts that sees one turn after the other and never looks ahead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

# The columns that the loop reads, in this order.
COLUMNS = (
    "task",
    "agent",
    "kind",
    "turn",
    "call_code",
    "outcome_code",
    "signature_code",
    "response_code",
    "external",
    "only_reads",
    "failed",
    "start_ns",
    "end_ns",
)
Row = tuple[str, str, str, int, int, int, int, int, bool, bool, bool | None, int, int]

RULES = ("repeated_call", "signature_repeat", "response_repeat", "cycle")

# Rule, task, agent, first turn, last turn, attempts, period.
Loop = tuple[str, str, str, int, int, int, int]

# Within one lane: first turn, last turn, attempts, period.
Part = tuple[int, int, int, int]

# The code of unknown values; it equals nothing, including itself.
UNKNOWN = 0

PERIOD_MIN = 2

# Pauses that grow by this factor, and are not short, are a back-off.
BACK_OFF = 1.5
GAP_MIN_NS = 1_000_000_000
# A task stands still if nothing runs for so long.
STILL_MIN_NS = 4_000_000_000
# An agent looks at so many things in turn while it waits: as many as a round may have.
CALLS_COMPARED = 40

Same = tuple[int, int] | int
PAIR = 2


@dataclass(frozen=True, slots=True)
class Settings:
    """The attempts, responses and rounds of a loop, and the longest pattern of a cycle."""

    calls_min: int
    signatures_min: int
    responses_min: int
    rounds_min: int
    period_max: int


DEFAULT = Settings(calls_min=3, signatures_min=3, responses_min=3, rounds_min=3, period_max=40)


@dataclass(slots=True)
class Run:
    """Counts equal things in a row; a run that is long enough is a loop."""

    needed: int
    same: Same = UNKNOWN
    attempts: int = 0
    first: int = 0
    last: int = 0
    ended: list[Part] = field(default_factory=list)

    def see(self, same: Same, turn: int) -> None:
        """Take the next turn of the lane."""
        if same == self.same and same != UNKNOWN:
            self.attempts += 1
            self.last = turn
            return
        self.end()
        self.same, self.attempts, self.first, self.last = same, 1, turn, turn

    def end(self) -> None:
        """Close the run."""
        if self.attempts >= self.needed:
            self.ended.append((self.first, self.last, self.attempts, 1))
        self.attempts, self.same = 0, UNKNOWN


@dataclass(slots=True)
class Waits:
    """Counts the waits of a task; a wait of one agent is one of all."""

    count: int = 0
    end_ns: int | None = None  # of the last turn


@dataclass(slots=True)
class Look:
    """A call of an agent, with what was known when it ended."""

    same: Same
    end_ns: int
    gap_ns: int  # since the call before it, if that is equal
    done: int
    waits: int
    still_ns: int


@dataclass(slots=True)
class Looks:
    """Recognises polls: equal quiet calls, after a pause that grows as in a back-off.

    A call is quiet if it only looks at something, or if it is fine and came shortly before. After
    a response the task must have stood still, because a model may have thought longer. It knows no
    other waits, because the compared turns have none.
    """

    seen: list[Look] = field(default_factory=list)
    done: int = 0
    spoke: bool = False  # the agent's last turn is a response
    still_ns: int = 0  # how long the task stood still before turns of the agent

    def polls(self, same: Same, looks: bool, fine: bool, end_ns: int, waits: Waits) -> bool:
        """Take the next call of the agent, and return whether it is a poll."""
        equal = [one for one in self.seen[-CALLS_COMPARED:] if one.same == same != UNKNOWN]
        if not looks and not (fine and equal):
            self.done += 1
        gap_ns, again = 0, bool(equal) and equal[-1].done == self.done
        if again and equal[-1] is self.seen[-1]:
            gap_ns = end_ns - equal[-1].end_ns
            grows = gap_ns >= BACK_OFF * equal[-1].gap_ns > 0 and gap_ns >= GAP_MIN_NS
            paused = not self.spoke or self.still_ns > equal[-1].still_ns
            waits.count += looks and grows and paused
        self.spoke = False
        self.seen.append(Look(same, end_ns, gap_ns, self.done, waits.count, self.still_ns))
        return again and waits.count > equal[-1].waits


@dataclass(slots=True)
class Answers:
    """Counts equal responses to equal news; the news of a loop's first response is free.

    What comes after a wait is news.
    """

    needed: int
    response: int = UNKNOWN
    news: int = UNKNOWN
    waits: int = 0
    responses: int = 0
    unchanged: int = 0
    turns: list[int] = field(default_factory=list)
    open: tuple[int, int] | None = None
    what: tuple[int, int] = (UNKNOWN, UNKNOWN)
    ended: list[Part] = field(default_factory=list)

    def see(self, response: int, news: int, waits: int, turn: int) -> None:
        """Take the next turn of the lane."""
        here = len(self.turns)
        self.turns.append(turn)
        old = news == self.news != UNKNOWN and waits == self.waits
        self.unchanged = self.unchanged + 1 if old else 0
        self.responses = self.responses + 1 if response == self.response != UNKNOWN else 1
        self.response, self.news, self.waits = response, news, waits
        # Two responses have one piece of news between them that must be the same as before; where
        # two are a loop, the news of both must be.
        known = UNKNOWN not in (response, news)
        free = 1 if self.needed == PAIR else 2
        if not known or min(self.responses, self.unchanged + free) < self.needed:
            return
        since = here - self.needed + 1
        if self.open and since <= self.open[1] and self.what == (response, news):
            since = self.open[0]
        else:
            self.end()
        self.open, self.what = (since, here), (response, news)

    def end(self) -> None:
        """Close the open loop."""
        if self.open:
            first, last = self.open
            self.ended.append((self.turns[first], self.turns[last], last - first + 1, 1))
        self.open = None


@dataclass(slots=True)
class Rounds:
    """Counts the rounds of a pattern of several turns; the shortest pattern wins."""

    rounds_min: int
    period_max: int
    seen: list[Same] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    alike: int = 0
    streaks: list[int] = field(default_factory=list)
    open: dict[tuple[Same, ...], tuple[int, int]] = field(default_factory=dict)
    ended: list[Part] = field(default_factory=list)

    def see(self, same: Same, turn: int) -> None:
        """Take the next turn of the lane."""
        if not self.streaks:
            self.streaks = [0] * (self.period_max + 1)
        seen, streaks = self.seen, self.streaks
        here, found = len(seen), 0
        known = same != UNKNOWN
        self.alike = self.alike + 1 if known and here and seen[-1] == same else int(known)
        for period in range(PERIOD_MIN, self.period_max + 1):
            if known and period <= here and seen[-period] == same:
                streaks[period] += 1
                long_enough = streaks[period] >= period * (self.rounds_min - 1)
                # Equal turns as many as the pattern is long are not a pattern of several turns.
                if long_enough and not found and self.alike < period:
                    found = period
            else:
                streaks[period] = 0
        seen.append(same)
        self.turns.append(turn)
        if found:
            self._grow(found, here)

    def _grow(self, period: int, here: int) -> None:
        since = here - period * self.rounds_min + 1
        # A pattern is the same from each of its turns.
        pattern = tuple(sorted(self.seen[-period:], key=hash))
        before = self.open.get(pattern)
        if before and since <= before[1]:
            since = before[0]
        elif before:
            self._close(period, *before)
        self.open[pattern] = since, here

    def _close(self, period: int, first: int, last: int) -> None:
        rounds = (last - first + 1) // period
        self.ended.append((self.turns[first], self.turns[last], rounds, period))

    def end(self) -> None:
        """Close all open loops."""
        for pattern, (first, last) in self.open.items():
            self._close(len(pattern), first, last)
        self.open = {}


@dataclass(slots=True)
class Lane:
    """The state of the rules for one agent of one task, between two messages of a person."""

    calls: Run
    signatures: Run
    answers: Answers
    rounds: Rounds
    looks: Looks

    @classmethod
    def of(cls, settings: Settings) -> Lane:
        """Return a lane that has seen no turn."""
        return cls(
            Run(settings.calls_min),
            Run(settings.signatures_min),
            Answers(settings.responses_min),
            Rounds(settings.rounds_min, settings.period_max),
            Looks(),
        )

    def ended(self) -> list[tuple[str, Part]]:
        """Close every loop and return all, with the names of their rules."""
        machines: tuple[Run | Answers | Rounds, ...] = (
            self.calls,
            self.signatures,
            self.answers,
            self.rounds,
        )
        found: list[tuple[str, Part]] = []
        for rule, machine in zip(RULES, machines, strict=True):
            machine.end()
            found += [(rule, part) for part in machine.ended]
        return found


def loops(rows: Iterable[Row], settings: Settings) -> list[Loop]:
    """Return the loops in ordered turns (`COLUMNS`), sorted."""
    found: list[Loop] = []
    lanes: dict[str, Lane] = {}
    current, waits = "", Waits()
    for row in rows:
        task, agent, kind, turn, call, outcome, signature, response = row[:8]
        external, looks, failed, start_ns, end_ns = row[8:]
        if task != current or kind == "user":
            found += _ended(current, lanes)
            last_ns = waits.end_ns if task == current else None
            lanes, current, waits = {}, task, Waits(end_ns=last_ns)
        idle_ns = 0 if waits.end_ns is None else start_ns - waits.end_ns
        waits.end_ns = end_ns
        if kind not in ("tool", "model"):
            continue
        lane = lanes.get(agent)
        if lane is None:
            lane = lanes[agent] = Lane.of(settings)
        lane.looks.still_ns += idle_ns if idle_ns >= STILL_MIN_NS else 0
        if kind == "model":
            lane.answers.see(response, call, waits.count, turn)
            lane.looks.spoke = True
            continue
        same: Same = UNKNOWN if UNKNOWN in (call, outcome) else (call, outcome)
        if lane.looks.polls(same, looks, not failed, end_ns, waits) or external:
            same = signature = UNKNOWN
        lane.calls.see(same, turn)
        lane.signatures.see(signature, turn)
        lane.rounds.see(same, turn)
    found += _ended(current, lanes)
    return sorted(found)


def _ended(task: str, lanes: dict[str, Lane]) -> list[Loop]:
    return [
        (rule, task, agent, *part) for agent, lane in lanes.items() for rule, part in lane.ended()
    ]
