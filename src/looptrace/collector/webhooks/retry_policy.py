"""The rules for retries of deliveries and for disabling endpoints, without a clock.

The waits are those that the Standard Webhooks specification proposes: ten tries in 75 hours.
"""

from dataclasses import dataclass, field
from http import HTTPStatus

# The wait before each try, after the previous failure; the first try is made at once.
WAITS_S = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
# A wait is shorter or longer by this random part, so that deliveries that failed together are not
# retried together.
JITTER = 0.2
RETRY_AFTER_MAX_S = 86_400
# No wait is longer, by the schedule or by a receiver's request.
WAIT_MAX_S = max(*WAITS_S, RETRY_AFTER_MAX_S) * (1 + JITTER)
# An endpoint is disabled if every try failed for so long.
FAILING_MAX_S = 120 * 3_600
# After a failure the whole endpoint pauses, longer after each: at first no longer than the first
# wait of a single event, and never so long that nobody notices when it works again.
RESTS_S = (4, 8, 16, 32, 60)


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """The result of a try: an HTTP status or none, and the error (empty if accepted)."""

    status: int | None
    error: str = ""
    retry_after_s: float = 0.0
    text: str = ""  # the beginning of the body, without secrets
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """The consequences of a failure: the wait before the next try (None: no more tries)."""

    wait_s: float | None
    rest_s: float  # for which nothing else is sent to the endpoint
    disabled_why: str | None = None


def retry_decision(
    answer: EndpointResponse, *, tries: int, failures: int, failing_s: float, chance: float
) -> RetryDecision:
    """Decide the consequences of a failed try.

    `tries` of the delivery and consecutive `failures` of the endpoint include this try. `failing_s`
    is for how long every try of the endpoint has failed, and `chance` is between 0 and 1.
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
