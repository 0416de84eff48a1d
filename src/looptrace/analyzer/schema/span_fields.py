"""One span in canonical fields, in any dialect: what turns are made of."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from looptrace.analyzer.schema.message import Message

SpanKind = Literal["tool", "model", "agent"]


class ProgressFigures(msgspec.Struct, frozen=True, gc=False):
    """The progress that an agent's author recorded on a span."""

    tests_failed: int | None
    tests_total: int | None
    coverage: float | None
    markers: int | None  # sum of files created, dependencies added and code written
    metrics: str | None = None  # the author's own, as a JSON object of numbers


NO_FIGURES = ProgressFigures(None, None, None, None)


class Shape(NamedTuple):
    """How a span looks that is neither a turn's nor an agent's."""

    scope: str | None
    name: str
    keys: tuple[str, ...]  # of its attributes, in order
    known: bool  # whether a dialect knows it


@dataclass(frozen=True, slots=True)
class Intervention:
    """An event of a span that says that a person stepped in."""

    at_ns: int
    decision: str | None
    note: str | None


class SpanFields(msgspec.Struct, frozen=True, gc=False):
    """One span in canonical fields; None is unknown. `given` and `answer` belong to a model."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    start_ns: int
    end_ns: int
    service: str | None
    links: tuple[str, ...]  # ids of the traces that the span links to
    kind: SpanKind | None
    shape: Shape | None  # of a span without a kind, and of a step, which may be no call
    session: str | None
    payer: str | None  # the session from whose budget the span is paid, if it says so
    connection: str | None  # of a client to a server, both of which may write it
    user_id: str | None
    task: str | None
    task_parent: str | None
    task_kind: str | None
    agent: str | None
    phase: str | None
    phase_start_ns: int | None  # of the span above that declares it, if this span has a copy
    iteration: str | None
    status: str | None  # of an attempt at the task, like the next two fields
    blockers: str | None
    completed_work: str | None
    figures: ProgressFigures
    interventions: tuple[Intervention, ...]
    name: str
    call_id: str | None
    arguments: str | None
    result: str | None
    failed: bool | None
    error_type: str | None
    error: str | None
    stacktrace: str | None  # of the failure, else the text that its message comes from
    given: tuple[Message, ...] | None
    answer: tuple[Message, ...] | None
    finish_reason: str | None  # why a model stopped, like the next eight fields
    service_tier: str | None  # in lower case
    compacted: bool | None
    input_tokens: int | None  # all, like the output; the next three are parts
    output_tokens: int | None
    cached_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    differing_tokens: int | None  # between a run's usage and the sum of its responses
    is_part: bool = False  # of the call whose span is around it
    is_open: bool = False  # it had not ended when it was written
    is_record: bool = False  # of an agent's log, which may repeat a span
