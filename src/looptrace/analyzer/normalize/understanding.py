"""How much of the spans was understood: what each became, and what the others look like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from looptrace.analyzer.normalize.span_tree import SpanTree
from looptrace.analyzer.normalize.twin_spans import SpanKey
from looptrace.analyzer.schema.span_fields import Shape, SpanFields

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


class RunningSum:
    """The sum of what was understood of traces that still grow."""

    def __init__(self) -> None:
        self._of: dict[str, Understood] = {}
        self._past = NOTHING_SEEN
        self._total: Understood | None = None  # None where a trace has grown

    def note(self, trace_id: str, understood: Understood) -> None:
        """Note what is understood of a trace by now."""
        self._of[trace_id] = understood
        self._total = None

    def end(self, trace_id: str) -> None:
        """Note that a trace will be noted no more."""
        self._past = summed([self._past, self._of.pop(trace_id, NOTHING_SEEN)])

    def total(self) -> Understood:
        """Return the sum over all traces."""
        if self._total is None:
            self._total = summed([self._past, *self._of.values()])
        return self._total


def understood_of(
    read: Sequence[SpanFields],
    kept: Collection[SpanKey],
    tree: SpanTree,
    adopted: Collection[SpanKey] = (),
) -> Understood:
    """Return what these spans became; `kept` are those left after twins were merged.

    The `adopted` spans have no kind, and are calls that a model asked for.

    A span of no dialect is a part of a call if it lies within the call's span, and structure if a
    span of a turn or an agent lies within it.
    """
    counts: Counter[str] = Counter()
    around = _around(read, tree)
    unread: list[Shape] = []
    known: list[Shape] = []
    for span in read:
        key = span.trace_id, span.span_id
        became = "turns" if key in adopted else _became(span, kept, around, tree)
        counts[became] += 1
        if span.shape and became in ("structure", "unread"):
            (unread if became == "unread" else known).append(span.shape)
    return Understood(
        **counts,
        incomplete=len(_incomplete(read, tree)),
        differing_tokens=sum(span.differing_tokens or 0 for span in read),
        shapes=_most_frequent(Counter(unread).items()),
        known_shapes=_most_frequent(Counter(known).items()),
    )


def _became(
    span: SpanFields, kept: Collection[SpanKey], around: Collection[SpanKey], tree: SpanTree
) -> str:
    key = span.trace_id, span.span_id
    if span.kind == "agent":
        return "agents"
    if span.kind:
        is_turn = key in kept and span.speaks and not span.is_part
        return "turns" if is_turn else "parts"
    if span.status or span.figures.known or span.interventions:
        return "turns"
    if span.shape is None or span.shape.known or key in around:
        return "structure"
    return "parts" if any(above.kind == "tool" for above in tree.ancestors(span)) else "unread"


def _around(read: Iterable[SpanFields], tree: SpanTree) -> set[SpanKey]:
    """Return the spans that have a span with a kind within them."""
    found: set[SpanKey] = set()
    for span in read:
        if span.kind is None or span.parent_span_id is None:
            continue
        for above in tree.ancestors(span):
            key = above.trace_id, above.span_id
            if key in found:
                break
            found.add(key)
    return found


def _incomplete(read: Iterable[SpanFields], tree: SpanTree) -> set[str]:
    """Return the traces that lack parents of spans.

    One missing parent above all spans is no sign of a loss: it is the caller in another service.
    """
    tops: dict[str, set[str | None]] = {}
    for span in read:
        parent = span.parent_span_id
        if parent is None or (span.trace_id, parent) not in tree.by_id:
            tops.setdefault(span.trace_id, set()).add(parent)
    return {trace for trace, parents in tops.items() if len(parents) > 1}


def _most_frequent(pairs: Iterable[tuple[Shape, int]]) -> tuple[tuple[Shape, int], ...]:
    counts: Counter[Shape] = Counter()
    for shape, count in pairs:
        counts[shape] += count
    order = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0].name, repr(pair[0])))
    return tuple(order[:SHAPES_MAX])
