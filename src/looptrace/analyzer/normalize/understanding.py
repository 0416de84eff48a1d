"""How much of the spans was understood: what each became, and what the others look like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from looptrace import _core
from looptrace.analyzer.schema.span_fields import Shape

# Names of spans may hold ids, so that there may be as many shapes as spans.
SHAPES_MAX = 1_000
# Below this share the agent is hardly watched.
SHARE_MIN = 0.5


# What spans become.
COUNTS = ("turns", "parts", "agents", "structure", "unread")


@dataclass(frozen=True, slots=True)
class Understood:
    """How many spans became what. The shapes are of spans that are neither turn nor agent.

    `parts` belong to the turn of another span. `structure` is known, and no turn by itself.
    In `incomplete` traces parents of spans never came, so that a sampler or a lost export may hide
    what the agent did. By `differing_tokens` the sum of responses differs from the usage that
    producers give for whole runs. `shapes` are those that were not understood and `known_shapes`
    the others, each with the number of its spans, the most frequent first.
    """

    turns: int = 0
    parts: int = 0
    agents: int = 0
    structure: int = 0
    unread: int = 0
    incomplete: int = 0
    differing_tokens: int = 0
    shapes: tuple[tuple[Shape, int], ...] = ()
    known_shapes: tuple[tuple[Shape, int], ...] = ()

    @property
    def spans(self) -> int:
        """The number of all spans."""
        return sum(getattr(self, name) for name in COUNTS)

    @property
    def share(self) -> float | None:
        """The share that was understood of all that is no structure; None if that is nothing."""
        read = self.turns + self.parts + self.agents
        return read / (read + self.unread) if read + self.unread else None

    @property
    def is_little(self) -> bool:
        """Whether less than `SHARE_MIN` was understood."""
        return self.share is not None and self.share < SHARE_MIN


NOTHING_SEEN = Understood()


def summed(parts: Iterable[Understood]) -> Understood:
    """Return the sum of what was understood in several parts."""
    parts = list(parts)
    names = (*COUNTS, "incomplete", "differing_tokens")
    counts = {name: sum(getattr(part, name) for part in parts) for name in names}
    return Understood(
        **counts,
        shapes=_most_frequent(pair for part in parts for pair in part.shapes),
        known_shapes=_most_frequent(pair for part in parts for pair in part.known_shapes),
    )


def understood_of(seen: _core.Seen) -> Understood:
    """Return what the core tells."""
    counts, unread, known = seen
    return Understood(*counts, _shapes(unread), _shapes(known))


def _shapes(told: _core.Shapes) -> tuple[tuple[Shape, int], ...]:
    return tuple(
        (Shape(scope, name, tuple(keys), known), count)
        for (scope, name, keys, known), count in told
    )


def _most_frequent(pairs: Iterable[tuple[Shape, int]]) -> tuple[tuple[Shape, int], ...]:
    counts: Counter[Shape] = Counter()
    for shape, count in pairs:
        counts[shape] += count
    order = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0].name, repr(pair[0])))
    return tuple(order[:SHAPES_MAX])
