"""Records what an agent does with the OpenTelemetry SDK, and prints what looptrace says of it.

An agent's author leaves ids and times to the SDK. Here both are fixed, so that every run writes the
same spans.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Span, StatusCode

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.gates.events import GateEvent
from looptrace.collector.files.reader import read_spans

FOLDER = Path("build/examples")
START = "2026-04-01T09:00:00+00:00"
NS_PER_S = 1_000_000_000
MODEL = "small-1"
ID_KEYS = ("traceId", "spanId", "parentSpanId")
Attributes = Mapping[str, str | int | Sequence[str]]


class Recorder:
    """The spans of one session, on a clock that moves only when something takes time."""

    def __init__(self, session: str) -> None:
        self._finished = InMemorySpanExporter()
        provider = TracerProvider(
            id_generator=_Counting(),
            resource=Resource({"service.name": session}),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(SimpleSpanProcessor(self._finished))
        self._tracer = provider.get_tracer("examples")
        self._session = session
        self._now_ns = int(datetime.fromisoformat(START).timestamp()) * NS_PER_S

    @contextmanager
    def agent(self, name: str, attributes: Attributes) -> Iterator[Span]:
        """Record that an agent is at work; what is recorded within is its doing."""
        own: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            **attributes,
        }
        with self._span(f"invoke_agent {name}", own) as span:
            yield span

    def tool(
        self,
        name: str,
        arguments: Mapping[str, str],
        result: str = "",
        error: str = "",
        attributes: Attributes | None = None,
    ) -> None:
        """Record a tool call and what came of it. An error is written `Type: message`."""
        called: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            **(attributes or {}),
        }
        with self._span(f"execute_tool {name}", called) as span:
            if error:
                kind, _, message = error.partition(": ")
                span.set_attribute("error.type", kind)
                span.set_status(StatusCode.ERROR, message)
            else:
                span.set_attribute("gen_ai.tool.call.result", result)

    def response(self, text: str, given: str) -> None:
        """Record what a model said, and the message that it answered."""
        said: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": MODEL,
            "gen_ai.input.messages": _message("user", given),
            "gen_ai.output.messages": _message("assistant", text),
            "gen_ai.usage.input_tokens": 400,
            "gen_ai.usage.output_tokens": 40,
        }
        with self._span(f"chat {MODEL}", said):
            pass

    def person(self, note: str) -> None:
        """Record on the span at hand that a person stepped in."""
        self.wait(60)
        event = {"looptrace.note": note}
        trace.get_current_span().add_event("looptrace.human_intervention", event, self._now_ns)

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self._now_ns += seconds * NS_PER_S

    def otlp_json(self) -> str:
        """Return the spans that have ended as one OTLP/JSON request."""
        return otlp_json(self._finished.get_finished_spans())

    @contextmanager
    def _span(self, name: str, attributes: Attributes) -> Iterator[Span]:
        shared = {"gen_ai.conversation.id": self._session, **attributes}
        span = self._tracer.start_span(name, attributes=shared, start_time=self._now_ns)
        with trace.use_span(span):
            yield span
        self.wait(1)
        span.end(self._now_ns)


class _Counting(IdGenerator):
    """Ids that count, where the SDK draws them."""

    def __init__(self) -> None:
        self._last = 0

    def generate_trace_id(self) -> int:
        return self.generate_span_id()

    def generate_span_id(self) -> int:
        self._last += 1
        return self._last


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def otlp_json(spans: Sequence[ReadableSpan]) -> str:
    """Return spans as one OTLP/JSON request."""
    request = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for resource in request["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                # Protobuf's own JSON mapping writes ids as base64, OTLP/JSON in hex.
                span |= {key: b64decode(span[key]).hex() for key in ID_KEYS if key in span}
    return json.dumps(request) + "\n"


def recorded(work: Callable[[Recorder], None], path: Path) -> None:
    """Let an agent work, and write its spans to a file."""
    recorder = Recorder(path.stem)
    work(recorder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(recorder.otlp_json(), encoding="utf-8")


def events_of(path: Path) -> tuple[GateEvent, ...]:
    """Return what looptrace tells of the traces in a file, by task and in the order it is told."""
    read = read_spans([str(path)])
    return analyse(read.spans, read.skipped).events


def told(path: Path) -> str:
    """Put what looptrace tells into lines: the task, the turn, what is to be done, and why."""
    return "".join(
        f"{event.task}, turn {event.turn}: {_headline(event)}\n    {_detail(event)}\n"
        for event in events_of(path)
    )


def tell(work: Callable[[Recorder], None], name: str) -> None:
    """Record an example and print what looptrace tells of it."""
    path = FOLDER / f"{name}.json"
    recorded(work, path)
    print(told(path), end="")


def _headline(event: GateEvent) -> str:
    if event.type == "counter_reset":
        return f"counter reset, loop_count was {event.loop_count}"
    if event.type == "gate_resolved":
        return "gate resolved by a person"
    why = f", {event.why}" if event.why not in (None, "LADDER") else ""
    return f"{event.action} by {event.rule}{why}"


def _detail(event: GateEvent) -> str:
    if event.type == "gate_resolved" and event.note:
        return event.note
    return f"reason: {event.reason}" if event.type == "counter_reset" else event.reason
