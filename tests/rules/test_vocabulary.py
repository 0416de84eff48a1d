"""Each word of the vocabulary against its naive definition, lane by lane in plain Python."""

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from looptrace.rules.turns import UNKNOWN, Codes, Flags, Lane, LaneSpec, Meanings, Turns
from looptrace.rules.vocabulary import (
    NS_PER_S,
    alike_in_a_row,
    attempts_among,
    gathered,
    in_a_row,
    mirrored,
    own,
    pair,
    recent,
    rises,
    rounds,
    same_among,
    same_as,
    shortest,
    streak,
    within,
)

TOOL, MODEL, USER = 0, 1, 4
FAILED = 2  # the outcome that counts as a failure here
TURN_S = 10  # seconds from the end of one row to that of the next
BY_AGENT = LaneSpec(by="agent", kinds=("tool",))
BY_TASK = LaneSpec(by="task", kinds=("tool", "model"))

# A turn: task, agent, kind, call, outcome. Few values, so that repeats are common, and all of them
# in one list, because Hypothesis takes a millisecond for a turn that it draws value by value.
TURNS = [
    *product(
        range(3), (1, 2), (TOOL, TOOL, TOOL, MODEL, USER), range(UNKNOWN, 3), range(UNKNOWN, 3)
    )
]
turn = st.sampled_from(TURNS)
turns = st.lists(turn, max_size=60).map(lambda rows: sorted(rows, key=lambda row: row[0]))
Row = tuple[int, int, int, int, int]


def columns(rows: list[Row]) -> Turns:
    """Make columns of rows, counting the messages of a person as the engine does."""
    epochs: list[int] = []
    seen: dict[int, int] = {}
    for row in rows:
        seen[row[0]] = seen.get(row[0], 0) + (row[2] == USER)
        epochs.append(seen[row[0]])
    task, agent, kind, call, outcome = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    epoch = np.array(epochs, dtype=np.int64)
    groups: tuple[tuple[str, Any], ...] = (
        ("task", task),
        ("agent name subtask", agent),
        ("epoch resets_seen", epoch),
        ("kind", kind),
        ("end_ns", np.arange(len(rows), dtype=np.int64) * TURN_S * NS_PER_S),
        (
            "failed external untested twin_signature twin_failure twin_external twin_search shows",
            outcome == FAILED,
        ),
        ("status task_kind phase_before outcome error mendable", outcome),
        (
            "phase visits transitions_seen converging iteration steps busy_ns tokens_spent "
            "money_spent money_spent_agent money_spent_minute tokens_spent_agent "
            "tokens_spent_minute errors errors_before overdue_ns improvements measured "
            "figures_compared turns_since_best turns_since_best_before tries_since_progress "
            "tries_since_progress_before look_chars check search_result call signature "
            "response cut compacted chant_times chant_chars reminded talks_on",
            call,
        ),
        ("enters", call != outcome),
        ("twin", np.zeros(len(rows), dtype=np.bool_)),
        ("tests_total tests_failed coverage", call.astype(np.float64)),
        ("polls relapses only_calls shown_before unfinished new_thought", call == 1),
        ("waits_seen changes_seen calls_seen works_seen", np.cumsum(outcome == 1)),
        ("works", outcome == 1),
        ("silent", call == 2),
        ("texts", ()),
    )
    return Turns(**{name: column for names, column in groups for name in names.split()})


def naive_lanes(rows: list[Row], spec: LaneSpec) -> list[list[int]]:
    """List the lanes as lists of row numbers."""
    lanes: dict[tuple[int, ...], list[int]] = {}
    epoch = dict.fromkeys(range(3), 0)
    kinds = {"tool": TOOL, "model": MODEL}
    for number, (task, agent, kind, _, _) in enumerate(rows):
        epoch[task] += kind == USER
        if kind in [kinds[name] for name in spec.kinds]:
            key = (task, agent, epoch[task]) if spec.by == "agent" else (task, epoch[task])
            lanes.setdefault(key, []).append(number)
    return [lanes[key] for key in sorted(lanes)]


def by_lane(lane: Lane, values: Codes | Flags) -> list[list[int]]:
    """Cut a column where positions start again."""
    found: list[list[int]] = []
    for position, value in zip(lane.position.tolist(), values.tolist(), strict=True):
        if position == 0:
            found.append([])
        found[-1].append(value)
    return found


@given(turns)
def test_lanes_hold_their_turns_in_order(rows: list[Row]) -> None:
    """A lane is one agent's, or one task's, between two messages of a person."""
    for spec in (BY_AGENT, BY_TASK):
        lane = columns(rows).lane(spec)
        assert sorted(by_lane(lane, lane.rows)) == sorted(naive_lanes(rows, spec))


@given(turns)
def test_following_counts_the_rest_of_a_lane(rows: list[Row]) -> None:
    """The live driver keeps the last turns of each lane by it."""
    lane = columns(rows).lane(BY_AGENT)
    expected = [list(range(len(one)))[::-1] for one in by_lane(lane, lane.rows)]
    assert expected == by_lane(lane, lane.following)


@given(turns, st.integers(1, 8))
def test_same_as_compares_within_a_lane(rows: list[Row], back: int) -> None:
    """A turn never equals one of another lane, nor an unknown one."""
    lane = columns(rows).lane(BY_AGENT)
    expected = [
        [i >= back and one[i] == one[i - back] != UNKNOWN for i in range(len(one))]
        for one in by_lane(lane, lane.call)
    ]
    assert expected == by_lane(lane, same_as(lane, lane.call, back))


@given(turns)
def test_streak_counts_back_to_the_last_break(rows: list[Row]) -> None:
    """A streak neither reaches over a break nor into another lane."""
    lane = columns(rows).lane(BY_AGENT)
    expected = []
    for one in by_lane(lane, lane.call):
        counts: list[int] = []
        for code in one:
            counts.append((counts[-1] if counts else 0) + 1 if code == 2 else 0)
        expected.append(counts)
    assert expected == by_lane(lane, streak(lane, lane.call == 2))


@given(turns)
def test_in_a_row_counts_equal_turns(rows: list[Row]) -> None:
    """A known turn counts itself and its equals before it; an unknown one counts nothing."""
    lane = columns(rows).lane(BY_AGENT)
    expected = []
    for one in by_lane(lane, lane.call):
        counts: list[int] = []
        for i, code in enumerate(one):
            again = i > 0 and code == one[i - 1]
            counts.append(0 if code == UNKNOWN else (counts[-1] + 1 if again else 1))
        expected.append(counts)
    assert expected == by_lane(lane, in_a_row(lane, lane.call))


# Three sketches; the first and the second are alike.
SKETCHES = np.array([[10, 0], [8, 6], [0, 10]], dtype=np.int32)
ALIKE = ({0}, {1}, {2}, {0, 1})
PRODUCT_MIN = 80


@given(turns, st.integers(2, 8))
def test_alike_in_a_row_compares_each_turn_with_the_last(rows: list[Row], limit: int) -> None:
    """Turns are alike by their codes, or where subjects are equal and sketches are alike."""
    place = np.arange(len(rows)) % len(SKETCHES)
    turns = columns(rows)
    meanings = Meanings(turns.outcome, place, SKETCHES, PRODUCT_MIN)
    lane = replace(turns, meanings=meanings).lane(BY_AGENT)

    def alike(first: int, second: int) -> bool:
        subjects = {rows[first][4], rows[second][4]}
        same = len(subjects) == 1 and UNKNOWN not in subjects
        known = rows[first][3] == rows[second][3] != UNKNOWN
        return known or (same and {int(place[first]), int(place[second])} in ALIKE)

    expected = []
    for one in by_lane(lane, lane.rows):
        counts = []
        for i, row in enumerate(one):
            count = int(rows[row][3] != UNKNOWN)
            while 0 < count < min(limit, i + 1) and alike(row, one[i - count]):
                count += 1
            counts.append(count)
        expected.append(counts)
    assert expected == by_lane(lane, alike_in_a_row(lane, lane.call, limit))
    exact = columns(rows).lane(BY_AGENT)
    assert (alike_in_a_row(exact, exact.call, limit) == in_a_row(exact, exact.call)).all()


@given(turns, st.integers(2, 8))
def test_rounds_counts_full_rounds(rows: list[Row], period: int) -> None:
    """A round counts when each of its turns equals the one a period before."""
    lane = columns(rows).lane(BY_AGENT)
    expected = []
    for one in by_lane(lane, lane.call):
        counts = []
        for i in range(len(one)):
            run = 0
            while i - run >= period and one[i - run] == one[i - run - period] != UNKNOWN:
                run += 1
            counts.append(run // period + 1 if run else 0)
        expected.append(counts)
    assert expected == by_lane(lane, rounds(lane, lane.call, period))


@given(turns, st.integers(2, 8))
def test_same_among_counts_within_a_window(rows: list[Row], window: int) -> None:
    """A window is one of turns of the lane, and an unknown turn equals none of them."""
    lane = columns(rows).lane(BY_AGENT)
    expected = [
        [
            0 if code == UNKNOWN else one[max(0, i - window + 1) : i + 1].count(code)
            for i, code in enumerate(one)
        ]
        for one in by_lane(lane, lane.call)
    ]
    assert expected == by_lane(lane, same_among(lane, lane.call, window))


@given(turns, st.integers(2, 8), st.integers(0, 200))
def test_attempts_among_counts_equal_turns_once_for_each_change(
    rows: list[Row], window: int, seconds: int
) -> None:
    """Two equal failures with no change between them are one try to mend what they are about."""
    lane = columns(rows).lane(BY_AGENT)
    places = by_lane(lane, np.arange(len(lane.rows)))
    codes, seen = lane.call.tolist(), lane.changes_seen.tolist()
    since = lane.end_ns - seconds * NS_PER_S
    expected = [
        [
            len(
                {
                    seen[j]
                    for j in one[max(0, i - window + 1) : i + 1]
                    if codes[j] == codes[place] and lane.end_ns[j] >= since[place]
                }
            )
            * (codes[place] != UNKNOWN)
            for i, place in enumerate(one)
        ]
        for one in places
    ]
    counts = attempts_among(lane, lane.call, window, seconds)
    assert expected == by_lane(lane, counts)


@given(turns, st.integers(1, 5), st.integers(0, 200))
def test_within_measures_the_time_to_an_earlier_turn(
    rows: list[Row], back: int, seconds: int
) -> None:
    """Time is measured between ends, and only within a lane."""
    lane = columns(rows).lane(BY_AGENT)
    expected = [
        [i >= back and (one[i] - one[i - back]) * TURN_S <= seconds for i in range(len(one))]
        for one in by_lane(lane, lane.rows)
    ]
    assert expected == by_lane(lane, within(lane, back, seconds))


@given(turns)
def test_rises_compares_with_the_turn_before(rows: list[Row]) -> None:
    """An unknown figure neither rises nor is exceeded, and each lane begins again."""
    lane = columns(rows).lane(BY_AGENT)
    figures = np.where(lane.call == UNKNOWN, np.nan, lane.call.astype(np.float64))
    expected = [
        [i > 0 and one[i] > one[i - 1] != UNKNOWN for i in range(len(one))]
        for one in by_lane(lane, lane.call)
    ]
    assert expected == by_lane(lane, rises(lane, figures))


@given(turns, st.integers(2, 5), st.integers(0, 200))
def test_recent_cuts_what_took_too_long(rows: list[Row], needed: int, seconds: int) -> None:
    """A count that needs more time than there is stays below what is needed."""
    lane = columns(rows).lane(BY_AGENT)
    counts = in_a_row(lane, lane.call)
    near = within(lane, needed - 1, seconds).tolist()
    expected = [
        count if is_near else min(count, needed - 1)
        for count, is_near in zip(counts.tolist(), near, strict=True)
    ]
    assert expected == recent(lane, counts, needed, seconds).tolist()


@given(turns)
def test_a_lane_of_failures_holds_nothing_else(rows: list[Row]) -> None:
    """Turns that did not fail are not in such a lane, and do not end it."""
    spec = LaneSpec(by="task", kinds=("tool",), failures=True)
    lane = columns(rows).lane(spec)
    kept = [(i, row) for i, row in enumerate(rows) if row[2] == TOOL and row[4] == FAILED]
    assert sorted(lane.rows.tolist()) == [i for i, _ in kept]


@given(st.lists(st.integers(1, 4), min_size=2, max_size=6), st.integers(2, 4))
def test_gathered_knows_a_pattern_from_every_turn(pattern: list[int], times: int) -> None:
    """A round has the same code from each of its turns; another round has another code."""
    codes = np.array(pattern * times, dtype=np.int64)
    length = np.full_like(codes, len(pattern))
    found = gathered(codes, length)[len(pattern) - 1 :]
    other = gathered(np.where(codes == pattern[0], 9, codes), length)[len(pattern) - 1 :]

    assert len(set(found.tolist())) == 1
    assert set(other.tolist()).isdisjoint(found.tolist())


@given(turns)
def test_pair_is_equal_where_both_are(rows: list[Row]) -> None:
    """A pair is unknown where either half is, and otherwise as good as the two halves."""
    lane = columns(rows).lane(BY_AGENT)
    halves = list(zip(lane.call.tolist(), lane.outcome.tolist(), strict=True))
    code_of: dict[tuple[int, int], int] = {}
    for half, code in zip(halves, pair(lane.call, lane.outcome).tolist(), strict=True):
        if UNKNOWN in half:
            assert code == UNKNOWN
        else:
            assert code_of.setdefault(half, code) == code != UNKNOWN
    assert len(set(code_of.values())) == len(code_of)


def reads_alike_backwards(ring: list[int]) -> bool:
    """Turn the ring round and see whether it fits itself somewhere."""
    back = ring[::-1]
    return any(ring == back[at:] + back[:at] for at in range(len(ring)))


@given(st.lists(st.integers(1, 3), min_size=1, max_size=20), st.integers(1, 8))
def test_mirrored_knows_what_goes_forth_and_back(codes: list[int], period: int) -> None:
    """A ring that is walked back and forth reads alike from its other end."""
    places = np.arange(period - 1, len(codes))
    expected = [reads_alike_backwards(codes[i - period + 1 : i + 1]) for i in places]
    assert expected == mirrored(np.array(codes), places, period).tolist()


@given(turns, st.integers(2, 4), st.integers(2, 8))
def test_shortest_prefers_the_first_period_with_enough_rounds(
    rows: list[Row], needed: int, straight_max: int
) -> None:
    """Of the periods that hold several codes, and are straight or go back and forth."""
    lane, periods = columns(rows).lane(BY_AGENT), range(2, 9)
    seen = {period: rounds(lane, lane.call, period).tolist() for period in periods}
    expected = []
    for i, code in enumerate(lane.call.tolist()):
        best = (0, 1)
        for period in (p for p in periods if seen[p][i] > best[0] and best[0] < needed):
            ring = lane.call[i - period + 1 : i + 1].tolist()
            if set(ring) != {code} and (period <= straight_max or reads_alike_backwards(ring)):
                best = (seen[period][i], period)
        expected.append(best)
    pattern = shortest(lane, lane.call, periods, needed, straight_max)
    assert expected == list(zip(pattern.reached.tolist(), pattern.period.tolist(), strict=True))


@given(turns, st.booleans())
def test_own(rows: list[Row], progress: bool) -> None:
    """Failures of the outside and polls equal nothing, nor do calls that progress lies between."""
    turns = columns(rows)
    turns = replace(turns, improvements=np.cumsum(turns.outcome == 1) * progress)
    lane = turns.lane(BY_AGENT)
    calls, better = lane.call.tolist(), lane.improvements.tolist()

    counts = [
        UNKNOWN not in (call, code) for call, code in zip(calls, own(lane, lane.call), strict=True)
    ]
    assert counts == [
        call != UNKNOWN and not lane.external[i] and not lane.polls[i]
        for i, call in enumerate(calls)
    ]
    codes = own(lane, lane.call).tolist()
    for i, j in combinations(np.flatnonzero(counts).tolist(), 2):
        same = (calls[i], better[i]) == (calls[j], better[j])
        assert (codes[i] == codes[j]) == same


@given(turns)
def test_what_a_task_repeats_has_the_code_that_it_has_alone(rows: list[Row]) -> None:
    """Live judges tasks together or apart, and progress in one must not cut a loop of another."""
    every = columns(rows)
    every = replace(every, improvements=(every.outcome == 1).astype(np.int64))
    together = every.lane(BY_AGENT)
    codes = own(together, together.call)
    for task in {row[0] for row in rows}:
        mine = np.flatnonzero(every.task == task)
        alone = columns([rows[place] for place in mine])
        alone = replace(alone, improvements=every.improvements[mine])
        lane = alone.lane(BY_AGENT)
        here = every.task[together.rows] == task
        assert codes[here].tolist() == own(lane, lane.call).tolist()
