"""Directives reach the models of real frameworks through the middleware, and gates end runs.

`make test-frameworks` installs the frameworks; elsewhere these tests are skipped.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from looptrace.collector import GateOpenError, LoopSpanProcessor
from looptrace.collector.sdk.processor import QueueLimits

WARNED = "you did the same thing 3 times by calling run"
CALLS_MAX = 20
WAIT_S = 60.0


def watched() -> tuple[TracerProvider, LoopSpanProcessor]:
    """Return a provider and the processor that watches it."""
    provider = TracerProvider()
    return provider, LoopSpanProcessor.local(limits=QueueLimits(delay_s=0.01)).use(provider)


def assert_told(given: list[str]) -> None:
    """Check that the fourth request has the directive, and that there is none after it."""
    assert [WARNED in text for text in given] == [False, False, False, True], given


@pytest.mark.parametrize("is_async", [False, True])
def test_langchain(is_async: bool) -> None:
    """The directive is in the instructions of one request, beside those of the author."""
    pytest.importorskip("langchain")
    from langchain.agents import create_agent  # noqa: PLC0415
    from langchain_core.language_models.fake_chat_models import (  # noqa: PLC0415
        GenericFakeChatModel,
    )
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage  # noqa: PLC0415
    from langchain_core.outputs import ChatResult  # noqa: PLC0415
    from langchain_core.tools import tool  # noqa: PLC0415
    from openinference.instrumentation.langchain import (  # noqa: PLC0415
        LangChainInstrumentor,
    )

    from looptrace.middleware.langchain import LoopMiddleware  # noqa: PLC0415

    provider, processor = watched()
    given: list[str] = []

    class Scripted(GenericFakeChatModel):
        """Keeps the instructions that it is given."""

        def bind_tools(self, *_: Any, **__: Any) -> Any:
            """Take any tools."""
            return self

        def _generate(self, messages: list[BaseMessage], *rest: Any, **more: Any) -> ChatResult:
            given.append(messages[0].text)
            return super()._generate(messages, *rest, **more)

    @tool
    def run(path: str) -> str:
        """Run a file."""
        return f"{path} is as it was"

    def asked() -> Iterator[AIMessage]:
        for number in range(CALLS_MAX):
            calls = [{"name": "run", "args": {"path": "a"}, "id": f"call_{number}"}]
            yield AIMessage("", tool_calls=calls)

    agent = create_agent(
        Scripted(messages=asked()),
        [run],
        system_prompt="Mend it.",
        middleware=[LoopMiddleware(processor, wait_s=WAIT_S)],
    )
    config: Any = {"configurable": {"thread_id": f"ticket {is_async}"}}
    messages: Any = {"messages": [HumanMessage("Make it run.")]}
    LangChainInstrumentor().instrument(tracer_provider=provider)
    try:
        with pytest.raises(GateOpenError):
            asyncio.run(agent.ainvoke(messages, config)) if is_async else agent.invoke(
                messages, config
            )
    finally:
        LangChainInstrumentor().uninstrument()
    assert all(text.startswith("Mend it.") for text in given)
    assert_told(given)


def test_openai_agents() -> None:
    """The filter of what a model is given adds the directive to its instructions."""
    pytest.importorskip("agents")
    from agents import (  # noqa: PLC0415
        Agent,
        Model,
        ModelResponse,
        RunConfig,
        Runner,
        Usage,
        function_tool,
    )
    from openai.types.responses import ResponseFunctionToolCall  # noqa: PLC0415
    from openinference.instrumentation.openai_agents import (  # noqa: PLC0415
        OpenAIAgentsInstrumentor,
    )

    from looptrace.middleware.openai_agents import loop_filter  # noqa: PLC0415

    provider, processor = watched()
    given: list[str] = []

    class Scripted(Model):
        """Keeps the instructions that it is given."""

        async def get_response(self, system_instructions: str | None, *_: Any, **__: Any) -> Any:
            """Ask for the same call again."""
            given.append(system_instructions or "")
            call = ResponseFunctionToolCall(
                type="function_call",
                name="run",
                arguments=json.dumps({"path": "a"}),
                call_id=f"call_{len(given)}",
            )
            return ModelResponse(output=[call], usage=Usage(), response_id="")

        def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            """Be there, as the class of the framework asks; nothing is streamed."""
            raise NotImplementedError

    @function_tool
    def run(path: str) -> str:
        """Run a file."""
        return f"{path} is as it was"

    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
    config = RunConfig(call_model_input_filter=loop_filter(processor, wait_s=WAIT_S))
    agent = Agent("fixer", instructions="Mend it.", model=Scripted(), tools=[run])
    try:
        with pytest.raises(GateOpenError):
            Runner.run_sync(agent, "Make it run.", run_config=config, max_turns=CALLS_MAX)
    finally:
        OpenAIAgentsInstrumentor().uninstrument()
    assert all(text.startswith("Mend it.") for text in given)
    assert_told(given)


# Pydantic AI leaves a generator open where its instructions raise.
@pytest.mark.filterwarnings("ignore:asynchronous generator:ResourceWarning")
def test_pydantic_ai() -> None:
    """Instructions that are made for each request have the directive once."""
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent  # noqa: PLC0415
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart  # noqa: PLC0415
    from pydantic_ai.models.function import AgentInfo, FunctionModel  # noqa: PLC0415
    from pydantic_ai.models.instrumented import InstrumentationSettings  # noqa: PLC0415

    from looptrace.middleware.pydantic_ai import loop_instructions  # noqa: PLC0415

    provider, processor = watched()
    given: list[str] = []

    def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Ask for the same call again."""
        del messages
        given.append(info.instructions or "")
        return ModelResponse(parts=[ToolCallPart("run", {"path": "a"}, f"call_{len(given)}")])

    settings = InstrumentationSettings(tracer_provider=provider)
    agent = Agent(FunctionModel(scripted), instructions="Mend it.", name="fixer")
    Agent.instrument_all(settings)
    agent.instructions(loop_instructions(processor, wait_s=WAIT_S))

    @agent.tool_plain
    def run(path: str) -> str:
        """Run a file."""
        return f"{path} is as it was"

    try:
        with pytest.raises(GateOpenError):
            agent.run_sync("Make it run.")
    finally:
        Agent.instrument_all(False)
    assert all(text.startswith("Mend it.") for text in given)
    assert_told(given)


def test_strands() -> None:
    """The handler of the input adds the directive to the instructions of one request."""
    pytest.importorskip("strands")
    from opentelemetry import trace  # noqa: PLC0415
    from strands import Agent, tool  # noqa: PLC0415
    from strands.middleware import InvokeModelStage  # noqa: PLC0415
    from strands.models import Model  # noqa: PLC0415
    from strands.types.exceptions import EventLoopException  # noqa: PLC0415

    from looptrace.middleware.strands import loop_input  # noqa: PLC0415

    provider, processor = watched()
    trace.set_tracer_provider(provider)
    given: list[str] = []

    class Scripted(Model):
        """Keeps the instructions that it is given."""

        def update_config(self, **_: Any) -> None:
            """Have no configuration."""

        def get_config(self) -> dict[str, Any]:
            """Return the configuration, which is none."""
            return {}

        def structured_output(self, *_: Any, **__: Any) -> Any:
            """Be there, as the class of the framework asks; only text is given."""
            raise NotImplementedError

        async def stream(
            self,
            messages: Any,
            tool_specs: Any = None,
            system_prompt: str | None = None,
            *,
            system_prompt_content: Any = None,
            **_: Any,
        ) -> AsyncIterator[Any]:
            """Ask for the same call again."""
            del messages, tool_specs
            blocks = [block["text"] for block in system_prompt_content or ()]
            given.append("\n\n".join(blocks) or system_prompt or "")
            called = {"name": "run", "toolUseId": f"call_{len(given)}"}
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": {"toolUse": called}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"path": "a"}'}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}

    @tool
    def run(path: str) -> str:
        """Run a file."""
        return f"{path} is as it was"

    agent = Agent(
        model=Scripted(), tools=[run], system_prompt="Mend it.", callback_handler=None, name="fixer"
    )
    agent.add_middleware(InvokeModelStage.Input, loop_input(processor, wait_s=WAIT_S))
    with pytest.raises(EventLoopException) as raised:
        agent("Make it run.")
    assert isinstance(raised.value.__cause__, GateOpenError)
    assert all(text.startswith("Mend it.") for text in given)
    assert_told(given)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
def test_google_adk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-in adds the directive to the instructions of one request."""
    pytest.importorskip("google.adk")
    from google.adk.agents import LlmAgent  # noqa: PLC0415
    from google.adk.apps import App  # noqa: PLC0415
    from google.adk.models import BaseLlm, LlmRequest, LlmResponse  # noqa: PLC0415
    from google.adk.runners import InMemoryRunner  # noqa: PLC0415
    from google.genai import types  # noqa: PLC0415
    from opentelemetry import trace  # noqa: PLC0415

    from looptrace.middleware.google_adk import LoopPlugin  # noqa: PLC0415

    provider, processor = watched()
    trace.set_tracer_provider(provider)
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    given: list[str] = []

    class Scripted(BaseLlm):
        """Keeps the instructions that it is given."""

        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncIterator[LlmResponse]:
            """Ask for the same call again."""
            del stream
            given.append(str(llm_request.config.system_instruction))
            assert len(given) < CALLS_MAX
            call = types.FunctionCall(id=f"call_{len(given)}", name="run", args={"path": "a"})
            content = types.Content(role="model", parts=[types.Part(function_call=call)])
            yield LlmResponse(content=content)

    def run(path: str) -> str:
        """Run a file."""
        return f"{path} is as it was"

    async def work() -> None:
        """Let the agent work."""
        agent = LlmAgent(
            name="fixer", model=Scripted(model="scripted"), instruction="Mend it.", tools=[run]
        )
        plugins: list[Any] = [LoopPlugin(processor, wait_s=WAIT_S)]
        runner = InMemoryRunner(app=App(name="fixer_app", root_agent=agent, plugins=plugins))
        named = {"user_id": "user", "session_id": "ticket"}
        await runner.session_service.create_session(app_name="fixer_app", **named)
        asked = types.Content(role="user", parts=[types.Part(text="Make it run.")])
        async for _event in runner.run_async(**named, new_message=asked):
            pass

    with pytest.raises(RuntimeError) as raised:
        asyncio.run(work())
    assert isinstance(raised.value.__cause__, GateOpenError)
    assert all(text.startswith("Mend it.") for text in given)
    assert_told(given)


@pytest.mark.parametrize("is_code", [False, True])
def test_smolagents(is_code: bool) -> None:
    """The callback adds the directive to what the model sees of its last step."""
    pytest.importorskip("smolagents")
    from openinference.instrumentation.smolagents import (  # noqa: PLC0415
        SmolagentsInstrumentor,
    )
    from smolagents import CodeAgent, LogLevel, Model, ToolCallingAgent, tool  # noqa: PLC0415
    from smolagents.models import (  # noqa: PLC0415
        ChatMessage,
        ChatMessageToolCall,
        ChatMessageToolCallFunction,
        MessageRole,
    )

    from looptrace.middleware.smolagents import loop_callback  # noqa: PLC0415

    provider, processor = watched()
    given: list[str] = []

    class Scripted(Model):
        """Keeps the last message that it is given."""

        def generate(self, messages: list[ChatMessage], *_: Any, **__: Any) -> ChatMessage:
            """Ask for the same call again."""
            given.append(str(messages[-1].content))
            if is_code:
                code = "Again.\n<code>\nprint(run(path='a'))\n</code>"
                return ChatMessage(role=MessageRole.ASSISTANT, content=code)
            function = ChatMessageToolCallFunction(name="run", arguments={"path": "a"})
            call = ChatMessageToolCall(id=f"call_{len(given)}", type="function", function=function)
            return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])

    @tool
    def run(path: str) -> str:
        """Run a file.

        Args:
            path: the file
        """
        return f"{path} is as it was"

    kind = CodeAgent if is_code else ToolCallingAgent
    SmolagentsInstrumentor().instrument(tracer_provider=provider)
    agent = kind(
        [run],
        Scripted(model_id="scripted"),
        name="fixer",
        max_steps=CALLS_MAX,
        verbosity_level=LogLevel.OFF,
        step_callbacks=[loop_callback(processor, wait_s=WAIT_S)],
    )
    try:
        with pytest.raises(GateOpenError):
            for _step in agent.run("Make it run.", stream=True):
                pass
    finally:
        SmolagentsInstrumentor().uninstrument()
    assert_told(given)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_crewai(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook adds the directive as one message of the system."""
    monkeypatch.setenv("CREWAI_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("CREWAI_TRACING_ENABLED", "false")
    pytest.importorskip("crewai")
    from crewai import Agent, Crew, Task  # noqa: PLC0415
    from crewai.hooks import (  # noqa: PLC0415
        HookAborted,
        register_before_llm_call_hook,
        unregister_before_llm_call_hook,
    )
    from crewai.llms.base_llm import BaseLLM  # noqa: PLC0415
    from crewai.tools import tool  # noqa: PLC0415
    from openinference.instrumentation.crewai import CrewAIInstrumentor  # noqa: PLC0415

    from looptrace.middleware.crewai import loop_hook  # noqa: PLC0415

    provider, processor = watched()
    given: list[str] = []

    class Scripted(BaseLLM):
        """Keeps the last message that it is given."""

        def call(self, messages: Any, *_: Any, **__: Any) -> Any:
            """Ask for the same call again."""
            given.append(str(messages[-1]))
            function = {"name": "run", "arguments": {"path": "a"}}
            return [{"id": f"call_{len(given)}", "type": "function", "function": function}]

        def supports_function_calling(self) -> bool:
            """Call tools by functions."""
            return True

    @tool
    def run(path: str) -> str:
        """Run a file."""
        return f"{path} is as it was"

    fixer = Agent(
        role="fixer",
        goal="Make it run.",
        backstory="You mend code.",
        llm=Scripted(model="scripted"),
        tools=[run],
        max_iter=CALLS_MAX,
        cache=False,
    )
    task = Task(description="Make it run.", expected_output="It runs.", agent=fixer)
    hook = loop_hook(processor, wait_s=WAIT_S)
    CrewAIInstrumentor().instrument(tracer_provider=provider)
    register_before_llm_call_hook(hook)
    try:
        with pytest.raises(HookAborted) as raised:
            Crew(agents=[fixer], tasks=[task]).kickoff()
    finally:
        unregister_before_llm_call_hook(hook)
        CrewAIInstrumentor().uninstrument()
    assert isinstance(raised.value.__cause__, GateOpenError)
    assert_told(given)
