"""What a span is, in any dialect: a tool, a model or an agent.

One dialect is chosen per span: the first of `DIALECTS` whose marker names a kind. At run time this
module imports nothing of looptrace but `semconv`, because an agent's process uses it too.
"""

from __future__ import annotations

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
