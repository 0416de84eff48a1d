"""One turn as an object: a row of the turn table, for programs that read turns one by one."""

from dataclasses import dataclass

from looptrace.rules.turns import Kind


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of an agent. The fields are the columns of `TURN_SCHEMA`; None means unknown."""

    task: str
    session: str
    payer: str | None
    trace_id: str
    span_id: str
    call_id: str | None
    turn: int
    kind: Kind
    user_id: str | None
    agent: str
    name: str | None
    phase: str | None
    phase_start_ns: int | None
    iteration: str | None
    subtask: str | None
    task_kind: str | None
    arguments: str | None
    result: str | None
    failed: bool | None
    error_type: str | None
    error: str | None
    error_kind: str | None
    location: str | None
    trace_hash: str | None
    text: str | None
    step: str | None
    order_ns: int
    start_ns: int
    end_ns: int
    finish_reason: str | None
    service_tier: str | None
    compacted: bool | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    tests_failed: int | None
    tests_total: int | None
    coverage: float | None
    markers: int | None
    metrics: str | None
    service: str | None
    call: str | None
    outcome: str | None
    signature: str | None
    response: str | None
    talks_on: str | None
