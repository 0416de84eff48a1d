"""Steps of a task: which calls repeat an earlier one that the same response asked for."""

from __future__ import annotations

import numpy as np

from looptrace.analyzer.detect.parts import Columns, Parts
from looptrace.analyzer.detect.single_columns import NEVER_NS, SingleTurn
from looptrace.rules.turns import KINDS, TWINS, UNKNOWN, Codes, Twin
from looptrace.rules.vocabulary import pair

_TOOL, _MODEL = KINDS.index("tool"), KINDS.index("model")
# More calls than these after one response are not all of it: later responses were not recorded.
STEP_CALLS_MAX = 8


def mark_twins(rows: Columns, tasks: Parts) -> None:
    """Add `TWINS`: which calls repeat an earlier one of the same step, in each sense.

    A step is what one response asked for: calls in parallel, or all calls up to the next turn of
    another kind, among them those that a tool or a wrapper tried again by itself. Where the turn
    before the calls is no response in their trace, only parallel calls are known to be a step.
    """
    is_call = rows["kind"] == _TOOL
    tasks.count(steps_heard=~is_call)
    opener = tasks.last(~is_call)
    opened = (opener >= 0) & (rows["kind"][opener] == _MODEL)
    opened &= rows["trace_code"][opener] == rows["trace_code"]
    parallel = rows["step_code"] != UNKNOWN
    if parallel.any():
        parts = Parts(rows, by=(rows["task"], rows["step_code"]), only=parallel.nonzero()[0])
        ordered_ns = parts.sorted(rows["order_ns"])
        parallel &= rows["order_ns"] == parts.by_row(ordered_ns[parts.first])
    alone = is_call & ~parallel & opened
    step: Codes = rows["steps_heard"].copy()
    step[parallel] = rows["step_code"][parallel]
    key = (rows["task"], parallel, step, rows["agent_code"])
    rows["step_calls"] = np.zeros(len(step), dtype=np.int64)
    Parts(rows, by=key[:3], only=alone.nonzero()[0]).count(step_calls=alone)
    in_step = is_call & (parallel | (alone & (rows["step_calls"] <= STEP_CALLS_MAX)))
    codes = {
        "twin": pair(rows["call_code"], rows["outcome_code"]),
        "twin_signature": rows["signature_code"],
        "twin_failure": np.where(
            rows["error_code"] == UNKNOWN, rows["mendable_code"], rows["error_code"]
        ),
        "twin_external": rows["external"].astype(np.int64),
        "twin_search": rows["search_result_code"],
    }
    for name, code in codes.items():
        known = (in_step & (code != UNKNOWN)).nonzero()[0]
        twins = np.zeros(len(step), dtype=np.bool_)
        if len(known):
            parts = Parts(rows, by=(*key, code), only=known)
            twins = parts.by_row(~parts.starts)
        rows[name] = twins


class Steps:
    """The steps of one task up to a turn, as `mark_twins` has them of tables."""

    __slots__ = ("alone", "calls", "first_ns", "parallel", "step", "trace")

    def __init__(self) -> None:
        # The calls of the last parallel step and of the last response, in each sense of `TWINS`.
        self.parallel: frozenset[tuple[Twin, int, object]] = frozenset()
        self.alone: frozenset[tuple[Twin, int, object]] = frozenset()
        self.trace: int | None = None  # of the response before the calls
        self.step, self.calls = UNKNOWN, 0
        self.first_ns: dict[int, int] = {}  # of each parallel step among turns that may move

    def copy(self) -> Steps:
        """Return a copy that goes on separately."""
        other = Steps()
        other.parallel, other.alone, other.trace = self.parallel, self.alone, self.trace
        other.step, other.calls, other.first_ns = self.step, self.calls, dict(self.first_ns)
        return other

    def mark(self, one: SingleTurn) -> None:
        """Set `TWINS` of the next turn."""
        for twin in TWINS:
            setattr(one, twin, False)
        if one.kind != _TOOL:
            self.trace = one.trace if one.kind == _MODEL else None
            self.alone, self.calls = frozenset(), 0
        if one.step != self.step:
            self.step, self.parallel = one.step, frozenset()
        first_ns = self.first_ns.setdefault(one.step, one.order_ns) if one.step else NEVER_NS
        if one.kind != _TOOL:
            return
        is_parallel = one.step != UNKNOWN and one.order_ns == first_ns
        if not is_parallel:
            if self.trace != one.trace:
                return
            self.calls += 1
            if self.calls > STEP_CALLS_MAX:
                return
        call = (one.call, one.outcome) if one.call and one.outcome else UNKNOWN
        failure = one.mendable if one.error == UNKNOWN else one.error
        senses = (call, one.signature, failure, int(one.external), one.search_result)
        codes = zip(TWINS, senses, strict=True)
        mine = {(name, one.agent, code) for name, code in codes if code != UNKNOWN}
        seen = self.parallel if is_parallel else self.alone
        for name, _, _ in mine & seen:
            setattr(one, name, True)
        if is_parallel:
            self.parallel = seen | mine
        else:
            self.alone = seen | mine
