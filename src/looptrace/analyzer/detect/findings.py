"""Findings: one rule says that turns of a task repeat, with the evidence."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from looptrace.rules.contract import Action


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """One turn of a loop; `first` marks the turns that the others repeat."""

    trace_id: str
    span_id: str
    turn: int
    role: Literal["first", "repeat"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What was spent between the start of the first turn of a loop and the end of the last."""

    seconds: float
    input_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        """Tokens that models read and wrote."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule says that these turns of this task repeat, and gives the evidence.

    `attempts` counts occurrences and `loop_count` repeats (attempts - 1). An occurrence of a cycle
    is one full round of `period` turns; everywhere else the period is 1.
    """

    id: str
    rule: str
    task: str
    session: str
    trace_id: str
    agent: str
    turn_first: int
    turn_last: int
    attempts: int
    loop_count: int
    period: int
    signature: str
    reason: str
    action: Action
    turns: tuple[LoopTurn, ...]
    cost: Cost
    exact: bool = True  # the turns are the same beyond doubt; not part of records

    def record(self) -> dict[str, object]:
        """Return the fields that are stored and printed, by name."""
        record: dict[str, object] = msgspec.to_builtins(self)
        del record["exact"]
        return record
