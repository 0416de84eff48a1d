"""Traces of any-agent, whose `AgentTrace` is JSON: spans of Python's SDK, and a final output.

The attributes are those of mozilla-ai/any-agent (src/any_agent/tracing, and its tests' traces);
they get the names of the conventions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.payloads import parsed
from looptrace.collector.importers.console import spans
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.spans import text_of

_OPERATION, _OUTPUT = semconv.GEN_AI_OPERATION_NAME, "gen_ai.output"
_OPERATIONS = {"call_llm": "chat"}
_NAMES = {"gen_ai.tool.args": semconv.GEN_AI_TOOL_CALL_ARGUMENTS}
_OUTPUTS = {"execute_tool": semconv.GEN_AI_TOOL_CALL_RESULT}
_TOOL, _ARGUMENTS = "tool.name", "tool.args"  # of a call in the output of a model


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a trace."""
    return {"spans", "final_output"} <= set(names)


def parts(trace: dict[str, Any]) -> Iterator[Part]:
    """Yield the spans of a trace, each with its place."""
    for index, span in enumerate(trace["spans"] or ()):
        yield f"spans[{index}]", partial(_row, span)


def _row(span: dict[str, Any]) -> SpanRow:
    given = spans.attributes_of(span)
    named = {_NAMES.get(key, key): value for key, value in given.items()}
    operation = str(given.get(_OPERATION))
    named[_OPERATION] = _OPERATIONS.get(operation, operation)
    output = given.get(_OUTPUT)
    if output is not None:
        is_tool = operation in _OUTPUTS
        key = _OUTPUTS.get(operation, semconv.GEN_AI_OUTPUT_MESSAGES)
        named[key] = output if is_tool else text_of([_message(output)])
    return spans.row_of(span | {"attributes": named})


def _message(output: Any) -> dict[str, Any]:
    """Return what a model answered: the calls that it asks for, or a text."""
    calls = parsed(output)
    if isinstance(calls, list) and calls and all(isinstance(c, dict) and _TOOL in c for c in calls):
        asked = [
            {"type": "tool_call", "name": call[_TOOL], "arguments": parsed(call.get(_ARGUMENTS))}
            for call in calls
        ]
        return {"role": "assistant", "parts": asked}
    return {"role": "assistant", "content": text_of(output)}
