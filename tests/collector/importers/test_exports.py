"""Exports of tracing systems, platforms, gateways and agents: loops, healthy runs, tokens."""

import pytest

from looptrace.analyzer.engine.batch import analyse
from tests.collector.conftest import Write
from tests.collector.importers.exported_run import SESSION, silent_analysis
from tests.collector.importers.exports import EXPORTS, PLATFORMS, SYSTEMS, exported

# What these say of tokens: nothing, or those of the whole run.
WITH_TOKENS = {"ai_devtools", "langfuse_csv", "langfuse_sessions", "phoenix_csv"}
WITHOUT_TOKENS = ((SYSTEMS.keys() | PLATFORMS.keys()) - WITH_TOKENS) | {
    *("cloud_trace_v2", "grafana_csv", "grafana_frames", "grafana_inspect", "hermes"),
    *("jaeger_grpc_stream", "jaeger_proto", "kiro_cli", "newrelic_events", "newrelic_nrql"),
    *("newrelic_rows", "phoenix_graphql", "phoenix_graphql_nodes", "sharegpt", "signoz_v3_list"),
    *("signoz_v5_raw", "signoz_waterfall", "signoz_waterfall_v2", "temporal_no_models"),
    *("cursor_stream", "cursor_transcript", "xray_documents", "assistants_steps"),
    *("chatgpt", "claude_ai", "kimi_context", "clickhouse", "cline_tagged"),
    *("chat", "chat_lines", "chat_functions", "gemini_contents", "goose"),
    *("responses", "tau_bench", "ai_sdk_page"),
    *("agent_framework", "agent_framework_net", "agentkit", "autogen_state", "browser_use"),
    *("camel", "camel_before", "continue_session", "dify", "droid", "dspy", "letta", "llamaindex"),
    *("llamaindex_chat_store", "llamaindex_store", "mastra_memory", "semantic_kernel"),
    *("semantic_kernel_net", "strands"),
    *("ag2_chat", "copilot_chat", "goose_session", "zed"),
    *("copilot_stream", "crush", "droid_stream", "gemini_stream", "kiro_session"),
    *("parlant", "vscode_changes"),
}
# Conversations whose ids are made of what they say.
WITHOUT_SESSION = {
    *("helicone_plain", "openpipe", "request_response", "anthropic_pairs", "bedrock"),
    *("bedrock_invoke", "cloudwatch_bedrock", "vertex_bigquery", "responses_objects"),
    *("http_archive", "ollama_pairs"),
    *("portkey_own_traces", "cursor_transcript", "sharegpt", "hermes", "kimi_context"),
    *("chat", "chat_lines", "chat_functions", "cline", "gemini_contents", "goose"),
    *("inspect_log", "responses", "tau_bench"),
    *("swe_agent", "mini_swe_agent", "openhands", "openhands_1"),
    *("kimi_wire", "kimi_code_wire", "cline_tagged", "langchain", "ai_sdk_page"),
    *("agent_framework", "agent_framework_net", "agentkit", "autogen", "autogen_state"),
    *("browser_use", "camel", "camel_before", "dspy", "letta", "llamaindex"),
    *("llamaindex_chat_store", "llamaindex_store"),
    *("semantic_kernel", "semantic_kernel_net", "smolagents", "strands"),
    *("ag2_chat", "kiro_session", "lunary", "parlant", "trae", "zed"),
}
# Agents whose only tool is a shell.
COMMANDS = {"swe_agent", "mini_swe_agent", "openhands", "openhands_1", "codex_exec"}
NAMES = (SESSION, "T-019b9d03", "m57thread", "00000000")


@pytest.mark.parametrize("name", EXPORTS)
def test_the_loop_is_found(name: str, write: Write) -> None:
    """Five equal calls fail, and each is counted once, in one task."""
    read = exported(name, "loop", write)
    analysis = analyse(read.spans)
    attempts = {finding.rule: finding.attempts for finding in analysis.findings}
    assert (read.skipped, attempts.get("repeated_call")) == ((), 5)
    tools = analysis.turns.filter(kind="tool")
    assert tools.height == 5
    assert name in COMMANDS or set(tools["name"]) == {"check_labels"}
    assert name == "hermes" or tools["failed"].all()  # It keeps no mark of a failure.
    assert analysis.turns["task"].n_unique() == 1


@pytest.mark.parametrize("name", EXPORTS)
def test_a_run_that_works_is_silent(name: str, write: Write) -> None:
    """All of its six calls and their outcomes are read, each response with its tokens.

    A session, a thread or a workflow is the task, with what the export has around its name.
    """
    turns = silent_analysis(exported(name, "ok", write)).turns
    (task,) = set(turns["task"])
    assert name in WITHOUT_SESSION or any(each in task for each in NAMES)
    if name not in WITHOUT_TOKENS:
        models = turns.filter(kind="model")
        assert set(models.select("input_tokens", "output_tokens").rows()) == {(80, 12)}
