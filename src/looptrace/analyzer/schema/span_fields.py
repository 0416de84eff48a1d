"""One span in canonical fields, in any dialect: what turns are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from looptrace.analyzer.schema.message import Message, ToolCall
from looptrace.analyzer.schema.turns import SILENCE

SpanKind = Literal["tool", "model", "agent"]


class ProgressFigures(msgspec.Struct, frozen=True, gc=False):
    """The progress that an agent's author recorded on a span."""

    tests_failed: int | None
    tests_total: int | None
    coverage: float | None
    markers: int | None  # sum of files created, dependencies added and code written
    metrics: str | None = None  # the author's own, as a JSON object of numbers

    @property
    def known(self) -> bool:
        """Whether the span says anything about progress."""
        return self != NO_FIGURES


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
    connection: str | None  # of a client to a server, both of which may write it
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
    finish_reason: str | None  # why a model stopped, like the next seven fields
    compacted: bool | None
    input_tokens: int | None  # all, like the output; the next three are parts
    output_tokens: int | None
    cached_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    differing_tokens: int | None  # between a run's usage and the sum of its responses
    is_part: bool = False  # of the call whose span is around it

    @property
    def speaks(self) -> bool:
        """Whether it is a turn of its own: a call, or a response; some spans only prepare one."""
        return self.kind == "tool" or bool(
            self.answer
            or self.input_tokens
            or self.output_tokens
            or self.failed
            or self.finish_reason
        )

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that a model's answer asks for."""
        answer = self.answer or ()
        if len(answer) == 1:
            return answer[0].calls
        return tuple(call for message in answer for call in message.calls)

    @property
    def text(self) -> str | None:
        """What a model said; "" if it only made calls, None if the trace does not say."""
        if self.answer is None:
            return None
        if len(self.answer) == 1:
            return self.answer[0].text
        texts = [message.text for message in self.answer]
        if None in texts:
            return None
        return "\n".join(filter(None, texts))

    @property
    def response(self) -> str | None:
        """A text that two responses share only if they say and ask for the same things."""
        text, calls = self.text, self.calls
        if text is None or (calls and any(call.arguments is None for call in calls)):
            return None
        if text or calls:
            return "\n".join([text, *[f"{c.name}({c.arguments})" for c in calls]])
        return SILENCE if all(message.silent for message in self.answer or ()) else None

    @property
    def news(self) -> str | None:
        """What a model was given since it last spoke; None if the trace does not say."""
        if not self.given:
            return None
        news: list[str] = []
        for message in reversed(self.given):
            if message.role == "assistant":
                break
            results = [result.text for result in message.results]
            if message.text is None or None in results:
                return None
            news += [message.text, *map(str, results)]
        news.reverse()
        return "\n".join(filter(None, news))

    @property
    def talks_on(self) -> str | None:
        """The last response in a model's history; None if it or this response has calls."""
        before = next((m for m in reversed(self.given or ()) if m.role == "assistant"), None)
        if before is None or before.calls or self.answer is None or self.calls:
            return None
        return before.text or None
