"""How a looping task is brought back: the settings of what gates do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from looptrace.rules.contract import check_bounds, numbers, setting


@dataclass(frozen=True, slots=True)
class Recovery:
    """What is tried before a person has to decide."""

    max_pivots: int = setting(
        2, ge=0, le=100, doc="Pivots issued to a task; the next loop that asks for one is a gate."
    )
    max_forced: int = setting(
        2, ge=0, le=100, doc="Times a task is told to move on; the next time is a gate."
    )
    unblock: Annotated[
        bool,
        Meta(description="Whether a blocked task is granted authority, or else goes to a gate."),
    ] = True
    retry_after_s: int = setting(
        60, ge=1, le=86_400, doc="Seconds to wait after the first failure of the outside."
    )
    retry_factor: int = setting(
        2, ge=1, le=10, doc="By what the wait is multiplied at each further one."
    )
    retry_after_max_s: int = setting(
        3_600, ge=1, le=86_400, doc="The longest wait that is advised, in seconds."
    )
    history_max: int = setting(
        10, ge=1, le=100, doc="Failures of a task that its state and its gates hold."
    )

    def __post_init__(self) -> None:
        check_bounds("recovery", numbers(self))

    def wait_s(self, retries: int) -> int:
        """Return how long to wait after so many retries that failed."""
        longest = self.retry_after_max_s
        wait_s = min(self.retry_after_s, longest)
        for _ in range(retries):
            wait_s = min(wait_s * self.retry_factor, longest)
            if wait_s == longest:
                break
        return wait_s


DEFAULT = Recovery()
