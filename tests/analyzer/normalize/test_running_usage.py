"""What responses used is counted once, also where each counts what its run used before."""

import pytest

from looptrace.analyzer.normalize.turn_builder import turns_of
from tests.analyzer.normalize.test_trace_buffer import assert_comes_to_all_at_once
from tests.collector.store.stored import spans_of
from tests.otlp import Attributes, Trace

Usage = tuple[int, int]
SUMS = [(100, 20), (240, 41), (420, 63), (640, 86)]
ALONE = [(100, 20), (140, 21), (180, 22), (220, 23)]


def _chat(usage: Usage) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "model-s",
        "gen_ai.usage.input_tokens": usage[0],
        "gen_ai.usage.output_tokens": usage[1],
        "spring.ai.model.request.tool.names": '["weigh"]',
    }


def _run(trace: Trace, usages: list[Usage], *, calls: bool = True) -> None:
    """Add a request of Spring AI 1, whose responses and calls are within one span."""
    around = trace.span("call", None, {"spring.ai.kind": "advisor"})
    for number, usage in enumerate(usages):
        trace.span("chat model-s", around, _chat(usage))
        if calls and number < len(usages) - 1:
            made = {"spring.ai.kind": "tool_call", "spring.ai.tool.definition.name": "weigh"}
            arguments = {"spring.ai.tool.call.arguments": f'{{"crate": {number}}}'}
            trace.span("tool_call weigh", around, made | arguments)


def _tokens(trace: Trace) -> list[Usage]:
    spans = spans_of(trace)
    for size in (1, 3):
        assert_comes_to_all_at_once(spans, size)
    models = turns_of(spans)[0].filter(kind="model").sort("end_ns")
    return list(models.select("input_tokens", "output_tokens").rows())


def test_a_response_has_what_it_used_itself() -> None:
    """Spring AI 1 adds the usage of the responses before it in its request."""
    trace = Trace("s")
    _run(trace, SUMS)
    _run(trace, SUMS[:2])

    assert _tokens(trace) == ALONE + ALONE[:2]


@pytest.mark.parametrize(
    ("usages", "calls"),
    [
        (ALONE, True),  # Who makes the calls himself gets the usage of each response.
        ([(100, 20), (240, 41)], False),  # Two requests, of which none called a tool.
        ([(900, 40), (300, 80)], True),
        ([(100, 40), (900, 20)], True),
    ],
)
def test_what_is_no_sum_stays(usages: list[Usage], calls: bool) -> None:
    """A sum is at least twice the input before, and has its output; a call lies between."""
    trace = Trace("s")
    _run(trace, usages, calls=calls)

    assert _tokens(trace) == usages
