"""Agents of a real framework that spend, hang or fall silent are stopped, and found in batch.

`make test-frameworks` installs the framework; elsewhere these tests are skipped. Nobody waits for
hours: the clock by which calls are long is put forward, and so are the spans that end after it.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.settings.given import settings_of
from looptrace.collector import GateOpenError, LoopSpanProcessor
from looptrace.collector.otlp.sdk_spans import row_of
from looptrace.collector.otlp.span_table import span_table
from looptrace.collector.sdk import processor as processors
from looptrace.collector.sdk.agent_gate import GateState
from looptrace.collector.sdk.processor import QueueLimits
from looptrace.rules.vocabulary import NS_PER_S

WAIT_S = 120.0
# Four times as long as a call of a tool without a history may take.
HOURS_NS = 30_000 * NS_PER_S
CALLS_MAX = 40
TASK = "ticket-42"
SETTINGS: dict[str, Any] = {
    "rules": {
        "token_budget": {"task": 1_000},
        "silent_agent": {"ladder": [{"attempts": 4, "action": "gate"}]},
    }
}


class Watched:
    """A provider, the processor that watches it, and the spans that it exports."""

    def __init__(self) -> None:
        self.memory, self.provider = InMemorySpanExporter(), TracerProvider()
        limits = QueueLimits(delay_s=0.01, report_s=0.02)
        self.processor = LoopSpanProcessor.local(SETTINGS, limits=limits).use(self.provider)
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))
        self.told: list[GateState] = []
        self.is_stopped = threading.Event()
        self.since_ns = 0  # when the clock was put forward
        self.processor.on_gate(self._hear)

    def _hear(self, state: GateState) -> None:
        self.told.append(state)
        if state.open:
            self.is_stopped.set()

    def put_clock_forward(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let hours pass for calls that are open."""
        self.since_ns = time.time_ns()
        clock = SimpleNamespace(time_ns=lambda: time.time_ns() + HOURS_NS, monotonic=time.monotonic)
        monkeypatch.setattr(processors, "time", clock)

    def found(self) -> list[tuple[str, str | None]]:
        """Return the rule and the agent of each gate that batch opens, from exported spans."""
        rows: list[Any] = []
        for span in self.memory.get_finished_spans():
            row: list[Any] = list(row_of(span))
            for place in (4, 5):
                row[place] += HOURS_NS if self.since_ns and row[place] > self.since_ns else 0
            rows.append(tuple(row))
        events = analyse(span_table(rows), (), settings_of(SETTINGS).policy).events
        return [(event.rule, event.agent) for event in events if event.action == "gate"]

    def gates(self) -> list[str | None]:
        """Return the rules of the gates that opened live."""
        return [state.rule for state in self.told if state.open]


@contextmanager
def pydantic_ai(watched: Watched) -> Iterator[Callable[..., Any]]:
    """Yield a maker of agents whose model asks for its first tool again and again."""
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent  # noqa: PLC0415
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart  # noqa: PLC0415
    from pydantic_ai.models.function import AgentInfo, FunctionModel  # noqa: PLC0415
    from pydantic_ai.models.instrumented import InstrumentationSettings  # noqa: PLC0415

    def made(name: str, after: Callable[[int], None] = lambda _: None) -> Any:
        asked: list[int] = []

        def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            """Ask for something new each time."""
            del messages
            asked.append(len(asked))
            after(len(asked))
            assert len(asked) < CALLS_MAX
            call = ToolCallPart(
                info.function_tools[0].name, {"path": f"page {asked[-1]}"}, f"{name}_{asked[-1]}"
            )
            return ModelResponse(parts=[call])

        return Agent(FunctionModel(scripted), name=name)

    Agent.instrument_all(InstrumentationSettings(tracer_provider=watched.provider))
    try:
        yield made
    finally:
        Agent.instrument_all(False)
        watched.processor.shutdown()


async def until_stopped(watched: Watched, run: Any) -> None:
    """Run an agent, and cancel it when a gate opens: a call that hangs asks for no gate."""
    task = asyncio.ensure_future(run)
    stopped = asyncio.to_thread(watched.is_stopped.wait, WAIT_S)
    assert await stopped
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_agent_that_spends_without_repeating_is_stopped() -> None:
    """Each page is another, so nothing repeats; only what it costs shows that it runs away."""
    watched = Watched()
    with pydantic_ai(watched) as made:
        agent = made("reader", after=lambda _: watched.processor.force_flush() and None)
        gate = watched.processor.gate(TASK)

        @agent.tool_plain
        def read(path: str) -> str:
            """Read a page."""
            watched.processor.force_flush()
            gate.raise_if_open()
            return f"All that {path} says. " * 20

        with pytest.raises(GateOpenError):
            asyncio.run(agent.run("Read everything.", conversation_id=TASK))

    assert watched.gates() == ["token_budget"]
    assert watched.found() == [("token_budget", "reader")]


def test_a_call_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call never returns, so its agent can be ended only from outside."""
    watched = Watched()
    with pydantic_ai(watched) as made:
        agent = made("reader")

        @agent.tool_plain
        async def fetch(path: str) -> str:
            """Fetch a page that never comes."""
            watched.put_clock_forward(monkeypatch)
            await asyncio.Event().wait()
            return path

        asyncio.run(until_stopped(watched, agent.run("Fetch it.", conversation_id=TASK)))

    assert watched.gates() == ["hang"]
    assert watched.found() == [("hang", "reader")]


def test_a_hang_in_a_sub_agent_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outer call waits for the inner agent, and is no hang of its own."""
    watched = Watched()
    with pydantic_ai(watched) as made:
        outer, inner = made("chief"), made("helper")

        @inner.tool_plain
        async def fetch(path: str) -> str:
            """Fetch a page that never comes."""
            watched.put_clock_forward(monkeypatch)
            await asyncio.Event().wait()
            return path

        @outer.tool_plain
        async def delegate(path: str) -> str:
            """Let the other agent do it."""
            return str((await inner.run(f"Fetch {path}.")).output)

        asyncio.run(until_stopped(watched, outer.run("Fetch it.", conversation_id=TASK)))

    assert watched.gates() == ["hang"]
    # The outer call was given up with it; its task has no other call that could have been at work.
    assert ("hang", "helper") in watched.found()


def test_a_model_that_never_answers_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider keeps the connection open and says nothing, until its client gives up."""
    watched = Watched()
    with pydantic_ai(watched):
        from pydantic_ai import Agent  # noqa: PLC0415
        from pydantic_ai.models.function import FunctionModel  # noqa: PLC0415

        async def scripted(messages: Any, info: Any) -> Any:
            del messages, info
            watched.put_clock_forward(monkeypatch)
            assert await asyncio.to_thread(watched.is_stopped.wait, WAIT_S)
            raise TimeoutError("no answer")

        agent = Agent(FunctionModel(scripted), name="reader")
        with pytest.raises(TimeoutError):
            asyncio.run(agent.run("Say it.", conversation_id=TASK))

    assert watched.gates() == ["hang"]
    assert watched.found() == [("hang", "reader")]


def test_an_agent_that_falls_silent_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own code waits between two steps, so that no call is open."""
    watched = Watched()
    with pydantic_ai(watched) as made:
        agent = made("reader")

        @agent.tool_plain
        async def read(path: str) -> str:
            """Read a page."""
            return f"What {path} says."

        async def run() -> None:
            async with agent.iter("Read it.", conversation_id=TASK) as steps:
                async for step in steps:
                    if type(step).__name__ == "CallToolsNode":
                        break
                await steps.next(step)
                watched.put_clock_forward(monkeypatch)
                await asyncio.Event().wait()

        asyncio.run(until_stopped(watched, run()))

    assert watched.gates() == ["silent_agent"]
