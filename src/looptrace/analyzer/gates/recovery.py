"""How a looping task recovers: the settings of pivots, waits and resets."""

from dataclasses import dataclass

from looptrace.analyzer.text.digests import DIGEST_BYTES, digest
from looptrace.rules.contract import check_bounds, numbers, setting


@dataclass(frozen=True, slots=True)
class Recovery:
    """The steps before a person has to decide."""

    max_pivots: int = setting(
        2, ge=0, le=100, doc="Pivots of a task; the next pivot becomes a gate."
    )
    max_forced: int = setting(
        2,
        ge=0,
        le=100,
        doc="Orders to move on (`force_next`) of a task; the next one becomes a gate.",
    )
    unblock: bool = setting(
        True, doc="Whether a blocked task gets authority; otherwise a gate opens."
    )
    retry_after_s: int = setting(
        60, ge=1, le=86_400, doc="Seconds to wait after the first external failure."
    )
    retry_factor: int = setting(2, ge=1, le=10, doc="Factor of the wait for each further failure.")
    retry_after_max_s: int = setting(
        3_600, ge=1, le=86_400, doc="The longest advised wait, in seconds."
    )
    shadow: float = setting(
        0.0,
        ge=0,
        le=0.5,
        doc="Share of tasks that are left alone, for comparison: without directives, and "
        "without gates except those of limits.",
    )
    history_max: int = setting(
        10, ge=1, le=100, doc="Last failures of a task that its state and its gates keep."
    )

    def __post_init__(self) -> None:
        check_bounds("recovery", numbers(self))

    def leaves_alone(self, task: str) -> bool:
        """Return whether a task is one of those that are left alone, as its name decides."""
        if not self.shadow:
            return False
        place = int(digest(f"shadow {task}"), 16)
        return place < self.shadow * 2.0 ** (8 * DIGEST_BYTES)

    def wait_s(self, retries: int) -> int:
        """Return the wait after so many failed retries, in seconds."""
        longest = self.retry_after_max_s
        wait_s = min(self.retry_after_s, longest)
        for _ in range(retries):
            wait_s = min(wait_s * self.retry_factor, longest)
            if wait_s == longest:
                break
        return wait_s


DEFAULT = Recovery()
