"""The tokens of a response mean the same in every turn, however its producer counts them.

`input_tokens` and `output_tokens` are all that a model read and wrote. What it read from a cache or
wrote into one, and what it thought, are parts of them.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import polars as pl
import pytest

from looptrace._core import FieldReader
from looptrace.analyzer.fields.dialect_table import SHIPPED
from looptrace.analyzer.fields.span_fields import span_reading
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, span_rows
from looptrace.analyzer.schema.turns import TOKEN_COLUMNS
from looptrace.collector.content.policy import with_content
from tests.analyzer.normalize.test_turn_builder import span, turns

KEY = b"k" * 32
TABLE = files("looptrace.analyzer.fields").joinpath("dialects.toml").read_text("utf-8")
USAGE = "gen_ai.usage"
CHAT = {"gen_ai.operation.name": "chat"}
LLM = {"openinference.span.kind": "LLM"}
OPENINFERENCE = "openinference.instrumentation"
OPENLLMETRY = "opentelemetry.instrumentation"

Counts = tuple[int | None, ...]
Case = tuple[str, dict[str, Any], Counts]


def used(given: int, said: int, **more: int) -> dict[str, Any]:
    """Return usage by the GenAI conventions; `__` stands for a dot."""
    parts = {f"{USAGE}.{name.replace('__', '.')}": count for name, count in more.items()}
    return CHAT | {f"{USAGE}.input_tokens": given, f"{USAGE}.output_tokens": said} | parts


def counted(given: int, said: int, **more: int) -> dict[str, Any]:
    """Return usage in OpenInference; `__` stands for a dot."""
    parts = {f"llm.token_count.{name.replace('__', '.')}": n for name, n in more.items()}
    return LLM | {"llm.token_count.prompt": given, "llm.token_count.completion": said} | parts


def from_provider(name: str) -> dict[str, Any]:
    """Return the provider of a model."""
    return {"gen_ai.provider.name": name}


CACHED = {"cache_read__input_tokens": 300}
OWN_DETAILS = {"prompt_details__cache_read": 300}

# Of each: the span's name, its scope and its attributes, and the five counts.
CASES: dict[str, Case] = {
    "GenAI, nothing cached": ("", used(400, 20), (400, 20, None, None, None)),
    "GenAI, all parts": (
        "",
        used(400, 20, **CACHED, cache_creation__input_tokens=50, reasoning__output_tokens=9),
        (400, 20, 300, 50, 9),
    ),
    "GenAI, written by its newest name": (
        "",
        used(400, 20, **CACHED, cache_write__input_tokens=50),
        (400, 20, 300, 50, None),
    ),
    "OpenLLMetry for Anthropic before 0.60, which sums": (
        f"{OPENLLMETRY}.anthropic",
        used(400, 20, cache_read_input_tokens=300, cache_creation_input_tokens=50),
        (400, 20, 300, 50, None),
    ),
    "OpenLLMetry for OpenAI": (
        f"{OPENLLMETRY}.openai.v1",
        used(400, 20, **CACHED, reasoning_tokens=9),
        (400, 20, 300, None, 9),
    ),
    "OpenLLMetry for Bedrock, which counts beside": (
        f"{OPENLLMETRY}.bedrock",
        used(400, 20, **CACHED, cache_creation__input_tokens=50) | from_provider("aws.bedrock"),
        (750, 20, 300, 50, None),
    ),
    "OpenLLMetry for LlamaIndex with Anthropic, beside": (
        f"{OPENLLMETRY}.llamaindex",
        used(400, 20, **CACHED, cache_creation__input_tokens=0),
        (700, 20, 300, 0, None),
    ),
    "OpenLLMetry for LlamaIndex with OpenAI, within": (
        f"{OPENLLMETRY}.llamaindex",
        used(400, 20, **CACHED),
        (400, 20, 300, None, None),
    ),
    "OpenInference": (
        f"{OPENINFERENCE}.openai",
        counted(400, 20, **OWN_DETAILS, completion_details__reasoning=9, total=420),
        (400, 20, 300, None, 9),
    ),
    "OpenInference for the Claude Agent SDK, beside": (
        f"{OPENINFERENCE}.claude_agent_sdk",
        counted(400, 20, **OWN_DETAILS, prompt_details__cache_write=50, total=420),
        (750, 20, 300, 50, None),
    ),
    "OpenInference for Agno with Anthropic, beside": (
        f"{OPENINFERENCE}.agno",
        counted(400, 20, **OWN_DETAILS) | {"llm.provider": "Anthropic"},
        (700, 20, 300, None, None),
    ),
    "OpenInference for Agno with OpenAI, within": (
        f"{OPENINFERENCE}.agno",
        counted(400, 20, **OWN_DETAILS) | {"llm.provider": "OpenAI"},
        (400, 20, 300, None, None),
    ),
    "OpenInference for Bedrock, whose total says beside": (
        f"{OPENINFERENCE}.bedrock",
        counted(400, 20, **OWN_DETAILS, total=720),
        (700, 20, 300, None, None),
    ),
    "opencode, whose total has all beside": (
        "com.opencode",
        counted(400, 20, **OWN_DETAILS, completion_details__reasoning=9, total=729),
        (700, 29, 300, None, 9),
    ),
    "Google ADK, thoughts beside": (
        "gcp.vertex.agent",
        used(400, 20)
        | {
            "gcp.vertex.agent.llm_request": "{}",
            "gcp.vertex.agent.llm_response": json.dumps(
                {
                    "usage_metadata": {
                        "prompt_token_count": 400,
                        "candidates_token_count": 20,
                        "thoughts_token_count": 9,
                        "cached_content_token_count": 300,
                        "total_token_count": 429,
                    }
                }
            ),
        },
        (400, 29, 300, None, 9),
    ),
    "Spring AI with Anthropic, beside": (
        "org.springframework.boot",
        used(400, 20, **CACHED, total_tokens=420) | {"gen_ai.system": "anthropic"},
        (700, 20, 300, None, None),
    ),
    "Spring AI with OpenAI, within, as texts": (
        "org.springframework.boot",
        {key: str(value) for key, value in used(400, 20, **CACHED, total_tokens=420).items()}
        | {"gen_ai.system": "openai"},
        (400, 20, 300, None, None),
    ),
    "Strands with Bedrock": (
        "strands.telemetry.tracer",
        used(400, 20, cache_read_input_tokens=300, cache_write_input_tokens=50, total_tokens=770),
        (750, 20, 300, 50, None),
    ),
    "Strands with OpenAI": (
        "strands.telemetry.tracer",
        used(400, 20, cache_read_input_tokens=300, cache_write_input_tokens=0, total_tokens=420),
        (400, 20, 300, 0, None),
    ),
    "Vercel AI 5": (
        "ai",
        {
            "ai.operationId": "ai.streamText.doStream",
            "ai.usage.inputTokens": 400,
            "ai.usage.outputTokens": 20,
            "ai.usage.cachedInputTokens": 300,
            "ai.usage.reasoningTokens": 9,
        },
        (400, 20, 300, None, 9),
    ),
    "Vercel AI 6": (
        "ai",
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.usage.inputTokens": 400,
            "ai.usage.outputTokens": 20,
            "ai.usage.inputTokenDetails.cacheReadTokens": 300,
            "ai.usage.inputTokenDetails.cacheWriteTokens": 50,
            "ai.usage.outputTokenDetails.reasoningTokens": 9,
        },
        (400, 20, 300, 50, 9),
    ),
    "Mastra": (
        "@mastra/otel-exporter",
        used(400, 20, **CACHED, reasoning_tokens=9) | {"mastra.span.type": "model_inference"},
        (400, 20, 300, None, 9),
    ),
    "MLflow with OpenAI": (
        "mlflow",
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.message.format": '"openai"',
            "mlflow.chat.tokenUsage": json.dumps(
                {"input_tokens": 400, "output_tokens": 20, "cache_read_input_tokens": 300}
            ),
        },
        (400, 20, 300, None, None),
    ),
    "MLflow with Anthropic, beside": (
        "mlflow",
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.message.format": '"anthropic"',
            "mlflow.chat.tokenUsage": json.dumps(
                {
                    "input_tokens": 400,
                    "output_tokens": 20,
                    "total_tokens": 420,
                    "cache_read_input_tokens": 300,
                    "cache_creation_input_tokens": 50,
                }
            ),
        },
        (750, 20, 300, 50, None),
    ),
    "Braintrust with Anthropic, beside": (
        "braintrust",
        {
            "braintrust.span_attributes": '{"type": "llm"}',
            "braintrust.metadata": '{"provider": "anthropic"}',
            "braintrust.metrics": json.dumps(
                {
                    "prompt_tokens": 400,
                    "completion_tokens": 20,
                    "tokens": 420,
                    "prompt_cached_tokens": 300,
                    "prompt_cache_creation_5m_tokens": 40,
                    "prompt_cache_creation_1h_tokens": 10,
                }
            ),
        },
        (750, 20, 300, 50, None),
    ),
    "Braintrust with OpenAI": (
        "braintrust",
        {
            "braintrust.span_attributes": '{"type": "llm"}',
            "braintrust.metadata": '{"provider": "openai"}',
            "braintrust.metrics": json.dumps(
                {"prompt_tokens": 400, "completion_tokens": 20, "completion_reasoning_tokens": 9}
            ),
        },
        (400, 20, None, None, 9),
    ),
    "Langfuse, summed by names": (
        "langfuse-sdk",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.usage_details": json.dumps(
                {
                    "input": 50,
                    "input_cached_tokens": 300,
                    "input_cache_creation_5m": 50,
                    "output": 11,
                    "output_reasoning_tokens": 9,
                    "total": 420,
                }
            ),
        },
        (400, 20, 300, 50, 9),
    ),
    "Langfuse with OpenAI's own usage": (
        "langfuse-sdk",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.usage_details": json.dumps(
                {
                    "prompt_tokens": 400,
                    "completion_tokens": 20,
                    "total_tokens": 420,
                    "prompt_tokens_details": {"cached_tokens": 300},
                    "completion_tokens_details": {"reasoning_tokens": 9},
                }
            ),
        },
        (400, 20, 300, None, 9),
    ),
    "Langfuse with Anthropic's own usage, beside": (
        "langfuse-sdk",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.usage_details": json.dumps(
                {"input": 400, "output": 20, "cache_read_input_tokens": 300}
            ),
        },
        (700, 20, 300, None, None),
    ),
    "LangSmith": (
        "langsmith",
        used(400, 20)
        | {
            "langsmith.span.kind": "llm",
            f"{USAGE}.input_token_details": json.dumps({"cache_read": 300, "cache_creation": 50}),
            f"{USAGE}.output_token_details": json.dumps({"reasoning": 9}),
        },
        (400, 20, 300, 50, 9),
    ),
    "LangSmith with Gemini, whose total has thoughts beside": (
        "langsmith",
        used(400, 20, total_tokens=429)
        | {
            "langsmith.span.kind": "llm",
            f"{USAGE}.input_token_details": json.dumps(
                {"cache_read": 200, "cache_read_over_200k": 100}
            ),
            f"{USAGE}.output_token_details": json.dumps({"reasoning": 9}),
        },
        (400, 29, 300, None, 9),
    ),
    "Genkit with Gemini": (
        "genkit-tracer",
        {
            "genkit:metadata:subtype": "model",
            "genkit:output": json.dumps(
                {
                    "usage": {
                        "inputTokens": 400,
                        "outputTokens": 20,
                        "thoughtsTokens": 9,
                        "cachedContentTokens": 300,
                        "totalTokens": 429,
                    }
                }
            ),
        },
        (400, 29, 300, None, 9),
    ),
    "Genkit with Anthropic, beside": (
        "genkit-tracer",
        {
            "genkit:metadata:subtype": "model",
            "genkit:output": json.dumps(
                {
                    "usage": {
                        "inputTokens": 400,
                        "outputTokens": 20,
                        "custom": {"cache_read_input_tokens": 300},
                    }
                }
            ),
        },
        (700, 20, 300, None, None),
    ),
    "Haystack": (
        "haystack",
        {
            "haystack.component.name": "llm",
            "haystack.component.type": "OpenAIChatGenerator",
            "haystack.component.output": json.dumps(
                {
                    "replies": [
                        {
                            "meta": {
                                "usage": {
                                    "prompt_tokens": 400,
                                    "completion_tokens": 20,
                                    "prompt_tokens_details": {"cached_tokens": 300},
                                    "completion_tokens_details": {"reasoning_tokens": 9},
                                }
                            }
                        }
                    ]
                }
            ),
        },
        (400, 20, 300, None, 9),
    ),
    "OpenLIT with Anthropic, beside": (
        "openlit.otel.tracing",
        used(400, 20, **CACHED) | from_provider("anthropic"),
        (700, 20, 300, None, None),
    ),
    "OpenLIT with the Claude Agent SDK, within": (
        "openlit.otel.tracing",
        used(400, 20, **CACHED) | from_provider("claude_agent_sdk"),
        (400, 20, 300, None, None),
    ),
    "OpenLIT with Gemini, thoughts beside": (
        "openlit.otel.tracing",
        used(400, 20, **CACHED, reasoning_tokens=9) | from_provider("gcp.gemini"),
        (400, 29, 300, None, 9),
    ),
    "Pipecat with Anthropic, beside": (
        "pipecat",
        used(400, 20, **CACHED) | from_provider("anthropic"),
        (700, 20, 300, None, None),
    ),
    "Pipecat with Gemini, thoughts beside": (
        "pipecat",
        used(400, 20, reasoning__output_tokens=9) | from_provider("gcp.gemini"),
        (400, 29, None, None, 9),
    ),
    "Pipecat with OpenAI, within": (
        "pipecat",
        used(400, 20, **CACHED, reasoning__output_tokens=9) | from_provider("openai"),
        (400, 20, 300, None, 9),
    ),
    "Codex": (
        "codex_cli_rs",
        used(400, 20, **CACHED)
        | {"codex.usage.reasoning_output_tokens": 9, "codex.usage.total_tokens": 420},
        (400, 20, 300, None, 9),
    ),
    "Pydantic AI": (
        "pydantic-ai",
        used(400, 20, **CACHED, details__cache_read_tokens=300, details__reasoning_tokens=9),
        (400, 20, 300, None, 9),
    ),
    "Logfire with OpenAI's own usage": (
        "logfire.openai",
        used(400, 20)
        | {
            f"{USAGE}.raw": json.dumps(
                {
                    "input_tokens_details": {"cached_tokens": 300},
                    "output_tokens_details": {"reasoning_tokens": 9},
                }
            )
        },
        (400, 20, 300, None, 9),
    ),
    "OpenLLMetry before 0.40": (
        f"{OPENLLMETRY}.openai.v1",
        used(400, 20) | {"llm.usage.reasoning_tokens": 9},
        (400, 20, None, None, 9),
    ),
    "OpenInference for LlamaIndex with Anthropic, beside": (
        f"{OPENINFERENCE}.llama_index",
        counted(400, 20, **OWN_DETAILS, prompt_details__cache_write=50),
        (750, 20, 300, 50, None),
    ),
    "Google ADK without content": (
        "gcp.vertex.agent",
        used(400, 29, experimental__reasoning_tokens=9) | {"gcp.vertex.agent.llm_request": "{}"},
        (400, 29, None, None, 9),
    ),
    "Braintrust in JavaScript": (
        "braintrust",
        {
            "braintrust.span_attributes": '{"type": "llm"}',
            "braintrust.metrics": json.dumps(
                {
                    "prompt_tokens": 400,
                    "completion_tokens": 20,
                    "tokens": 420,
                    "prompt_cached_tokens": 300,
                    "prompt_cache_creation_tokens": 50,
                    "prompt_cache_creation_5m_tokens": 50,
                }
            ),
        },
        (400, 20, 300, 50, None),
    ),
    "Langfuse with the usage of OpenAI's responses": (
        "langfuse-sdk",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.usage_details": json.dumps(
                {
                    "input_tokens": 400,
                    "output_tokens": 20,
                    "input_tokens_details": {"cached_tokens": 300},
                    "output_tokens_details": {"reasoning_tokens": 9},
                }
            ),
        },
        (400, 20, 300, None, 9),
    ),
    "Langfuse with Anthropic's own usage, all written, beside": (
        "langfuse-sdk",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.usage_details": json.dumps(
                {"input": 400, "output": 20, "cache_creation_input_tokens": 50}
            ),
        },
        (450, 20, None, 50, None),
    ),
    "Genkit with Anthropic, all written, beside": (
        "genkit-tracer",
        {
            "genkit:metadata:subtype": "model",
            "genkit:output": json.dumps(
                {
                    "usage": {
                        "inputTokens": 400,
                        "outputTokens": 20,
                        "custom": {"cache_creation_input_tokens": 50, "cache_read_input_tokens": 0},
                    }
                }
            ),
        },
        (450, 20, 0, 50, None),
    ),
    "Haystack, a step of an agent": (
        "haystack.agent",
        {
            "haystack.agent.step.llm.output": json.dumps(
                {
                    "replies": [
                        {
                            "meta": {
                                "usage": {
                                    "prompt_tokens": 400,
                                    "completion_tokens": 20,
                                    "prompt_tokens_details": {"cached_tokens": 300},
                                    "completion_tokens_details": {"reasoning_tokens": 9},
                                }
                            }
                        }
                    ]
                }
            ),
        },
        (400, 20, 300, None, 9),
    ),
    "OpenLIT in TypeScript with Bedrock, beside": (
        "@openlit/instrumentation-bedrock",
        used(400, 20, **CACHED) | {"gen_ai.system": "aws.bedrock"},
        (700, 20, 300, None, None),
    ),
    "OpenLIT in TypeScript with Gemini, thoughts beside": (
        "@openlit/instrumentation-google-ai",
        used(400, 20, completion_tokens_details__reasoning=9) | {"gen_ai.system": "gcp.gemini"},
        (400, 29, None, None, 9),
    ),
    "OpenLIT, other names": (
        "openlit.otel.tracing",
        used(
            400,
            20,
            prompt_tokens_details__cache_read=300,
            prompt_tokens_details__cache_write=50,
            completion_tokens_details__reasoning_tokens=9,
        ),
        (400, 20, 300, 50, 9),
    ),
    "OpenLIT, older names": (
        "openlit.otel.tracing",
        used(400, 20, prompt_tokens_details__cached_tokens=300),
        (400, 20, 300, None, None),
    ),
    "Pydantic AI, before the conventions": (
        "pydantic-ai",
        used(400, 20, details__cache_read_tokens=300, details__cache_write_tokens=50),
        (400, 20, 300, 50, None),
    ),
    "Logfire with OpenAI's chats": (
        "logfire.openai",
        used(400, 20)
        | {
            f"{USAGE}.raw": json.dumps(
                {
                    "prompt_tokens_details": {"cached_tokens": 300},
                    "completion_tokens_details": {"reasoning_tokens": 9},
                }
            )
        },
        (400, 20, 300, None, 9),
    ),
    "Logfire with Anthropic, which sums": (
        "logfire.anthropic",
        used(400, 20, **CACHED)
        | {
            f"{USAGE}.raw": json.dumps(
                {"cache_read_input_tokens": 300, "cache_creation_input_tokens": 50}
            )
        },
        (400, 20, 300, 50, None),
    ),
    "Weave with Anthropic, beside": (
        "weave",
        counted(400, 20) | {f"{USAGE}.raw": json.dumps({"cache_read_input_tokens": 300})},
        (700, 20, 300, None, None),
    ),
    "Weave with Anthropic, all written, beside": (
        "weave",
        counted(400, 20) | {f"{USAGE}.raw": json.dumps({"cache_creation_input_tokens": 50})},
        (450, 20, None, 50, None),
    ),
    "Laminar": (
        "lmnr.sdk",
        used(400, 20, cache_read_input_tokens=300, reasoning_output_tokens=9)
        | {"lmnr.span.type": "LLM"},
        (400, 20, 300, None, 9),
    ),
    "Claude Code, beside": (
        "com.anthropic.claude_code.tracing",
        {
            "span.type": "llm_request",
            "input_tokens": 400,
            "output_tokens": 20,
            "cache_read_tokens": 300,
            "cache_creation_tokens": 50,
        },
        (750, 20, 300, 50, None),
    ),
    "nobody known, with more cached than read": (
        "acme",
        used(4, 20, **CACHED, cache_write__input_tokens=50),
        (354, 20, 300, 50, None),
    ),
    "nobody known, with more thought than written": (
        "acme",
        used(400, 20, reasoning__output_tokens=90),
        (400, 110, None, None, 90),
    ),
    "nobody known, with a total of no sense": (
        "acme",
        used(400, 20, **CACHED, total_tokens=7),
        (400, 20, 300, None, None),
    ),
    "impossible counts": (
        "acme",
        used(400, 20, cache_read__input_tokens=-1, reasoning__output_tokens=10**10),
        (400, 20, None, None, None),
    ),
    "parts of what is unknown": (
        "acme",
        CHAT | {f"{USAGE}.output_tokens": 20, f"{USAGE}.cache_read.input_tokens": 300},
        (None, 20, None, None, None),
    ),
}
NAMES = {
    "com.anthropic.claude_code.tracing": "claude_code.llm_request",
    "codex_cli_rs": "completed",
}
NAMES |= {"com.opencode": "gen_ai.chat", "gcp.vertex.agent": "call_llm"}
NAMES |= {"haystack": "haystack.component.run", "haystack.agent": "haystack.agent.step.llm"}


def row_of(case: Case) -> dict[str, object]:
    """Return the row of the span table of a case."""
    scope, attributes, _ = case
    return span(1, attributes, name=NAMES.get(scope, "chat"), scope=scope)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_tokens_mean_the_same_whoever_counts_them(case: Case) -> None:
    """A producer may count what was cached or thought beside the rest, or within it."""
    (turn,) = turns([row_of(case)]).select(TOKEN_COLUMNS).rows()

    assert turn == case[-1]


@pytest.mark.parametrize("content", ["redacted", "hashes"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_tokens_outlast_what_is_left_out(case: Case, content: Any) -> None:
    """Counts are no secrets; what is written anew is not counted twice."""
    spans = pl.DataFrame([row_of(case)], schema=SPAN_SCHEMA)
    left = with_content(spans, content, KEY)

    assert turns_of(left)[0].select(TOKEN_COLUMNS).rows() == [case[-1]]


def test_every_key_has_a_case() -> None:
    """A key of the table that no case has is never read in a test."""
    keys = {key for name in TOKEN_COLUMNS[2:] for key in SHIPPED.keys_of(name)}
    rows = span_rows(spans_of_cases())
    read = {field.key for row in rows for field in span_reading(row, SHIPPED).fields}
    assert keys - read == set()


@pytest.mark.parametrize("row", re.findall(r'\{[^{}]* of = "\w+" \},?', TABLE))
def test_every_producer_that_counts_beside_has_a_case(row: str) -> None:
    """Without its row a case is wrong."""
    rows = span_rows(spans_of_cases())
    without = FieldReader(table=TABLE.replace(row, ""))

    assert without.fields(rows) != FieldReader().fields(rows)


def spans_of_cases() -> pl.DataFrame:
    """Return a span of each case."""
    rows = [row_of(case) | {"span_id": f"{n:016x}"} for n, case in enumerate(CASES.values())]
    return pl.DataFrame(rows, schema=SPAN_SCHEMA)


def test_two_spans_of_one_response_have_the_tokens_of_the_fuller_one() -> None:
    """A whole and its parts come from one span, because another may count otherwise."""
    outer = span(1, used(100, 20), name="chat", scope="acme", start=1, end=3)
    inner = counted(400, 20, **OWN_DETAILS)
    rows = [outer, span(2, inner, parent=1, name="llm", scope="a", start=1.5, end=2.5)]

    assert turns(rows).select(TOKEN_COLUMNS).rows() == [(400, 20, 300, None, None)]
