"""Records whose fields a table names, requests of gateways, chats: loops, healthy runs, tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from inspect import isfunction
from typing import Any

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import SpansRead, read_spans
from looptrace.collector.importers.rows.field_maps import UnreadForm, field_maps
from tests.collector.conftest import Write
from tests.collector.importers import chat_exports, gateway_exports, row_exports
from tests.collector.importers.exported_run import SESSION, Span, silent_analysis, spans

EXPORTS: dict[str, Callable[[Sequence[Span]], Any]] = {
    name: write
    for module in (row_exports, gateway_exports, chat_exports)
    for name, write in vars(module).items()
    if isfunction(write) and write.__module__ == module.__name__ and name[0] != "_"
}
# What these say of tokens: nothing, or those of the whole run.
WITHOUT_TOKENS = {
    *("cloud_trace_v2", "grafana_csv", "grafana_frames", "grafana_inspect", "hermes"),
    *("jaeger_grpc_stream", "jaeger_proto", "kiro_cli", "newrelic_events", "newrelic_nrql"),
    *("newrelic_rows", "phoenix_graphql", "phoenix_graphql_nodes", "sharegpt", "signoz_v3_list"),
    *("signoz_v5_raw", "signoz_waterfall", "signoz_waterfall_v2", "temporal_no_models"),
    *("cursor_stream", "cursor_transcript", "xray_documents", "assistants_steps"),
    *("chatgpt", "claude_ai", "kimi_context"),
}
# Conversations whose ids are made of what they say.
WITHOUT_SESSION = {
    *("helicone_plain", "openpipe", "request_response", "anthropic_pairs", "bedrock"),
    *("bedrock_invoke", "cloudwatch_bedrock", "vertex_bigquery", "responses_objects"),
    *("http_archive", "ollama_pairs"),
    *("portkey_own_traces", "cursor_transcript", "sharegpt", "hermes", "kimi_context"),
}


def _text(made: Any) -> bytes:
    if isinstance(made, str):
        return made.encode()
    if isinstance(made, tuple):
        return "".join(json.dumps(line) + "\n" for line in made[1]).encode()
    return json.dumps(made).encode()


def exported(name: str, end: str, write: Write) -> SpansRead:
    """Read the export of a run."""
    return read_spans([write("export", _text(EXPORTS[name](spans(end))))])


@pytest.mark.parametrize("name", EXPORTS)
def test_the_loop_is_found(name: str, write: Write) -> None:
    """Five equal calls fail, and each is counted once, in one task."""
    read = exported(name, "loop", write)
    assert read.skipped == ()
    analysis = analyse(read.spans)
    found = {finding.rule: finding.attempts for finding in analysis.findings}
    assert found.get("repeated_call") == 5
    turns = analysis.turns
    tools = turns.filter(kind="tool")
    assert tools["name"].to_list() == ["check_labels"] * 5
    assert turns["task"].n_unique() == 1


@pytest.mark.parametrize("name", EXPORTS)
def test_a_run_that_works_is_silent(name: str, write: Write) -> None:
    """All of its six calls and their outcomes are read, and no rule fires."""
    turns = silent_analysis(exported(name, "ok", write)).turns
    assert turns["task"].n_unique() == 1


@pytest.mark.parametrize("name", sorted(EXPORTS.keys() - WITHOUT_TOKENS))
def test_tokens_are_read(name: str, write: Write) -> None:
    """A response costs 80 tokens of input and 12 of output."""
    turns = analyse(exported(name, "ok", write).spans).turns
    counts = {(turn["input_tokens"], turn["output_tokens"]) for turn in turns.to_dicts()}
    assert counts - {(None, None), (0, 0)} == {(80, 12)}


@pytest.mark.parametrize("name", sorted(EXPORTS.keys() - WITHOUT_SESSION))
def test_the_session_names_the_task(name: str, write: Write) -> None:
    """A session, a thread or a workflow is the task, with what the export has around its name."""
    (task,) = set(analyse(exported(name, "ok", write).spans).turns["task"])
    names = (SESSION, "T-019b9d03", "m57thread", "00000000")
    assert any(each in task for each in names)


def test_two_runs_that_begin_alike_are_two_tasks(write: Write) -> None:
    """A request is continued once, so equal runs beside each other are not one loop."""
    name, logs = gateway_exports.portkey_own_traces(spans("ok"))
    again = [{**log, "id": log["id"][::-1], "trace_id": log["id"][::-1]} for log in logs]
    later = [{**log, "created_at": log["created_at"].replace("Z", ".500Z")} for log in again]
    analysis = analyse(read_spans([write("export", _text((name, logs + later)))]).spans)
    assert analysis.findings == ()
    assert sorted(analysis.turns.group_by("task").len()["len"]) == [14, 14]


def test_a_mark_of_a_cache_that_moves_does_not_end_a_conversation(write: Write) -> None:
    """Clients of Anthropic mark the last message of each request anew."""
    name, pairs = gateway_exports.anthropic_pairs(spans("ok"))
    for pair in pairs:
        last = pair["request"]["messages"][-1]
        text = [{"type": "text", "text": last["content"]}]
        parts = text if isinstance(last["content"], str) else last["content"]
        marked = [*parts[:-1], {**parts[-1], "cache_control": {"type": "ephemeral"}}]
        rest = pair["request"]["messages"][:-1]
        plain = [_in_parts(message) for message in rest]
        pair["request"]["messages"] = [*plain, {**last, "content": marked}]
    turns = analyse(read_spans([write("export", _text((name, pairs)))]).spans).turns
    assert turns["task"].n_unique() == 1


def _in_parts(message: Any) -> Any:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": parts}


def test_records_of_two_gateways_in_one_file_are_read_each_in_its_form(write: Write) -> None:
    """A folder's logs that were joined keep their content."""
    logs = [gateway_exports.portkey(spans("ok")), gateway_exports.litellm_payload(spans("ok"))]
    read = read_spans([write("export", b"".join(map(_text, logs)))])
    assert read.skipped == ()
    assert analyse(read.spans).turns["input_tokens"].sum() == 2 * 7 * 80


@pytest.mark.parametrize("form", field_maps()[1], ids=lambda form: form.name)
def test_what_cannot_be_read_is_named_with_what_to_do(form: UnreadForm, write: Write) -> None:
    """Many records of one kind are one line."""
    records = [dict.fromkeys(form.needs, f"{number}") for number in range(3)]
    (skipped,) = read_spans([write("export", json.dumps({"data": records}).encode())]).skipped
    assert skipped.why == f"{form.why} (2 more like it)"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"errors": [{"message": "Not authorized"}], "data": None}, "Not authorized"),
        ({"error": {"message": "no such project", "code": 404}}, "no such project"),
        ({"error": "unauthorized"}, "unauthorized"),
    ],
)
def test_an_answer_that_is_an_error_is_named(answer: Any, message: str, write: Write) -> None:
    """What was saved is the refusal of an API, and no export."""
    (skipped,) = read_spans([write("export", json.dumps(answer).encode())]).skipped
    assert skipped.why == f"the answer is an error, {message!r}; ask again for it"


def test_a_request_without_bodies_is_named(write: Write) -> None:
    """A gateway may keep the numbers of a request alone."""
    record = {"request_id": "a", "request_created_at": "2026-04-07T08:00:00Z", "request_body": {}}
    (skipped,) = read_spans([write("export", json.dumps([record]).encode())]).skipped
    assert "has no messages; export requests with their bodies" in skipped.why


def test_single_responses_under_any_name_are_no_conversation(write: Write) -> None:
    """Answers to unrelated questions may be equal, and stand for no agent."""
    lines = [{"id": n, "reply": {"role": "assistant", "content": "Done."}} for n in range(9)]
    read = read_spans([write("export", _text(("LINES", lines)))])
    assert (read.spans.height, len(read.skipped)) == (0, 1)
