"""When a delivery is tried again, and when an endpoint is given up: the rules, without a clock.

The waits are those that the Standard Webhooks specification proposes: ten tries in 75 hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

# Before each try, since the one before it failed; the first is made at once.
WAITS_S = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
# So much shorter or longer is a wait by chance, so that what failed together does not come back
# together.
JITTER = 0.2
RETRY_AFTER_MAX_S = 86_400
# No wait is longer, whether by the schedule or because a receiver asked for time.
WAIT_MAX_S = max(*WAITS_S, RETRY_AFTER_MAX_S) * (1 + JITTER)
# An endpoint of which every try failed for so long is disabled.
FAILING_MAX_S = 120 * 3_600
# After a failure the whole endpoint rests, for longer with each: at first no longer than the first
# wait of a single event, and never so long that an endpoint that is back would not be noticed.
RESTS_S = (4, 8, 16, 32, 60)


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """What came of a try: an HTTP status, or none, and why it failed (else empty)."""

    status: int | None
    error: str = ""
    retry_after_s: float = 0.0
    text: str = ""  # the beginning of the body


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """What follows from a failure: the wait before the next try (None: there is none)."""

    wait_s: float | None
    rest_s: float  # for which nothing else is sent to the endpoint
    disabled_why: str | None = None


def retry_decision(
    answer: EndpointResponse, *, tries: int, failures: int, failing_s: float, chance: float
) -> RetryDecision:
    """Decide what follows from a failed try.

    `tries` and `failures` count it, too: of the delivery, and of the endpoint one after the other.
    `failing_s` is since when every try of the endpoint failed, and `chance` is between 0 and 1.
    """
    asked_s = min(answer.retry_after_s, RETRY_AFTER_MAX_S)
    rest_s = max(asked_s, RESTS_S[min(failures, len(RESTS_S)) - 1])
    wait_s = None
    if tries < len(WAITS_S):
        wait_s = max(asked_s, WAITS_S[tries] * (1 + JITTER * (2 * chance - 1)))
    return RetryDecision(wait_s, rest_s, _disabled_why(answer, failing_s))


def _disabled_why(answer: EndpointResponse, failing_s: float) -> str | None:
    if answer.status == HTTPStatus.GONE:
        return "it answered 410 Gone"
    if failing_s >= FAILING_MAX_S:
        return f"every try failed for {FAILING_MAX_S // 3_600} hours"
    return None
