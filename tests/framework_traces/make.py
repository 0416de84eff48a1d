"""Writes the traces of this folder: two runs in the shape of each framework.

Run it from the project's root: `python -m tests.framework_traces.make`. Running it again changes
nothing. The shapes were read off traces that the frameworks wrote; tools, words and ids are our
own. A file is one OTLP/JSON request with a span a line.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from examples.dialects import Call, Run, Step
from tests.framework_traces import both, genai, openinference, openllmetry, rarer, strands, vendors
from tests.framework_traces.shape import Shape, traces_of
from tests.otlp import Trace

FOLDER = Path(__file__).parent
START, LONGEST = datetime(2026, 4, 7, 8, tzinfo=UTC), timedelta(minutes=2)
SERVICE, AGENT = "ready-orders", "packer"
CHECK = "check_labels"
ORDER = {"order": "A17"}
ERROR = "LabelError: 2 of 5 labels are missing"

Write: TypeAlias = Callable[[Run, str], Sequence[Trace]]


def _step(text: str, name: str, arguments: Mapping[str, str], result: str = "") -> Step:
    return Step(text, (Call(name, arguments, result, "" if result else ERROR),))


AGAIN = _step("I check the labels once more.", CHECK, ORDER)
STUCK = (_step("I check the labels.", CHECK, ORDER), AGAIN, AGAIN)
STEPS = {
    "loop": (*STUCK, AGAIN, AGAIN, Step("The labels stay missing.")),
    # One more call is asked for than the framework's own guard lets happen.
    "guarded": (*STUCK, AGAIN),
    "ok": (
        _step("I read the order.", "read_order", ORDER, "crates A and B"),
        _step("I check its labels.", CHECK, ORDER, "2 labels missing"),
        _step("Crate A first.", "print_label", {"order": "A17", "crate": "A"}, "printed"),
        _step("Did that help?", CHECK, ORDER, "1 label missing"),
        _step("Now crate B.", "print_label", {"order": "A17", "crate": "B"}, "printed"),
        _step("The last check.", CHECK, ORDER, "all labels there"),
        Step("Order A17 can go."),
    ),
}


def _run(number: int, steps: Sequence[Step]) -> Run:
    """Return a run in the one session of all; each begins when the one before is over."""
    at = (START + number * LONGEST).isoformat()
    task = "Get order A17 ready."
    return Run("depot-4", SERVICE, AGENT, at, "You pack orders.", task, tuple(steps))


def _in(shape: Shape) -> Write:
    return partial(traces_of, shape)


BOTH, LOOP = ("loop", "ok"), ("loop",)
SHAPES: Mapping[str, tuple[Write, Sequence[str]]] = {
    "adk-native": (_in(genai.ADK), BOTH),
    "adk-openinference": (_in(both.ADK), BOTH),
    "agentframework-native": (_in(genai.AGENT_FRAMEWORK), BOTH),
    "autogen-native": (strands.autogen, BOTH),
    "crewai-openinference": (_in(openinference.CREWAI), BOTH),
    "crewai-openllmetry": (_in(openllmetry.CREWAI), BOTH),
    "langfuse-native": (_in(vendors.LANGFUSE), BOTH),
    "langgraph-langsmith": (_in(vendors.LANGSMITH), BOTH),
    "langgraph-openinference": (_in(openinference.LANGGRAPH), BOTH),
    "langgraph-otelgenai": (_in(genai.LANGGRAPH), BOTH),
    "llamaindex-openllmetry": (_in(openllmetry.LLAMAINDEX), BOTH),
    "openaiagents-openinference": (_in(openinference.OPENAI_AGENTS), BOTH),
    "openaiagents-openllmetry": (_in(openllmetry.OPENAI_AGENTS), BOTH),
    "openairaw-openinference": (_in(openinference.OPENAI_SDK), BOTH),
    "openairaw-openllmetry": (_in(genai.OPENAI_OPENLLMETRY), BOTH),
    "openairaw-otelgenai": (_in(genai.OPENAI), BOTH),
    "openairaw-traceloop": (_in(openllmetry.TRACELOOP), BOTH),
    "pydanticai-native": (_in(genai.PYDANTIC_AI), BOTH),
    "pydanticai-native-v2": (_in(genai.PYDANTIC_AI_2), LOOP),
    "pydanticai-native-v3": (_in(genai.PYDANTIC_AI), LOOP),
    "pydanticai-native-v6": (_in(genai.PYDANTIC_AI), LOOP),
    "pydanticai-openinference": (_in(both.PYDANTIC_AI), BOTH),
    "smolagents-openinference": (_in(openinference.SMOLAGENTS), BOTH),
    "smolagents-openinference-code": (_in(openinference.SMOLAGENTS_CODE), BOTH),
    "strands-native": (_in(strands.STRANDS_OLD), BOTH),
    "strands-native-latest": (_in(strands.STRANDS_DETAILS), BOTH),
    "vercelai-legacy": (_in(vendors.VERCEL_AI), BOTH),
    # Of these shapes no trace of a framework is at hand.
    "looptrace-own": (rarer.own, BOTH),
    "openairaw-openinference-separate": (rarer.separate, BOTH),
    "openllmetry-numbered": (_in(rarer.OPENLLMETRY_NUMBERED), BOTH),
    "vercelai-stream": (_in(rarer.VERCEL_STREAM), BOTH),
}
GUARDED = {"agentframework-native"}
PARENTS_FIRST = {"langgraph-langsmith", "llamaindex-openllmetry"}


def names() -> list[str]:
    """Return the names of all traces."""
    return [f"{shape}-{end}" for shape, (_, ends) in SHAPES.items() for end in ends]


def traces() -> Iterator[tuple[str, str]]:
    """Yield name and content of every file."""
    number = 0
    for shape, (write, ends) in SHAPES.items():
        for end in ends:
            name, number = f"{shape}-{end}", number + 1
            steps = STEPS["guarded" if end == "loop" and shape in GUARDED else end]
            yield (
                name,
                _text(write(_run(number, steps), name), parents_first=shape in PARENTS_FIRST),
            )


def _text(made: Sequence[Trace], *, parents_first: bool) -> str:
    """Return one request as JSON with a span a line, without what is empty."""
    requests = [resource for trace in made for resource in trace.request()["resourceSpans"]]
    spans = [span for r in requests for scope in r["scopeSpans"] for span in scope["spans"]]
    if not parents_first:
        spans.sort(key=lambda span: str(span["endTimeUnixNano"]))
    lines = ",\n".join(_compact(_present(span)) for span in spans)
    scope = _compact(requests[0]["scopeSpans"][0]["scope"])
    resource = _compact(requests[0]["resource"])
    return (
        f'{{"resourceSpans":[{{"resource":{resource},"scopeSpans":'
        f'[{{"scope":{scope},"spans":[\n{lines}\n]}}]}}]}}\n'
    )


def _present(span: Mapping[str, Any]) -> dict[str, Any]:
    span = {**span, "status": {key: value for key, value in span["status"].items() if value}}
    return {key: value for key, value in span.items() if value}


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def write(folder: Path) -> None:
    """Write all traces into a folder."""
    for name, text in traces():
        packed = gzip.compress(text.encode(), mtime=0)
        (folder / f"{name}.json.gz").write_bytes(packed)


if __name__ == "__main__":
    write(FOLDER)
