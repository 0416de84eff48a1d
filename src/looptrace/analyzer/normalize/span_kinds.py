"""What a span is, in any dialect (a tool, a model or an agent), and the attributes of its fields.

One dialect is chosen per span: the first of `DIALECTS` whose marker names a kind. `KEYS` is the
table from canonical field and dialect to attribute keys: `key#field` is a field of a JSON object,
`key.*` stands for flat numbered messages, and `@name` is what `with_events` makes of span events.
The keys come from traces of the frameworks (see docs/dialects.md). At run time this module imports
nothing of looptrace but `semconv`, because an agent's process uses it too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from looptrace import semconv

if TYPE_CHECKING:
    from looptrace.analyzer.schema.span_fields import SpanKind


@dataclass(frozen=True, slots=True)
class Dialect:
    """A convention: the attribute whose presence marks it, and what its values mean."""

    name: str
    marker: str
    kinds: Mapping[str, SpanKind]


DIALECTS = (
    Dialect("langsmith", "langsmith.span.kind", {"tool": "tool", "llm": "model"}),
    Dialect(
        "gen_ai",
        semconv.GEN_AI_OPERATION_NAME,
        {
            "execute_tool": "tool",
            "chat": "model",
            "generate_content": "model",
            "text_completion": "model",
            "invoke_agent": "agent",
        },
    ),
    Dialect(
        "openinference",
        "openinference.span.kind",
        {"TOOL": "tool", "LLM": "model", "AGENT": "agent"},
    ),
    Dialect("traceloop", "traceloop.span.kind", {"tool": "tool", "agent": "agent"}),
    Dialect("openllmetry_old", "llm.request.type", {"chat": "model", "completion": "model"}),
    Dialect(
        "langfuse",
        "langfuse.observation.type",
        {"tool": "tool", "generation": "model", "agent": "agent"},
    ),
    Dialect(
        "vercel",
        "ai.operationId",
        {
            "ai.toolCall": "tool",
            "ai.generateText": "agent",
            "ai.streamText": "agent",
            "ai.generateText.doGenerate": "model",
            "ai.streamText.doStream": "model",
            "ai.generateObject.doGenerate": "model",
            "ai.streamObject.doStream": "model",
        },
    ),
)


# An agent's span has the agent's name in these dialects. In others it often has the framework's.
NAMED_BY_SPAN = frozenset({"openinference", "traceloop", "langfuse"})
# What instrumentations write around a name, so that a call has one name in all spans of it.
_NAME_EXTRAS = re.compile(
    r"^(execute_tool|invoke_agent|tools/call) |^(?i:running tool|calling tool|tool call|tool): "
    r"|(\.tool|\.agent|\.run|\._execute_core)$"
)


def name_in(span_name: str) -> str:
    """Return the name of the tool or the agent in the name of its span."""
    return _NAME_EXTRAS.sub("", span_name)


def kinds_of(columns: Mapping[str, Sequence[Any]], count: int) -> list[tuple[SpanKind | None, str]]:
    """Return what each of so many spans with the same attributes is, as `kind_of` does."""
    markers = [dialect.marker for dialect in DIALECTS if dialect.marker in columns]
    if not markers:
        return [(None, "")] * count
    given = zip(*map(columns.__getitem__, markers), strict=True)
    named = [tuple(v if isinstance(v, str) else "" for v in values) for values in given]
    found = {values: kind_of(dict(zip(markers, values, strict=True))) for values in set(named)}
    return [found[values] for values in named]


def kind_of(attributes: Mapping[str, Any]) -> tuple[SpanKind | None, str]:
    """Return what a span is, and the dialect that says so; (None, "") if none does."""
    for dialect in DIALECTS:
        if dialect.marker in attributes:
            kind = dialect.kinds.get(str(attributes[dialect.marker]))
            if kind:
                return kind, dialect.name
    return None, ""


KEYS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    # No convention has these. They are read from any span, and a status makes it an attempt.
    "task": {"looptrace": (semconv.TASK_ID,)},
    "task_parent": {"looptrace": (semconv.TASK_PARENT_ID,)},
    "task_kind": {"looptrace": (semconv.TASK_KIND,)},
    "phase": {"looptrace": (semconv.PHASE,)},
    "phase_start_ns": {"looptrace": (semconv.PHASE_START_NS,)},
    "iteration": {"looptrace": (semconv.ITERATION,)},
    "status": {"looptrace": (semconv.TASK_STATUS,)},
    "blockers": {"looptrace": (semconv.BLOCKERS,)},
    "completed_work": {"looptrace": (semconv.COMPLETED_WORK,)},
    "tests_failed": {"looptrace": ("looptrace.progress.tests_failed",)},
    "tests_total": {"looptrace": ("looptrace.progress.tests_total",)},
    "coverage": {"looptrace": ("looptrace.progress.coverage",)},
    "files_created": {"looptrace": ("looptrace.progress.files_created",)},
    "dependencies_added": {"looptrace": ("looptrace.progress.dependencies_added",)},
    "code_written": {"looptrace": ("looptrace.progress.code_written",)},
    "session": {
        "langsmith": ("langsmith.metadata.session_id", "langsmith.metadata.thread_id"),
        "gen_ai": (semconv.GEN_AI_CONVERSATION_ID,),
        "openinference": (semconv.SESSION_ID, "metadata#session_id", "metadata#thread_id"),
        "traceloop": (
            "traceloop.association.properties.session_id",
            "traceloop.association.properties.thread_id",
        ),
        "langfuse": ("langfuse.session.id",),
        "vercel": ("ai.settings.context.sessionId", "ai.telemetry.metadata.sessionId"),
    },
    "agent": {
        "langsmith": ("langsmith.metadata.lc_agent_name",),
        "gen_ai": (semconv.GEN_AI_AGENT_NAME,),
        "openinference": ("agent.name", "graph.node.id", "metadata#lc_agent_name"),
        "traceloop": (
            "traceloop.association.properties.lc_agent_name",
            "crewai.agent.role",
        ),
        "vercel": ("ai.telemetry.functionId",),
    },
    "tool": {
        "gen_ai": (semconv.GEN_AI_TOOL_NAME,),
        "openinference": ("tool.name",),
        "traceloop": ("traceloop.entity.name",),
        "vercel": ("ai.toolCall.name",),
    },
    "model": {
        "gen_ai": (semconv.GEN_AI_REQUEST_MODEL, "gen_ai.response.model"),
        "openinference": ("llm.model_name",),
        "langfuse": ("langfuse.observation.model.name",),
        "vercel": ("ai.model.id",),
    },
    "call_id": {
        "gen_ai": (semconv.GEN_AI_TOOL_CALL_ID,),
        "openinference": ("tool_call.id", "tool.id"),
        "vercel": ("ai.toolCall.id",),
    },
    # OpenInference's tool.parameters is not read: half of the frameworks put the schema there.
    "arguments": {
        "langsmith": ("gen_ai.prompt",),
        "gen_ai": (
            semconv.GEN_AI_TOOL_CALL_ARGUMENTS,
            "tool_arguments",
            "@gen_ai.tool.message#content",
        ),
        "openinference": ("input.value",),
        "traceloop": ("traceloop.entity.input",),
        "langfuse": ("langfuse.observation.input",),
        "vercel": ("ai.toolCall.args", "ai.toolCall.input"),
    },
    "result": {
        "langsmith": ("gen_ai.completion",),
        "gen_ai": (semconv.GEN_AI_TOOL_CALL_RESULT, "tool_response", "@gen_ai.choice#message"),
        "openinference": ("output.value",),
        "traceloop": ("traceloop.entity.output",),
        "langfuse": ("langfuse.observation.output",),
        "vercel": ("ai.toolCall.result", "ai.toolCall.output"),
    },
    "error_type": {"gen_ai": (semconv.ERROR_TYPE,)},
    "error": {
        "gen_ai": ("error.message",),
        "langfuse": ("langfuse.observation.status_message",),
    },
    "level": {"gen_ai": ("gen_ai.tool.status",), "langfuse": ("langfuse.observation.level",)},
    "given": {
        "langsmith": ("gen_ai.prompt",),
        "gen_ai": (semconv.GEN_AI_INPUT_MESSAGES, "@gen_ai.messages", "gen_ai.prompt.*"),
        # smolagents has the person's message as `task`, Vercel as `prompt`.
        "openinference": ("llm.input_messages.*", "input.value#task", "input.value"),
        "langfuse": ("langfuse.observation.input",),
        "vercel": ("ai.prompt.messages", "ai.prompt#prompt", "ai.prompt"),
    },
    "answer": {
        "langsmith": ("gen_ai.completion",),
        "gen_ai": (semconv.GEN_AI_OUTPUT_MESSAGES, "@gen_ai.choice#message", "gen_ai.completion.*"),
        "openinference": ("llm.output_messages.*", "output.value"),
        "langfuse": ("langfuse.observation.output",),
        "vercel": ("ai.response.text",),
    },
    "answer_calls": {"vercel": ("ai.response.toolCalls",)},
    "finish_reason": {
        "gen_ai": (semconv.GEN_AI_RESPONSE_FINISH_REASONS, "@gen_ai.choice#finish_reason"),
        "openinference": ("llm.finish_reason",),
        "vercel": ("ai.response.finishReason",),
    },
    "compacted": {"gen_ai": (semconv.GEN_AI_CONVERSATION_COMPACTED,)},
    "input_tokens": {
        "gen_ai": (semconv.GEN_AI_USAGE_INPUT_TOKENS, "gen_ai.usage.prompt_tokens"),
        "openinference": ("llm.token_count.prompt",),
        "langfuse": ("langfuse.observation.usage_details#input",),
        "vercel": ("ai.usage.inputTokens", "ai.usage.promptTokens"),
    },
    "output_tokens": {
        "gen_ai": (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, "gen_ai.usage.completion_tokens"),
        "openinference": ("llm.token_count.completion",),
        "langfuse": ("langfuse.observation.usage_details#output",),
        "vercel": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
    },
}

# The reasons for which a response was cut off, by the words of producers: GenAI, OpenAI, Anthropic,
# Bedrock, Google, Mistral and Cohere. Other words are kept as they are.
CUT_OFF: Mapping[str, tuple[str, ...]] = {
    "length": (
        *("length", "max_tokens", "max_output_tokens", "model_length"),
        "model_context_window_exceeded",
    ),
    "content_filter": (
        *("content_filter", "content_filtered", "guardrail_intervened", "refusal", "safety"),
        *("recitation", "blocklist", "prohibited_content", "spii", "error_toxic"),
    ),
}
_REASONS = {word: reason for reason, words in CUT_OFF.items() for word in words}
# Enumerations of clients are written with their own names: `FinishReason.MAX_TOKENS`.
_ENUM = re.compile(r"^(finish|stop)_?reason[._]+")


def finish_reason_of(words: Sequence[str]) -> str | None:
    """Return why a model stopped, given the words of a response's choices.

    The choice that was cut off is chosen, as one of `CUT_OFF`.
    """
    plain = [_ENUM.sub("", word.strip().lower().replace("-", "_")) for word in words]
    cut = (_REASONS[word] for word in plain if word in _REASONS)
    return next(cut, None) or next(filter(None, plain), None)
