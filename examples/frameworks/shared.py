"""What the agents of this folder share: their task, their model's script, and how spans are shown.

No model is asked and nothing reaches the network. Each agent's model is a script that runs the same
tests again however often they fail, and would do so ATTEMPTS times. Run with `healthy`, the agent
gets on: fewer tests fail each time, until all pass.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from examples.recorder import FOLDER, otlp_json

TASK = "ticket-42"
PROMPT = "Make the tests in tests/test_cart.py pass."
ARGUMENTS = {"path": "tests/test_cart.py"}
FAILURE = "1 failed: test_total, expected 42, got 41"
LAST_WORDS = "I give up."
MENDED = ("3 failed: test_add, test_tax, test_total", FAILURE, "3 passed")
HEALTHY = sys.argv[1:] == ["healthy"]
ATTEMPTS = len(MENDED) if HEALTHY else 30
ANSWER_S = 0.5  # that a fast model takes

NS_PER_MS = 1_000_000
SHOWN_CHARACTERS = 60


def script() -> Iterator[str]:
    """Yield the ids of the calls that the model asks for, at the pace of a fast model."""
    for n in range(1, ATTEMPTS + 1):
        time.sleep(ANSWER_S)
        yield f"call_{n}"


_outcomes: list[str] = []


def outcome() -> str:
    """Run the tests, that is, return what they print."""
    _outcomes.append(MENDED[len(_outcomes)] if HEALTHY else FAILURE)
    return _outcomes[-1]


def exported(provider: TracerProvider) -> InMemorySpanExporter:
    """Keep the spans in memory, where an application sends them to its backend."""
    memory = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return memory


def show(program: str, memory: InMemorySpanExporter) -> None:
    """Print the number of calls and the spans with gate events; write all spans to a file."""
    spans = memory.get_finished_spans()
    path = FOLDER / f"{Path(program).stem}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(otlp_json(spans), encoding="utf-8")

    print(f"run_tests was called {len(_outcomes)} times; the script goes on to {ATTEMPTS}")
    for span in spans:
        if any(event.name == "looptrace.gate" for event in span.events):
            print("\n".join(_lines(span)))


def _lines(span: ReadableSpan) -> Iterator[str]:
    """Put a span into lines: its attributes, and what looptrace says in each of its events."""
    start_ns, end_ns = span.start_time or 0, span.end_time or 0
    yield f"{span.name}, ended after {(end_ns - start_ns) // NS_PER_MS} ms"
    for name, value in (span.attributes or {}).items():
        yield f"    {name}: {_short(value)}"
    for event in span.events:
        yield f"    event {event.name} after {(event.timestamp - start_ns) // NS_PER_MS} ms"
        for name, value in (event.attributes or {}).items():
            if name.startswith("looptrace."):
                yield f"        {name}: {_short(value)}"


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
