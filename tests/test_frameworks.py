"""Traces in the shapes that frameworks write: the verdict on each.

Every test runs on traces of our own making (`tests/framework_traces`), and again on those that the
frameworks wrote, where they lie beside the project: the verdicts must be the same.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.detect.findings import Finding
from tests import framework_table
from tests.framework_dumps import (
    ALL,
    BLIND,
    EXPECTED,
    EXPECTED_OWN,
    INPUT_TOKENS,
    LAYERS,
    OUTPUT_TOKENS,
    Dump,
    dumps,
    needs_real,
)
from tests.framework_table import OWN, REAL, line_alone, lines_together
from tests.framework_traces.run import STEPS
from tests.producers.recorder import TRACES

OTHER_ATTRIBUTES = ("looptrace-own-loop", "looptrace-own-ok")

# Names that no trace of ours shows; other tests make spans with them.
USAGE_OF_AN_API = {  # as it is, from whichever API a program asks
    *(f"gen_ai.usage.raw#cache_{use}_input_tokens" for use in ("read", "creation")),
    *(f"gen_ai.usage.raw#{part}_tokens_details.cached_tokens" for part in ("input", "prompt")),
    "gen_ai.usage.raw#output_tokens_details.reasoning_tokens",
    "gen_ai.usage.raw#completion_tokens_details.reasoning_tokens",
    *(f"genkit:output#usage.custom.cache_{use}_input_tokens" for use in ("read", "creation")),
}
# Who asked, and at which prices: `tests/analyzer/detect/test_budgets.py` has spans with them.
USERS_AND_TIERS = {
    *(f"{name}.id" for name in ("enduser", "enduser.pseudo", "langfuse.user")),
    *(f"langfuse.{part}.metadata.langfuse_user_id" for part in ("trace", "observation")),
    *("langsmith.metadata.user_id", "lmnr.association.properties.user_id", "metadata#user_id"),
    *("ai.settings.context.userId", "ai.telemetry.metadata.userId", "mastra.metadata.userId"),
    *("traceloop.association.properties.user_id", "gen_ai.request.user"),
    *(f"{prefix}openai.request.service_tier" for prefix in ("", "gen_ai.")),
    *(f"{prefix}openai.response.service_tier" for prefix in ("", "gen_ai.")),
    *("gen_ai.usage.raw#service_tier", "ai.response.providerMetadata#openai.serviceTier"),
}
# Parts of platforms that no example has; they were read off the sources alone.
OF_PLATFORMS = {
    *(f"confident.{part}" for part in ("span.name", "span.retrieval_context", "trace.user_id")),
    *("langwatch.rag_contexts#value", "subagent.name"),
    *("openclaw.errorCode", "trpc.go.agent.runner.user_id", "gen_ai.request.messages"),
    *(f"anthropic.{part}" for part in ("request.service_tier", "session.id")),
    *(f"ai.observability.mcp.{part}" for part in ("tool_name", "input_arguments")),
    *(f"ai.observability.mcp.output_{part}" for part in ("content", "is_error")),
    *(f"ai.observability.reranking.{part}" for part in ("query_text", "output_context_texts")),
    *(f"ai.observability.retrieval.{part}" for part in ("query_text", "retrieved_contexts")),
    "ai.observability.call.kwargs.messages",
    *(f"ai.observability.cost.num_{part}tokens" for part in ("", "reasoning_")),
    *(f"{name}.usage.cache_creation_input_tokens" for name in ("agentscope", "judgment")),
    *(f"gen_ai.usage.input_tokens.cache_{part}" for part in ("creation", "read", "write")),
    *("gen_ai.usage.cached_input_tokens", "llm.token_count.prompt_details.cache_input"),
    *(f"{name}.customer_params.customer_identifier" for name in ("respan", "keywordsai")),
    "keywordsai.threads.thread_identifier",
    *(f"llm.{part}.model_name" for part in ("request", "response")),  # of OpenInference
    "langsmith.metadata.usage_metadata#input_token_details.cache_creation",
    "langsmith.metadata.usage_metadata#output_token_details.reasoning",
    *(  # of spans that Phoenix and Langfuse kept, as tests of their exports write them
        f"metadata.{part}" for part in ("session_id", "thread_id", "user_id", "lc_agent_name")
    ),
    *(
        f"langfuse.observation.output#{part}"
        for part in ("completion", "toolCalls", "choices.0.message.content")
    ),
    *(  # of ADK for JavaScript
        f"gcp.vertex.agent.llm_response#usageMetadata.{part}TokenCount"
        for part in ("cachedContent", "thoughts", "total")
    ),
}
# Parts of Datadog's bytes, of which `tests/test_dialects.py` reads the values.
PACKED = {
    *(f"_llmobs#{name}" for name in ("name", "pagent_name", "meta.metadata.finish_reason")),
    *(
        f"_llmobs#meta.{side}.{what}"
        for side in ("input", "output")
        for what in ("messages", "value")
    ),
    "_llmobs#meta.output.documents",
}
# LiteLLM names the answer by the provider, of which the trace shows OpenAI.
PROVIDERS_OF_LITELLM = (
    *("azure", "azure_ai", "deepseek", "fireworks_ai", "groq", "hosted_vllm", "litellm_proxy"),
    *("mistral", "openrouter", "together_ai", "xai"),
)
NOT_SHOWN = OF_PLATFORMS | (
    USAGE_OF_AN_API
    | PACKED
    | USERS_AND_TIERS
    | {
        "@LLMChatEndEvent#response.raw.usage.input_tokens",  # of LlamaIndex
        "@LLMChatEndEvent#response.raw.usage.output_tokens",
        "@RetrievalEndEvent#nodes",  # of LlamaIndex's retrievers
        "@RetrievalStartEvent#str_or_query_bundle",
        "@llm_response_received#usage.input_tokens",  # of Letta with another API
        "@llm_response_received#usage.output_tokens",
        "dbos.operation.workflow_id",  # where a program asks for names of the conventions
        "exception.message",  # of events of an older BeeAI, each a span
        "exception.type",
        "gen_ai.conversation.compacted",
        "gen_ai.tool.call.arguments.**",
        "gen_ai.tool.call.result.**",
        "honeyhive_user_id",
        "langfuse.session.id",
        *(f"llm.{name}.choices" for name in PROVIDERS_OF_LITELLM),
        "llm.anthropic.content",
        "lmnr.span.input#tool_input",  # of calls that OpenHands refused
        "lmnr.span.input#tool_input.arguments",
        "lmnr.span.output#0.content",  # of browser-use's beta
        "looptrace.payer",  # of a baggage entry, as tests of budgets write it
        "looptrace.phase.start_ns",  # of spans that were forwarded
        "looptrace.progress.code_written",
        "looptrace.progress.coverage",
        "looptrace.progress.dependencies_added",
        "looptrace.progress.files_created",
        "looptrace.task.parent_id",
        "ok",
        "semantic_kernel.function.invocation.name",
        "looptrace.usage.differing_tokens",  # of logs, whose readers compare sums
        "tool.input",  # of spans that hooks of Claude Code make
        "tool.response",
        "tool.use_id",
        "tool_call_id",
        "tool_input",  # of Wave, and of Qwen Code before it had the conventions' names
        "tool_result",
    }
)

WITH_TOOLS = sorted(EXPECTED.keys() - set(BLIND))
OWN_WITH_TOOLS = sorted(EXPECTED_OWN.keys() - set(OTHER_ATTRIBUTES))
OK = [dump for dump in WITH_TOOLS + OWN_WITH_TOOLS if dump.endswith("-ok")]
LOOPS = [dump for dump in WITH_TOOLS + OWN_WITH_TOOLS if dump.endswith("-loop")]
LOOPS_WITH_ARGUMENTS = sorted(set(LOOPS) - {"adk-native-loop", "autogen-native-loop"})
# Where a framework stops before the fifth failure.
EXECUTED = {"agentframework-native-loop": 3}


def test_every_dump_is_expected() -> None:
    """A trace that is not in the table is one that nobody looked at."""
    assert set(framework_table.dumps(OWN)) == EXPECTED.keys() | EXPECTED_OWN.keys()


@needs_real
def test_every_real_dump_is_expected() -> None:
    """As of ours, and so each real one has a twin."""
    assert framework_table.dumps(REAL).keys() == EXPECTED.keys()


@needs_real
@pytest.mark.parametrize("name", EXPECTED)
def test_a_twin_has_the_shape_of_the_real_dump(name: str) -> None:
    """What looptrace reads of a framework's spans is in our trace on the same kind of span."""
    assert framework_table.keys_used(OWN, name) == framework_table.keys_used(REAL, name)


def test_every_key_of_the_dialects_is_in_a_trace() -> None:
    """A name that is read from no trace may be wrong, and nobody would see it."""
    shown = set[str]()
    for folder in (OWN, framework_table.DIALECTS, TRACES):
        names = framework_table.dumps(folder)
        shown |= set().union(*(framework_table.keys_shown(folder, name) for name in names))

    assert framework_table.KEYS_READ - shown == NOT_SHOWN


@pytest.mark.requirement("F5")
@dumps(ALL)
def test_verdict(dump: Dump) -> None:
    """A loop is found where the trace shows it, and nowhere else."""
    assert framework_table.spans_of(dump.layer.folder, dump.name).skipped == ()
    assert line_alone(dump.layer.folder, dump.name).verdict == ALL[dump.name].verdict


@dumps(ALL)
def test_findings_say_which_turns_of_whom(dump: Dump) -> None:
    """Rule, turns, agent and task are what a person is told, and must be right."""
    expected, findings = ALL[dump.name], dump.analysis.findings
    acting = dump.analysis.turns.filter(pl.col("kind") != "user")
    traces = {span["trace_id"] for span in dump.spans()}
    tasks = {"trace" if task in traces else "session" for task in acting["task"]}

    assert [f"{f.rule} {f.turn_first}-{f.turn_last}" for f in _by_rule(findings)] == [
        *expected.findings
    ]
    assert {f.agent for f in findings} <= set(acting["agent"])
    assert set(acting["agent"]) <= {dump.layer.agent if expected.agent else ""}
    assert tasks <= {expected.task}
    assert {f.task for f in findings} <= set(acting["task"])


def _by_rule(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: finding.rule)


@dumps(ALL)
def test_line_among_all_dumps(dump: Dump) -> None:
    """Traces of other sessions change nothing, whatever file they are in."""
    folder = dump.layer.folder

    assert lines_together(folder, apart=True)[dump.name] == line_alone(folder, dump.name)


@dumps(ALL)
def test_line_among_dumps_of_one_session(dump: Dump) -> None:
    """Traces of one session add to what is found, and hide nothing.

    Most dumps share a session and a prompt, so that together they are iterations of one task: their
    equal calls add up, also those of healthy runs.
    """
    folder = dump.layer.folder
    together, alone = lines_together(folder, apart=False)[dump.name], line_alone(folder, dump.name)

    assert set(alone.rules) <= set(together.rules)
    assert replace(together, rules=alone.rules, verdict=alone.verdict) == alone


@dumps(LOOPS_WITH_ARGUMENTS)
def test_finding_names_the_failing_call(dump: Dump) -> None:
    """A person must see at once which call is stuck, and since when."""
    executed = dump.turns().filter(pl.col("outcome").is_not_null())
    found = [f for f in dump.analysis.findings if f.rule == "repeated_call"]
    (argument,) = json.loads(dump.layer.arguments).values()

    assert [f.attempts for f in found] == [EXECUTED.get(dump.name, 5)]
    assert found[0].reason.startswith(f"{dump.layer.check}({argument}) ")
    assert [turn.turn for turn in found[0].turns] == executed["turn"].to_list()


@dumps(LOOPS)
def test_loop_has_every_call_once(dump: Dump) -> None:
    """A call that counts twice would make a loop of one retry."""
    calls = dump.turns()
    asked = 4 if dump.name in EXECUTED else 5  # One more is asked for than is executed.
    ids = calls["call_id"].drop_nulls()
    executed = EXECUTED.get(dump.name, 5)

    assert calls["name"].to_list() == [dump.layer.check] * asked
    assert ids.n_unique() == len(ids)
    assert calls["failed"].to_list()[:executed] == [True] * executed


@dumps(OK)
def test_ok_has_every_call_once(dump: Dump) -> None:
    """The six calls of the run that worked are read in their order, none twice."""
    calls = dump.turns()
    ids = calls["call_id"].drop_nulls()

    assert calls["name"].to_list() == [*dump.layer.ok_calls]
    assert ids.n_unique() == len(ids)
    # A run with failing tests has failed, however well its tool worked.
    assert calls.filter("failed", pl.col("tests_failed").fill_null(0) == 0).is_empty()


@pytest.mark.parametrize("name", [name for name in OK if ALL[name].verdict == "silent"])
def test_ok_has_arguments_and_results(name: str) -> None:
    """The six calls are read as they were made, not only as different ones."""
    calls = Dump(LAYERS[0], name).turns()
    made = [call for step in STEPS["ok"] for call in step.calls]

    assert [json.loads(text) for text in calls["arguments"]] == [call.arguments for call in made]
    assert [str(text).strip('"') for text in calls["result"]] == [call.result for call in made]


@dumps(ALL)
def test_tokens_are_those_of_model_spans(dump: Dump) -> None:
    """Spans of agents repeat the sum of their models', which must not count again."""
    summary = dump.analysis.summary

    assert summary.input_tokens == dump.tokens(INPUT_TOKENS, "input")
    assert summary.output_tokens == dump.tokens(OUTPUT_TOKENS, "output")


@pytest.mark.parametrize("folder", [OWN, pytest.param(REAL, marks=needs_real)])
def test_page_is_up_to_date(folder: Path) -> None:
    """The page is what people read before they trust the tool with their framework."""
    page = framework_table.page(folder, sorted(EXPECTED))

    assert page == framework_table.PAGE.read_text(encoding="utf-8")


def test_page_explains_what_is_unknown() -> None:
    """`unknown` without a reason reads like a fault of the tool."""
    unknown = {dump.rsplit("-", 1)[0] for dump in EXPECTED if ALL[dump].verdict == "unknown"}

    assert set(framework_table.NOTES) == unknown
