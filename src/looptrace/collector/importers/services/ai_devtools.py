"""The file of the AI SDK's devtools, `.devtools/generations.json`: runs, and steps of models.

The fields are those of vercel/ai@16d0a4d packages/devtools/src/db.ts, what steps hold is in
packages/devtools/src/middleware.ts. Results of calls are in the input of the step after them.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import Part
from looptrace.collector.importers.spans import (
    NS_PER_MS,
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)

_TEXT, _CALL = "text", "tool-call"


def parts(record: dict[str, Any]) -> Iterator[Part]:
    """Yield the steps, each with its place."""
    above = {run["id"]: run.get("parent_run_id") for run in record["runs"]}
    names = {run["id"]: run.get("function_id") for run in record["runs"]}
    for index, step in enumerate(record["steps"]):
        run = top = step["run_id"]
        for _ in above:
            top = above.get(top) or top
        yield f"steps[{index}]", partial(_row, step, top, names.get(run))


def _row(step: dict[str, Any], session: object, agent: object) -> SpanRow:
    start_ns = time_ns(step["started_at"])
    given, answer = mapping(step.get("input")), mapping(step.get("output"))
    content = [part for part in answer.get("content") or () if isinstance(part, dict)]
    texts = answer.get("textParts") or [part for part in content if part.get("type") == _TEXT]
    calls = answer.get("toolCalls") or [part for part in content if part.get("type") == _CALL]
    reason, error = answer.get("finishReason"), step.get("error")
    usage = mapping(step.get("usage"))
    asked, said = usage.get("inputTokens"), usage.get("outputTokens")
    return foreign_row(
        trace=step["run_id"],
        span=step["id"],
        parent=None,
        name="ai.generateText.doGenerate",
        start_ns=start_ns,
        end_ns=start_ns + int(step.get("duration_ms") or 0) * NS_PER_MS,
        failed=True if error else None,
        error=error,
        scope="ai",
        attributes={
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.telemetry.functionId": agent,
            "ai.model.id": step.get("model_id"),
            "ai.prompt.messages": text_of(given.get("prompt")),
            "ai.response.text": "".join(str(part.get("text") or "") for part in texts) or None,
            "ai.response.toolCalls": text_of(calls) if calls else None,
            "ai.response.finishReason": _whole(reason, "unified"),
            "ai.usage.inputTokens": _whole(asked, "total"),
            "ai.usage.outputTokens": _whole(said, "total"),
            "ai.usage.inputTokenDetails.cacheReadTokens": mapping(asked).get("cacheRead"),
            "ai.usage.inputTokenDetails.cacheWriteTokens": mapping(asked).get("cacheWrite"),
            "ai.usage.outputTokenDetails.reasoningTokens": mapping(said).get("reasoning"),
            **session_attributes(session),
        },
    )


def _whole(value: Any, name: str) -> Any:
    """Return a value that newer versions of the SDK wrap into an object."""
    return value.get(name) if isinstance(value, dict) else value
