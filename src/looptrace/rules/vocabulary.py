"""The vocabulary of rules: functions over a lane.

Their columns have one element for each turn of the lane. A function respects the borders of its
lane and never treats unknown as equal. It only looks back, so its value at a turn does not change
when later turns arrive.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar, cast

import numpy as np

from looptrace.rules.turns import UNKNOWN, Codes, Figures, Flags, Lane, Meanings

__all__ = [
    "BILLIONTHS",
    "BUDGETED",
    "NS_PER_S",
    "SOFT_PERCENT",
    "Pattern",
    "alike_in_a_row",
    "answers_in_a_row",
    "attempts_among",
    "gathered",
    "in_a_row",
    "longer",
    "mirrored",
    "own",
    "pair",
    "recent",
    "rises",
    "rounds",
    "same_among",
    "same_as",
    "shortest",
    "streak",
    "used",
    "within",
]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern at each turn: the number of rounds that end there, and the turns of one."""

    reached: Codes
    period: Codes


NS_PER_S = 1_000_000_000
# Of the currency in which money is counted.
BILLIONTHS = 1_000_000_000
# What a budget limits, in the order of the columns.
BUDGETED = ("the task", "an agent of the task", "the task within a minute")
# The percent of a budget from which its use is reported.
SOFT_PERCENT = 80
PERCENTS = 100
_TIMES_MAX = 10

# The fewest answers that can be a loop.
_PAIR = 2

# Of each step of a pattern that may be there, so many turns more are looked at.
_PARTS = 4

# Sketches that are compared at once; the limit keeps memory from growing with the turns.
_SKETCHES_AT_ONCE = 4_096

# Turns of a lane up to which results are cached, for live detection, where many rules ask the same
# of few turns. With more turns it would take the memory of as many columns.
_KEPT_TURNS_MAX = 1_000

_MIX = np.int64(0x9E3779B97F4A7C15 - (1 << 64))  # odd, so that multiplying loses nothing


ResultT = TypeVar("ResultT")


def _kept(word: Callable[[Lane, Codes], ResultT]) -> Callable[[Lane, Codes], ResultT]:
    """Cache the result of a function for lanes of few turns; the result is read-only."""

    @wraps(word)
    def say(lane: Lane, codes: Codes) -> ResultT:
        if len(codes) > _KEPT_TURNS_MAX:
            return word(lane, codes)
        key = (word.__name__, codes.tobytes())
        said = lane.kept.get(key)
        if said is None:
            said = lane.kept[key] = word(lane, codes)
            if isinstance(said, np.ndarray):
                said.flags.writeable = False
        return cast("ResultT", said)

    return say


@_kept
def _all_differ(lane: Lane, codes: Codes) -> bool:  # noqa: ARG001
    """Return whether a few codes all differ for sure, so that none repeats."""
    if len(codes) > _KEPT_TURNS_MAX:
        return False
    in_order = np.sort(codes)
    same = in_order[1:] == in_order[:-1]
    return not same.any() or not (same & (in_order[1:] != UNKNOWN)).any()


def pair(first: Codes, second: Codes) -> Codes:
    """Return one code for two: equal if both are, unknown if either is."""
    mixed = (first * _MIX) ^ (second + (first >> 7))
    return np.where(
        (first == UNKNOWN) | (second == UNKNOWN), UNKNOWN, np.where(mixed == 0, 1, mixed)
    )


def same_as(lane: Lane, codes: Codes, back: int) -> Flags:
    """Return which turns are known to equal the turn `back` turns before them in their lane."""
    same = np.zeros(len(codes), dtype=np.bool_)
    same[_same_places(lane, codes, back)] = True
    return same


def _same_places(lane: Lane, codes: Codes, back: int, known: Flags | None = None) -> Codes:
    """Return the places of these turns, which are usually few; `known` says which codes are."""
    known = codes != UNKNOWN if known is None else known
    places = ((codes[back:] == codes[:-back]) & known[back:]).nonzero()[0] + back
    within_lane: Codes = places[lane.position[places] >= back]
    return within_lane


@_kept
def own(lane: Lane, codes: Codes) -> Codes:
    """Return the codes of turns that an agent may repeat; they change after progress.

    They are unknown for external failures, which count for no agent, and for polls: what waits
    repeats nothing.
    """
    counted = np.where(lane.external | lane.polls, UNKNOWN, codes)
    better = lane.improvements
    # By turn, because other tasks must not change the code of a turn.
    return np.where(better > 0, pair(counted, better + 1), counted) if better.any() else counted


def streak(lane: Lane, holds: Flags) -> Codes:
    """Count the turns in a row, up to each turn of its lane, for which `holds` is true."""
    counts = np.zeros(len(holds), dtype=np.int64)
    places = holds.nonzero()[0]  # Usually few, so only these are processed.
    counts[places] = _streaks(lane, places)
    return counts


def _streaks(lane: Lane, places: Codes) -> Codes:
    """Count at each of these places those in a row up to it, in its lane."""
    if not len(places):
        return places
    begins = np.ones(len(places), dtype=np.bool_)
    begins[1:] = (places[1:] > places[:-1] + 1) | (lane.position[places[1:]] == 0)
    order = np.arange(len(places))
    counts: Codes = order - np.maximum.accumulate(np.where(begins, order, 0)) + 1
    return counts


@_kept
def in_a_row(lane: Lane, codes: Codes) -> Codes:
    """Count the equal turns in a row up to and including each turn; 0 if it is unknown."""
    known: Codes = (codes != UNKNOWN).astype(np.int64)
    return known if _all_differ(lane, codes) else streak(lane, same_as(lane, codes, 1)) + known


def answers_in_a_row(lane: Lane, responses: Codes, least: int) -> Codes:
    """Count equal responses in a row up to each, back to the last new input.

    The input before the first response may be anything: it is the task. If two responses are enough
    (`least`), both must have the same input, or any two equal responses would do. Known responses
    to unknown input count 1. A wait between two responses is news.
    """
    nothing_new = streak(lane, same_as(lane, lane.call, 1) & same_as(lane, lane.waits_seen + 1, 1))
    answering = nothing_new + 1 + (least > _PAIR)
    answers = np.minimum(in_a_row(lane, responses), answering)
    return np.where(lane.call == UNKNOWN, np.minimum(answers, 1), answers)


def alike_in_a_row(lane: Lane, codes: Codes, limit: int) -> Codes:
    """Count the turns in a row that equal each turn or mean the same, up to it; 0 if unknown.

    Each of them is compared with the last one, so a row cannot drift away from its beginning. If
    meanings are compared, at most `limit` are counted.
    """
    meanings = lane.turns.meanings
    if meanings is None:
        return in_a_row(lane, codes)
    counts: Codes = (codes != UNKNOWN).astype(np.int64)
    for back in range(1, limit):
        same = same_as(lane, codes, back) | _means_same(lane, meanings, back)
        counts += same & (counts == back)
    return counts


def _means_same(lane: Lane, meanings: Meanings, back: int) -> Flags:
    """Return which turns mean the same as the turn `back` turns before them."""
    same = same_as(lane, meanings.subject[lane.rows], back)
    places, sketches = meanings.place[lane.rows], meanings.sketches
    every = same.nonzero()[0]
    for start in range(0, len(every), _SKETCHES_AT_ONCE):
        some = every[start : start + _SKETCHES_AT_ONCE]
        products = np.einsum("ij,ij->i", sketches[places[some]], sketches[places[some - back]])
        same[some] = products >= meanings.product_min
    return same


def same_among(lane: Lane, codes: Codes, window: int, seconds: int | None = None) -> Codes:
    """Count the turns equal to each turn among the last `window` of its lane, including itself.

    If seconds are given, only turns count that ended at most so long before it.
    """
    known = codes != UNKNOWN
    counts: Codes = known.astype(np.int64)
    if _all_differ(lane, codes):
        return counts
    for back in range(1, min(window, len(codes))):
        counts[_near(lane, _same_places(lane, codes, back, known), back, seconds)] += 1
    return counts


def _near(lane: Lane, places: Codes, back: int, seconds: int | None) -> Codes:
    """Return those of the places that end at most so long after the turn `back` turns before."""
    if seconds is None:
        return places
    ended = lane.end_ns
    near: Codes = places[ended[places] - ended[places - back] <= seconds * NS_PER_S]
    return near


def attempts_among(
    lane: Lane, codes: Codes, window: int, seconds: int, seen: Codes | None = None
) -> Codes:
    """Count like `same_among`; equal turns between which `seen` did not grow are one attempt.

    By default it counts the changes of the task.
    """
    known = codes != UNKNOWN
    counts: Codes = known.astype(np.int64)
    if not known.any() or _all_differ(lane, codes):  # As in most traces.
        return counts
    seen = lane.changes_seen if seen is None else seen
    least = seen.copy()
    for back in range(1, min(window, len(codes))):
        places = _near(lane, _same_places(lane, codes, back, known), back, seconds)
        places = places[seen[places - back] < least[places]]
        counts[places] += 1
        least[places] = seen[places - back]
    return counts


def within(lane: Lane, back: int, seconds: int) -> Flags:
    """Return which turns end at most so long after the turn `back` turns before them."""
    ended = lane.end_ns
    near = np.zeros(len(ended), dtype=np.bool_)
    near[back:] = ended[back:] - ended[: max(len(ended) - back, 0)] <= seconds * NS_PER_S
    return near & (lane.position >= back)


def rises(lane: Lane, figures: Figures) -> Flags:
    """Return which turns have a figure that is known to be above that of the turn before them."""
    above = np.zeros(len(figures), dtype=np.bool_)
    above[1:] = figures[1:] > figures[:-1]  # False where either is NaN.
    return above & (lane.position > 0)


def recent(lane: Lane, counts: Codes, needed: int, seconds: int) -> Codes:
    """Cut counts below `needed` if the last `needed` turns are not within so many seconds."""
    return np.where(within(lane, needed - 1, seconds), counts, np.minimum(counts, needed - 1))


def rounds(lane: Lane, codes: Codes, period: int) -> Codes:
    """Count the full rounds of a pattern of `period` turns that end at each turn; 0 without one."""
    counts = np.zeros(len(codes), dtype=np.int64)
    places, full = _rounds(lane, codes, period)
    counts[places] = full
    return counts


def _rounds(lane: Lane, codes: Codes, period: int) -> tuple[Codes, Codes]:
    """Return the places at which full rounds end, and how many."""
    places = _same_places(lane, codes, period)
    return places, _streaks(lane, places) // period + 1


def mirrored(codes: Codes, places: Codes, period: int) -> Flags:
    """Return where the `period` turns up to a place, as a ring, are the same backwards."""
    ring = codes[places[:, None] - np.arange(period)]
    turned = [np.roll(ring[:, ::-1], shift, axis=1) for shift in range(period)]
    alike: Flags = np.any([(ring == one).all(axis=1) for one in turned], axis=0)
    return alike


def shortest(
    lane: Lane, codes: Codes, periods: Iterable[int], needed: int, straight_max: int
) -> Pattern:
    """Find at each turn the first of the periods with enough rounds, else the one with most.

    A round has at least two different codes: one thing in a row is not a pattern. If a period is
    above `straight_max`, its pattern must go back and forth.
    """
    reached, period = np.zeros_like(codes), np.ones_like(codes)
    if _all_differ(lane, codes):
        return Pattern(reached, period)
    alike = in_a_row(lane, codes)
    for candidate in periods:
        places, full = _rounds(lane, codes, candidate)
        several = alike[places] < candidate
        if candidate > straight_max:
            several &= mirrored(codes, places, candidate)
        longer = several & (full > reached[places]) & (reached[places] < needed)
        places = places[longer]
        reached[places], period[places] = full[longer], candidate
    return Pattern(reached, period)


def longer(
    lane: Lane, codes: Codes, pattern: Pattern, periods: Iterable[int], needed: int
) -> Pattern:
    """Add patterns of longer periods with enough rounds, where none of the shorter ones has them.

    A period is looked at only if a pattern of it may be there. So the cost hardly grows with the
    number of periods.
    """
    if _all_differ(lane, codes):
        return pattern
    reached, period = pattern.reached.copy(), pattern.period.copy()
    alike = in_a_row(lane, codes)
    for candidate in periods:
        if not _may_go_round(codes, candidate, needed):
            continue
        places, full = _rounds(lane, codes, candidate)
        enough = (full >= needed) & (reached[places] < needed) & (alike[places] < candidate)
        places = places[enough]
        reached[places], period[places] = full[enough], candidate
    return Pattern(reached, period)


def _may_go_round(codes: Codes, period: int, needed: int) -> bool:
    """Return whether a pattern of so many rounds may be there; False is certain.

    In a pattern all turns but those of the first round equal the one a period before. Of every
    `step` turns one is looked at, and two of these and all between them are in such a pattern.
    """
    step = max(period * (needed - 1) // 2, 1)
    places = np.arange(period + step, len(codes), step)
    for part in range(_PARTS + 1):
        back = step * part // _PARTS
        places = places[codes[places - back] == codes[places - back - period]]
        if not len(places):
            return False
    return True


def gathered(codes: Codes, length: Codes) -> Codes:
    """Return one code for the last `length` turns up to each, independent of their order.

    It is the same for every turn of a repeating pattern.
    """
    mixed = (codes ^ (codes >> 29)) * _MIX
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(mixed ^ (mixed >> 31))])
    end = np.arange(1, len(codes) + 1)
    gathered_codes: Codes = sums[end] - sums[np.maximum(end - length, 0)]
    return gathered_codes


def used(spent: Sequence[Codes], limits: Sequence[int]) -> tuple[Codes, Codes]:
    """Return the most percents of a limit that are spent, and the place of that limit.

    `spent` has a column for each of the limits; a limit of 0 is none. What is spent ten times over
    counts as that, so that no product is too large.
    """
    percents = np.array(
        [
            np.minimum(column, limit * _TIMES_MAX) * PERCENTS // max(limit, 1)
            for column, limit in zip(spent, limits, strict=True)
        ]
    )
    return percents.max(axis=0), percents.argmax(axis=0)
