"""Measures the span processor: `python -m benchmarks.processor [--spans 20000]`.

It prints the CPU time of the thread that starts and ends a tool's span, which is the cost for an
agent, for the SDK alone, its own batch processor, and looptrace's forwarding and local detection.
Each is measured several times in turn, and the median counts. Last comes the time of `gate.check()`
where a gate is open.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median, quantiles

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from benchmarks.generate import WORDS
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.collector.sdk.forward import ForwardEngine
from looptrace.collector.sdk.processor import FORWARD_LIMITS, LoopSpanProcessor

ROUNDS = 7
CHECKS = 10_000
NS_PER_US = 1_000
AGENT_SPANS_PER_S = 10
ALONE, BATCH = "SDK alone", "BatchSpanProcessor"
FORWARD, LOCAL = "looptrace, forward", "looptrace, local"
_ABOUT = {"gen_ai.agent.name": "fixer", "gen_ai.conversation.id": "talk"}


class Nowhere(SpanExporter):
    """Sends spans nowhere, so that only the path to it is measured."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Drop the spans."""
        del spans
        return SpanExportResult.SUCCESS


ARMS: dict[str, Callable[[], SpanProcessor | None]] = {
    ALONE: lambda: None,
    BATCH: lambda: BatchSpanProcessor(Nowhere()),
    FORWARD: lambda: LoopSpanProcessor(
        ForwardEngine(Nowhere(), "nowhere", ()), limits=FORWARD_LIMITS
    ),
    LOCAL: LoopSpanProcessor.local,
}


def us_per_span(processor: SpanProcessor | None, spans: int) -> float:
    """Return the CPU microseconds that the calling thread spends on a span."""
    provider = TracerProvider()
    if processor is not None:
        provider.add_span_processor(processor)
    tracer = provider.get_tracer("benchmark")
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "run_tests",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.tool.call.arguments": json.dumps({"path": "tests/test_cart.py"}),
        "gen_ai.tool.call.result": "1 failed, 11 passed in 0.31s",
        **_ABOUT,
    }
    with tracer.start_as_current_span("agent"):
        began = time.thread_time_ns()
        for _ in range(spans):
            tracer.start_span("execute_tool run_tests", attributes=attributes).end()
        took = time.thread_time_ns() - began
    provider.shutdown()
    return took / spans / NS_PER_US


def us_per_check() -> tuple[float, float]:
    """Return the microseconds of a check of an open gate: p50 and p99.9."""
    processor = LoopSpanProcessor(ForwardEngine(Nowhere(), "nowhere", ()))
    processor._notify([GateNotice("event", "gate_opened", "talk", "", "", directive="Stop.")])
    gate = processor.gate("talk")
    taken = []
    for _ in range(CHECKS):
        began = time.perf_counter_ns()
        gate.check()
        taken.append((time.perf_counter_ns() - began) / NS_PER_US)
    processor.shutdown()
    return median(taken), quantiles(taken, n=1_000)[-1]


def agent_cpu_s(processor: SpanProcessor | None, seconds: float) -> float:
    """Return the CPU seconds of a process with an agent of ten spans a second."""
    provider = TracerProvider()
    if processor is not None:
        provider.add_span_processor(processor)
    tracer = provider.get_tracer("benchmark")
    words = random.Random(1)
    with tracer.start_as_current_span("invoke_agent", attributes=_ABOUT):
        began_s = 0.0
        for number in range(int(seconds * AGENT_SPANS_PER_S) + 1):
            kind, attributes = _work(number, words)
            with tracer.start_as_current_span(kind, attributes=attributes):
                pass
            time.sleep(1 / AGENT_SPANS_PER_S)
            began_s = (
                began_s or time.process_time()
            )  # The first span loads modules and other things once.
    provider.shutdown()
    return time.process_time() - began_s


def _work(number: int, words: random.Random) -> tuple[str, dict[str, str]]:
    """Return the next step of an agent: a request to a model, or a call of the named tool."""
    said = f"{words.randrange(10**9)} " + " ".join(words.choices(WORDS, k=40))
    if number % 2:
        message = {"role": "assistant", "parts": [{"type": "text", "content": said}]}
        return "chat", {
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": json.dumps([message]),
            **_ABOUT,
        }
    return "execute_tool read_file", {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read_file",
        "gen_ai.tool.call.arguments": json.dumps({"path": f"src/{number}.py"}),
        "gen_ai.tool.call.result": said,
        **_ABOUT,
    }


def main() -> int:
    """Print the table; exit with 1 where forwarding costs more than the batch processor."""
    parser = argparse.ArgumentParser(
        description="Measure the span processor in the agent's thread."
    )
    parser.add_argument("--spans", type=int, default=20_000)
    parser.add_argument("--agent", nargs=2, metavar=("ARM", "SECONDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.agent:
        arm, seconds = options.agent
        print(agent_cpu_s(ARMS[arm](), float(seconds)))
        return 0
    spans = options.spans
    taken: dict[str, list[float]] = {name: [] for name in ARMS}
    for _ in range(ROUNDS):
        for name, make in ARMS.items():
            taken[name].append(us_per_span(make(), spans))
    medians = {name: median(values) for name, values in taken.items()}
    print(f"{'':22}{'µs/span':>10}{'ratio':>8}")
    for name, value in medians.items():
        print(f"{name:22}{value:10.1f}{value / medians[BATCH]:8.2f}")
    print("gate.check(): p50 {:.1f} µs, p99.9 {:.1f} µs".format(*us_per_check()))
    return int(medians[FORWARD] > medians[BATCH])


if __name__ == "__main__":
    sys.exit(main())
