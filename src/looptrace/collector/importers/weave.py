"""Calls of W&B Weave, as its client and API return them: one for each run of an op.

The kind of an op says what it is; messages also mark a call of a model. Other ops are steps of a
program, not turns of an agent.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.spans import (
    flat_attributes,
    foreign_row,
    mapping,
    session_attributes,
    text_of,
    time_ns,
)

# `weave:///entity/project/op/NAME:digest`
_OP = re.compile(r"(?:.*/op/)?(?P<name>[^/:]+)(?::[^:]*)?")
_MODELS = {"llm", "model"}
_KIND = "openinference.span.kind"


def is_record(names: Collection[str]) -> bool:
    """Return whether these field names are those of a call."""
    return {"op_name", "trace_id", "started_at"} <= set(names)


def row_of(call: dict[str, Any]) -> SpanRow:
    """Return the row of a call."""
    op = _OP.fullmatch(str(call["op_name"]))
    name = op["name"] if op else str(call["op_name"])
    attributes, inputs = mapping(call.get("attributes")), mapping(call.get("inputs"))
    kind = str(attributes.get("kind") or mapping(attributes.get("weave")).get("kind") or "")
    is_model = kind in _MODELS or (not kind and "messages" in inputs)
    dump = mapping(call.get("otel_dump")) or mapping(attributes.get("otel_span"))
    original = dict(flat_attributes(mapping(dump.get("attributes"))))
    output = call.get("output")
    usages = mapping(mapping(call.get("summary")).get("usage"))
    usage = mapping(next(iter(usages.values()), None))
    return foreign_row(
        trace=call["trace_id"],
        span=call["id"],
        parent=call.get("parent_id"),
        name=call.get("display_name") or name,
        start_ns=time_ns(call["started_at"]),
        end_ns=time_ns(call.get("ended_at")),
        failed=True if call.get("exception") else None,
        error=call.get("exception"),
        service=call.get("project_id"),
        scope="weave",
        attributes={
            **original,
            _KIND: "LLM" if is_model else kind.upper() or original.get(_KIND, "UNKNOWN"),
            "tool.name": name if kind == "tool" else None,
            "input.value": text_of(inputs),
            "output.value": text_of(output),
            "llm.model_name": inputs.get("model") or next(iter(usages), None),
            "llm.token_count.prompt": usage.get("prompt_tokens") or usage.get("input_tokens"),
            "llm.token_count.completion": usage.get("completion_tokens")
            or usage.get("output_tokens"),
            "gen_ai.usage.raw": text_of(usage) if usage else None,
            **session_attributes(call.get("thread_id")),
        },
    )
