"""LangGraph: directives become messages, and an edge ends the graph where a gate is open.

OpenInference's instrumentor of LangChain writes the spans. The thread of a run is its session, and
with that the task, as in `processor.gate(TASK)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from examples.frameworks.shared import (
    ARGUMENTS,
    ATTEMPTS,
    LAST_WORDS,
    PROMPT,
    TASK,
    exported,
    outcome,
    script,
    show,
)
from looptrace.collector import LoopSpanProcessor

provider = TracerProvider()
processor = LoopSpanProcessor.local().use(provider)
memory = exported(provider)
LangChainInstrumentor().instrument(tracer_provider=provider)

gate = processor.gate(TASK)


def scripted() -> Iterator[AIMessage]:
    """Stand in for a model."""
    for call in script():
        asked = {"name": "run_tests", "args": ARGUMENTS, "id": call}
        yield AIMessage("", tool_calls=[asked])
    yield AIMessage(LAST_WORDS)


model = GenericFakeChatModel(messages=scripted())


@tool
def run_tests(path: str) -> str:
    """Run the tests of a file."""
    del path
    return outcome()


def ask(state: MessagesState) -> MessagesState:
    """Ask the model, with what looptrace tells the agent as the last message."""
    directive = gate.check().directive
    added = [SystemMessage(directive)] if directive else []
    if directive:
        print(f"message: {directive}")
    return {"messages": [*added, model.invoke([*state["messages"], *added])]}


def route(_: MessagesState) -> Literal["model", "__end__"]:
    """Go back to the model, unless a person has to decide first."""
    now = gate.check()
    if now.open:
        print(f"stopped: {now.directive}")
        return "__end__"
    return "model"


graph = StateGraph(MessagesState)
graph.add_node("model", ask)
graph.add_node("tools", ToolNode([run_tests]))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_conditional_edges("tools", route)
agent = graph.compile(name="fixer_agent")


def main() -> None:
    """Let the agent work on its task until it is stopped."""
    config: RunnableConfig = {"configurable": {"thread_id": TASK}, "recursion_limit": 3 * ATTEMPTS}
    agent.invoke(MessagesState(messages=[HumanMessage(PROMPT)]), config)
    show(__file__, memory)


if __name__ == "__main__":
    main()
