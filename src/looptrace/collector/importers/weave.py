"""Calls of W&B Weave, as its client and API return them: one for each run of an op.

The kind of an op says what it is; messages also mark a call of a model. Other ops are steps of a
program, not turns of an agent. The op of a run of LangChain is `langchain.TYPE.NAME`, and its
output the whole run, as in weave 0.54.0 weave/integrations/langchain/langchain.py.
"""

import re
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
_LANGCHAIN = re.compile(r"langchain\.[A-Z][a-z_]*\.(?P<name>.+)")
_MODELS = {"llm", "model"}
_KINDS = {"search": "RETRIEVER"}
_KIND = "openinference.span.kind"


def row_of(call: dict[str, Any]) -> SpanRow:
    """Return the row of a call."""
    op = _OP.fullmatch(str(call["op_name"]))
    name = op["name"] if op else str(call["op_name"])
    output, shown = call.get("output"), call.get("display_name") or name
    if run := _LANGCHAIN.fullmatch(name):
        name = shown = run["name"]
        output = mapping(output).get("outputs", output)
    attributes, inputs = mapping(call.get("attributes")), mapping(call.get("inputs"))
    kind = str(attributes.get("kind") or mapping(attributes.get("weave")).get("kind") or "")
    named = _KINDS.get(kind, kind.upper())
    is_model = kind in _MODELS or (not kind and "messages" in inputs)
    dump = mapping(call.get("otel_dump")) or mapping(attributes.get("otel_span"))
    original = dict(flat_attributes(mapping(dump.get("attributes"))))
    usages = mapping(mapping(call.get("summary")).get("usage"))
    usage = mapping(next(iter(usages.values()), None))
    return foreign_row(
        trace=call["trace_id"],
        span=call["id"],
        parent=call.get("parent_id"),
        name=shown,
        start_ns=time_ns(call["started_at"]),
        end_ns=time_ns(call.get("ended_at")),
        failed=True if call.get("exception") else None,
        error=call.get("exception"),
        service=call.get("project_id"),
        scope="weave",
        attributes={
            **original,
            _KIND: "LLM" if is_model else named or original.get(_KIND, "UNKNOWN"),
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
