"""Steps of agents, each with the calls of a response and what they returned.

smolagents (huggingface/smolagents@e3a5b89 src/smolagents/memory.py, agents.py), browser-use
(browser-use/browser-use@85ddbfe browser_use/agent/views.py), DSPy (stanfordnlp/dspy@4ed377e
dspy/predict/react.py), Trae Agent (bytedance/trae-agent@246e7c8 trae_agent/utils/
trajectory_recorder.py) and Dify (langgenius/dify@01c6681 api/fields/conversation_fields.py,
api/core/agent/base_agent_runner.py; fc_agent_runner.py@0301bd3, cot_agent_runner.py@00ad751).
"""

import re
from collections.abc import Iterator
from itertools import count, zip_longest
from typing import Any

from looptrace.collector.importers.rows.messages import ApiMessage
from looptrace.collector.importers.saved.api_parts import (
    answer_message,
    call_part,
    given_message,
    result_message,
)
from looptrace.collector.importers.spans import mapping, objects, text_of

# Dify writes several tools of one thought so.
_TOOLS_APART = ";"
# Actions that say the run has ended, and do nothing.
_DONE, _FINISH, _FINAL = "done", "finish", "final answer"
_DSPY_ERROR = re.compile("Execution error in ")


def smolagents_messages(step: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a step of smolagents: a task, a plan or an action.

    An action whose call has failed names its calls in its response alone.
    """
    timing = mapping(step.get("timing"))
    start, end = timing.get("start_time"), timing.get("end_time")
    text, usage = step.get("task", step.get("system_prompt")), step.get("token_usage")
    if text is not None:
        yield given_message(text)
        return
    said = mapping(step.get("model_output_message"))
    asked = objects(step.get("tool_calls")) or objects(said.get("tool_calls"))
    calls = [
        call_part(call.get("id"), told.get("name"), told.get("arguments"))
        for call in asked
        for told in [mapping(call.get("function"))]
    ]
    told = text_of(step.get("plan", step.get("model_output")))
    yield answer_message(told, calls, usage=usage, timestamp=start)
    error = mapping(step.get("error")).get("message")
    for place, call in enumerate(calls):
        # What several calls returned stands together.
        result = error or step.get("observations") if place == 0 else None
        if result is not None:
            failed = error is not None
            yield result_message(call["id"], result, failed=failed, timestamp=end)
    if error and not calls:
        yield given_message(error, timestamp=end)


def browser_use_messages(step: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a step of browser-use: actions, and a result of each that was done."""
    said, about = mapping(step.get("model_output")), mapping(step.get("metadata"))
    state = mapping(said.get("current_state")) or said
    end, number = about.get("step_end_time"), about.get("step_number")
    held = objects(said.get("action"))
    actions: list[tuple[str, Any]] = [next(iter(action.items()), ("", {})) for action in held]
    calls = [
        call_part(f"{number}-{place}", name, given)
        for place, (name, given) in enumerate(actions)
        if name != _DONE
    ]
    if said:
        ended = [given for name, given in actions if name == _DONE]
        text = mapping(ended[0]).get("text") if ended else state.get("next_goal")
        yield answer_message(text, calls, timestamp=about.get("step_start_time"))
    for call, result in zip_longest(calls, objects(step.get("result"))):
        if result is None:  # The actions after one that failed are not done.
            return
        error = result.get("error")
        content = result.get("extracted_content") or result.get("long_term_memory") or ""
        if call is None:
            if error:
                yield given_message(error, timestamp=end)
            continue
        failed = error is not None
        yield result_message(call["id"], error or content, failed=failed, timestamp=end)


def dspy_messages(trajectory: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a trajectory of DSPy's ReAct."""
    for step in count():
        name = trajectory.get(f"tool_name_{step}")
        if name in (None, _FINISH):
            if name is not None:
                yield answer_message(trajectory.get(f"thought_{step}"))
            return
        call = call_part(f"call-{step}", name, trajectory.get(f"tool_args_{step}"))
        yield answer_message(trajectory.get(f"thought_{step}"), [call])
        result = trajectory.get(f"observation_{step}")
        if result is not None:
            failed = _DSPY_ERROR.match(text_of(result) or "") is not None
            yield result_message(call["id"], result, failed=failed)


def trae_messages(record: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the messages of a trajectory of Trae Agent."""
    yield given_message(record.get("task"), timestamp=record.get("start_time"))
    for step in objects(record["agent_steps"]):
        said, at = mapping(step.get("llm_response")), step.get("timestamp")
        calls = [
            call_part(call.get("call_id"), call.get("name"), call.get("arguments"))
            for call in objects(step.get("tool_calls"))
        ]
        if said or calls:
            told = {"model": said.get("model"), "usage": said.get("usage"), "timestamp": at}
            yield answer_message(said.get("content"), calls, **told)
        for each in objects(step.get("tool_results")):
            failed = each.get("success") is False
            result = each.get("error") if failed else each.get("result")
            yield result_message(each.get("call_id"), result, failed=failed, timestamp=at)


def dify_messages(record: dict[str, Any]) -> Iterator[ApiMessage]:
    """Yield the question of a message of Dify, the thoughts of its agent, and its answer.

    A tool that a thought calls twice has what it was given and returned last.
    """
    yield given_message(record.get("query"), timestamp=record.get("created_at"))
    for thought in objects(record["agent_thoughts"]):
        at, tools = thought.get("created_at"), str(thought.get("tool") or "")
        named = dict.fromkeys(tools.split(_TOOLS_APART)) if tools else {}
        names = [name for name in named if name.lower() != _FINAL]
        given, shown = mapping(thought.get("tool_input")), thought.get("observation")
        calls = [call_part(f"{thought.get('id')}-{name}", name, given.get(name)) for name in names]
        if calls:
            yield answer_message(thought.get("thought"), calls, timestamp=at)
        results = mapping(shown)
        for name, call in zip(names, calls, strict=True):
            if shown:
                result = results.get(name, shown)
                yield result_message(call["id"], result, failed=False, timestamp=at)
    yield answer_message(record.get("answer"))
