"""What rules, loops and gates see of the turns that the core holds for a live engine.

The core counts turns, keeps them in order, and says which rules may fire at them (`core/src/task`).
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from looptrace import _core
from looptrace._core import LiveTurns, LiveWatch
from looptrace.analyzer.detect.evaluate import Seen, kinds_read
from looptrace.analyzer.detect.loop_rows import LoopRow
from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.detect.times import LONG_S, times_of
from looptrace.analyzer.engine import live_task
from looptrace.analyzer.engine.batch import spending_rows
from looptrace.analyzer.fingerprint.similarity import meanings_of
from looptrace.analyzer.gates.timeline import GateTurns
from looptrace.analyzer.schema.turns import AT, IS_USER, STEP_SPREAD_S, TURN_SCHEMA, TurnTuple
from looptrace.rules.turns import KINDS, Codes, Flags, Turns
from looptrace.rules.vocabulary import NS_PER_S

# The columns that rules see, as they stand in a row of numbers.
_COLUMNS = dict(_core.COLUMNS[: _core.COLUMNS_SEEN])
_SIZES = [np.dtype(kind).itemsize for kind in _COLUMNS.values()]
_ROW = np.dtype(
    {
        "names": [*_COLUMNS],
        "formats": [*_COLUMNS.values()],
        "offsets": [*accumulate(_SIZES[:-1], initial=0)],
        "itemsize": _core.ROW_BYTES,
    }
)
# With more rows than fit into a processor's cache, columns are read faster one by one.
_CACHED_ROWS = 1_000

# Fewer turns are read faster one by one than in columns.
FEW_ROWS = 20
_task_of, _end_of = itemgetter(AT["task"]), itemgetter(AT["end_ns"])
_KIND, _NAME = AT["kind"], AT["name"]

# What a loop keeps of a turn: columns that are the same for the whole turn, and what is counted.
_KEPT = LoopRow.__struct_fields__
_COUNTED = ("epoch", "resets_seen", "turn", *(name for name in _KEPT if "_tokens_" in name))
_SAME = [name for name in _KEPT if name not in (*_COUNTED, "phase_before")]
_in_order = itemgetter(*((*_SAME, *_COUNTED, "phase_before").index(name) for name in _KEPT))


def watch_of(rule_set: RuleSet, failures_max: int) -> LiveWatch:
    """Return how the core counts turns and asks about the rules, by their places in `forms()`.

    So many failures of a task are kept for its gates.
    """
    every = rule_set.forms()
    names = (TURN_SCHEMA.names(), _SAME, [*kinds_read(every)])
    times = (live_task.HORIZON_S, STEP_SPREAD_S, LONG_S)
    limits = (live_task.WAITING_MAX, live_task.STEPS_KEPT_MAX, failures_max)
    sizes = (live_task.TRACES_KEPT_MAX, live_task.SETTLED_AT_ONCE)
    every_limit = (*(seconds * NS_PER_S for seconds in times), *limits, *sizes)
    return LiveWatch(rule_set.counting.compiled, names, rule_set.needs, every_limit)


def read(
    turns: Sequence[TurnTuple] | pl.DataFrame,
) -> tuple[dict[str, None], Iterable[TurnTuple], list[TurnTuple]]:
    """Return the tasks of turns, those that may count in a budget, and the decisions of persons."""
    if isinstance(turns, pl.DataFrame):
        # Most ticks have no message of a person, and a filter of two columns takes longer.
        decided = [turn for turn in turns.filter(IS_USER).rows() if turn[_NAME] is not None]
        names = dict.fromkeys(turns["task"].to_list())
        return names, spending_rows(turns), sorted(decided, key=_end_of)
    decided = [turn for turn in turns if turn[_KIND] == "user" and turn[_NAME] is not None]
    return dict.fromkeys(map(_task_of, turns)), turns, sorted(decided, key=_end_of)


class HeldRows:
    """Reads the turns that are held of several tasks, one after the other."""

    def __init__(self, held: Sequence[LiveTurns], since: Sequence[int]) -> None:
        """Read by rows, which count on from task to task, from a turn of each on."""
        self._held, self._since = held, since
        counts = (len(turns) - begin for turns, begin in zip(held, since, strict=True))
        self._begins = [0, *accumulate(counts)]
        self._known: dict[int, LoopRow] = {}

    def column(self, name: str, rows: Codes) -> list[Any]:
        """Return a column of the turns at these rows."""
        return [getattr(row, name) for row in self.turns(rows)]

    def turns(self, rows: Codes) -> Sequence[LoopRow]:
        """Return the turns at these rows."""
        return [self[row] for row in rows.tolist()]

    def __getitem__(self, row: int) -> LoopRow:
        known = self._known.get(row)
        if known is None:
            task = bisect_right(self._begins, row) - 1
            place = row - self._begins[task] + self._since[task]
            values = self._held[task].evidence(place)
            known = self._known[row] = LoopRow(*_in_order(values))
        return known

    def all(self) -> list[LoopRow]:
        """Return all turns."""
        return [self[row] for row in range(self._begins[-1])]


def first_of(keys: Collection[tuple[str, ...]], held: LiveTurns) -> int | None:
    """Return the place of the first turn with one of these keys, among those that may move."""
    rows = HeldRows([held], [held.settled])
    places = (place for place in range(len(held) - held.settled) if rows[place].key in keys)
    return next(places, None)


def gate_turns_of(held: LiveTurns) -> GateTurns:
    """Return what gates show of the turns of a task."""
    rows = [row for row in HeldRows([held], [0]).all() if row.kind != "user"]
    turns = [(row.task, row.turn, row.epoch, row.failed) for row in rows]
    return GateTurns(turns, lambda places: [rows[place] for place in places])


def seen_of(
    held: Sequence[LiveTurns],
    since: Sequence[int],
    fresh: Flags,
    rule_set: RuleSet,
    kinds: Collection[str],
    reader: HeldRows,
    *,
    times: bool,
) -> Seen:
    """Return what the rules see of several tasks, from a turn of each on; some are `fresh`.

    `kinds` are the kinds of turn with texts that the rules read, and `times` is whether they read
    how long turns took.
    """
    parts = [*zip(held, since, strict=True)]
    table = np.frombuffer(b"".join(turns.numbers(begin) for turns, begin in parts), _ROW)
    columns: dict[str, Any] = {name: table[name] for name in _COLUMNS if name != "searches"}
    if len(table) > _CACHED_ROWS:
        columns = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    columns["texts"] = ()
    if any(
        KINDS[kind] in kinds for kind in np.bincount(table["kind"][fresh]).nonzero()[0].tolist()
    ):
        columns["texts"] = tuple(chain.from_iterable(turns.texts(begin) for turns, begin in parts))
    fits: list[Flags] = []
    if rule_set.meaning or rule_set.overrides:
        rows = reader.all()
        if rule_set.meaning:
            columns["meanings"] = meanings_of(_requests(rows, table), rule_set.meaning)
        fits = [_fits(rows, table, override) for override in rule_set.overrides]
    counts = [len(turns) - begin for turns, begin in parts]
    task = np.repeat(np.arange(len(counts)), counts)
    if times:
        rows = reader.all()
        start_ns = np.array([row.start_ns for row in rows], dtype=np.int64)
        texts = (
            pl.Series([row.name for row in rows], dtype=pl.String),
            pl.Series([row.trace_id for row in rows], dtype=pl.String),
        )
        columns["timed"] = times_of(task, start_ns, columns["end_ns"], *texts)
    return Seen(Turns(task=task, **columns), fits, rule_set.left_out)


def _requests(rows: Sequence[LoopRow], table: Any) -> pl.DataFrame:
    names = ("kind", "name", "arguments")
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    coded = {name: table[name].copy() for name in ("searches", "external")}
    coded["outcome_code"] = table["outcome"].copy()
    return pl.DataFrame(
        columns | coded, schema_overrides={name: TURN_SCHEMA[name] for name in names}
    )


def _fits(rows: Sequence[LoopRow], table: Any, override: Override) -> Flags:
    """Mark the turns that an override is for; an unknown value of a turn fits none."""
    fits = np.ones(len(rows), dtype=np.bool_)
    for selector, value in override.selectors.items():
        if selector == "model":
            fits &= np.array([model == value for model in _models(rows)])
        elif selector == "tool":
            fits &= np.array([row.kind == "tool" and row.name == value for row in rows])
        elif selector == "signature":
            fits &= np.array([row.sign == value for row in rows])
        else:
            fits &= table[selector] == _core.code_of(value)
    return fits


def _models(rows: Sequence[LoopRow]) -> Iterator[str | None]:
    """Yield the model of each turn; a response without a name ends that of its agent's others."""
    last: dict[tuple[str, int, str], str | None] = {}
    for row in rows:
        of = (row.task, row.resets_seen, row.agent)
        if row.kind == "model":
            last[of] = row.name
        yield last.get(of)
