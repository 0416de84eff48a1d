"""A time axis on which long gaps are cut short, so that the work between them is seen."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from looptrace.analyzer.report.wording import duration_text
from looptrace.rules.vocabulary import NS_PER_S

# A gap is cut where it takes more of the axis than this; so many at most, the longest first.
_CUT_SHARE = 0.3
_CUTS_MAX = 8
CUT_PX = 46.0
_TICK_PX_MIN = 90.0
_NS_PER_MS = NS_PER_S // 1_000
# Below it, seconds with one digit name several ticks alike.
_MS_STEP_NS_MAX = 100 * _NS_PER_MS
_STEPS_S = (
    *(0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400),
)


@dataclass(frozen=True, slots=True)
class Cut:
    """A gap that is drawn shorter than it was."""

    x: float
    start_ns: int
    end_ns: int

    @property
    def text(self) -> str:
        """The length of the gap, in words."""
        return duration_text((self.end_ns - self.start_ns) / NS_PER_S)


@dataclass(frozen=True, slots=True)
class Tick:
    """A time since the start of a stretch."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The places of moments; lengths are in pixels."""

    starts_ns: tuple[int, ...]  # of the stretches between cuts, in order
    ends_ns: tuple[int, ...]
    offsets: tuple[float, ...]  # where each stretch begins
    per_ns: float

    def x(self, at_ns: int) -> float:
        """Return the place of a moment; one within a cut is at its start, others at the ends."""
        place = max(bisect_right(self.starts_ns, at_ns) - 1, 0)
        start_ns, end_ns = self.starts_ns[place], self.ends_ns[place]
        within_ns = min(max(at_ns, start_ns), end_ns) - start_ns
        return self.offsets[place] + within_ns * self.per_ns

    @property
    def cuts(self) -> list[Cut]:
        """The gaps that are cut, in order."""
        ends = zip(self.ends_ns, self.starts_ns[1:], strict=False)
        return [Cut(self.x(end_ns), end_ns, start_ns) for end_ns, start_ns in ends]

    @property
    def ticks(self) -> list[Tick]:
        """Round times since the start, and behind a cut since its end; as many as have room."""
        per_s = self.per_ns * NS_PER_S
        step_s = next((each for each in _STEPS_S if each * per_s >= _TICK_PX_MIN), _STEPS_S[-1])
        return list(self._ticks(max(int(step_s * NS_PER_S), 1)))

    def _ticks(self, step_ns: int) -> Iterator[Tick]:
        last_x = -_TICK_PX_MIN
        for place, (start_ns, end_ns) in enumerate(zip(self.starts_ns, self.ends_ns, strict=True)):
            for since_ns in range(step_ns if place else 0, end_ns - start_ns + 1, step_ns):
                x = self.x(start_ns + since_ns)
                if x - last_x >= _TICK_PX_MIN:
                    since = _tick_text(since_ns, step_ns)
                    yield Tick(x, f"+{since}" if place else since)
                    last_x = x


def _tick_text(since_ns: int, step_ns: int) -> str:
    """Write `0`, `50 ms`, `1.5 s`, `3 min`; all ticks of fine steps are in milliseconds."""
    if not since_ns:
        return "0"
    if step_ns < _MS_STEP_NS_MAX:
        return f"{since_ns // _NS_PER_MS:,} ms"
    return duration_text(since_ns / NS_PER_S)


def axis_of(intervals: Iterable[tuple[int, int]], width: float) -> TimeAxis:
    """Return the axis of intervals of work; at least one is given."""
    stretches = _joined(intervals)
    gaps = sorted(
        ((later[0] - earlier[1], earlier[1]) for earlier, later in pairwise(stretches)),
        reverse=True,
    )
    left_ns = stretches[-1][1] - stretches[0][0]
    cut_at: set[int] = set()
    for gap_ns, at_ns in gaps[:_CUTS_MAX]:
        if gap_ns < _CUT_SHARE * left_ns:
            break
        left_ns -= gap_ns
        cut_at.add(at_ns)
    return _laid_out(stretches, cut_at, (width - CUT_PX * len(cut_at)) / max(left_ns, 1))


def _laid_out(stretches: list[tuple[int, int]], cut_at: set[int], per_ns: float) -> TimeAxis:
    starts_ns, ends_ns, offsets = [stretches[0][0]], [], [0.0]
    for earlier, later in pairwise(stretches):
        if earlier[1] in cut_at:
            ends_ns.append(earlier[1])
            offsets.append(offsets[-1] + (earlier[1] - starts_ns[-1]) * per_ns + CUT_PX)
            starts_ns.append(later[0])
    return TimeAxis(tuple(starts_ns), (*ends_ns, stretches[-1][1]), tuple(offsets), per_ns)


def _joined(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return intervals in order, those that overlap as one."""
    joined: list[tuple[int, int]] = []
    for start_ns, end_ns in sorted(intervals):
        if joined and start_ns <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end_ns)
        else:
            joined.append((start_ns, end_ns))
    return joined
