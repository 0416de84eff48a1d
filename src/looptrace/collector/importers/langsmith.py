"""Runs of LangSmith, as its API and client write them.

They get the attributes that LangSmith's own exporter for OpenTelemetry writes. The fields are those
of `RunBase` and `Run` in langchain-ai/langsmith-sdk python/langsmith/schemas.py.
"""

from typing import Any

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.records import Nesting
from looptrace.collector.importers.spans import (
    foreign_row,
    mapping,
    original_attributes,
    text_of,
    time_ns,
)

# `Client.read_run(ID, load_child_runs=True)` has the runs below a run in its `child_runs`.
NESTING = Nesting("trace_id", "id", "parent_run_id")
_METADATA = "langsmith.metadata."
# The parts of usage, of which the exporter writes JSON.
_USAGE, _DETAILS = "gen_ai.usage.", ("input_token_details", "output_token_details", "total_tokens")
_MODELS = ("ls_model_name", "model", "model_name")
_SESSIONS = ("session_id", "thread_id", "conversation_id")


def row_of(run: dict[str, Any]) -> SpanRow:
    """Return the row of a run."""
    extra = mapping(run.get("extra"))
    metadata = mapping(extra.get("metadata"))
    named = {**mapping(extra.get("invocation_params")), **metadata}
    session = next((metadata[name] for name in _SESSIONS if metadata.get(name)), None)
    outputs = mapping(run.get("outputs"))
    usage = _usage(run, outputs)
    return foreign_row(
        trace=run.get("trace_id") or run["id"],
        span=run["id"],
        parent=run.get("parent_run_id"),
        name=run.get("name"),
        start_ns=time_ns(run["start_time"]),
        end_ns=time_ns(run.get("end_time")),
        failed=True if run.get("error") else None,
        error=run.get("error"),
        service=run.get("session_name"),
        scope="langsmith",
        attributes={
            **original_attributes(metadata),
            **{f"{_METADATA}{name}": text_of(value) for name, value in metadata.items()},
            f"{_METADATA}session_id": session,
            "langsmith.span.kind": run["run_type"],
            "gen_ai.prompt": text_of(run.get("inputs")),
            "gen_ai.completion": text_of(outputs) if outputs else None,
            semconv.GEN_AI_TOOL_NAME: run.get("name") if run["run_type"] == "tool" else None,
            semconv.GEN_AI_REQUEST_MODEL: next(
                (named[name] for name in _MODELS if named.get(name)), None
            ),
            semconv.GEN_AI_USAGE_INPUT_TOKENS: usage.get("input_tokens"),
            semconv.GEN_AI_USAGE_OUTPUT_TOKENS: usage.get("output_tokens"),
            **{f"{_USAGE}{name}": text_of(usage.get(name)) for name in _DETAILS},
        },
    )


def _usage(run: dict[str, Any], outputs: dict[str, Any]) -> dict[str, Any]:
    """Return the tokens of a run; a tree of runs has them with the message of the model only."""
    if run.get("completion_tokens") is not None or run["run_type"] != "llm":
        return {
            "input_tokens": run.get("prompt_tokens"),
            "output_tokens": run.get("completion_tokens"),
            "input_token_details": run.get("prompt_token_details"),
            "output_token_details": run.get("completion_token_details"),
            "total_tokens": run.get("total_tokens"),
        }
    first = outputs.get("generations")
    while isinstance(first, list) and first:
        first = first[0]
    message = mapping(mapping(first).get("message"))
    for held in (outputs, mapping(message.get("kwargs")), message):
        if usage := mapping(held.get("usage_metadata")):
            return usage
    return {}
