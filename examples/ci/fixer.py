"""An agent that mends a rounding error; it must not try the same thing for ever.

`python fixer.py traces/fixer.binpb` runs it and writes its spans, as OTLP. With FIXER_FORGETS=1 it
forgets what it has tried.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from looptrace.collector import agent, turn

TOTAL = 19.994
IDEAS: dict[str, float] = {
    "round(total)": round(TOTAL),
    "int(total)": int(TOTAL),
    "round(total, 2)": round(TOTAL, 2),
}
STEPS_MAX = 6


def run_tests(idea: str) -> str:
    """Run the tests of the shop with an idea in its code."""
    shown = IDEAS[idea]
    return "12 passed" if shown == 19.99 else f"FAILED test_total: {shown} != 19.99"


def mend(*, forgets: bool) -> bool:
    """Try one idea after the other until the tests pass; return whether they do."""
    ideas = list(IDEAS)
    with agent("fixer", session="mend-rounding"):
        for step in range(STEPS_MAX):
            idea = ideas[0 if forgets else step % len(ideas)]
            with turn("edit", {"file": "shop.py", "line": f"total = {idea}"}) as edit:
                edit.result = "1 line changed"
            with turn("run_tests", {"path": "tests/"}) as tests:
                tests.result = run_tests(idea)
            if tests.result == "12 passed":
                return True
    return False


def is_forgetful() -> bool:
    """Return whether the agent has lost its memory, as after a bad change."""
    return bool(os.environ.get("FIXER_FORGETS"))


def main(path: Path) -> None:
    """Run the agent and write its spans."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    mend(forgets=is_forgetful())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_spans(exporter.get_finished_spans()).SerializeToString())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
