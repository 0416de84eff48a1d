"""Records of gateways and chats: which belong together, and what cannot be read."""

import json
from typing import Any

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans
from looptrace.collector.importers.rows.field_maps import UnreadForm, field_maps
from tests.collector.conftest import Write
from tests.collector.importers import gateway_exports
from tests.collector.importers.exported_run import spans
from tests.collector.importers.exports import text_of, written


def test_two_runs_that_begin_alike_are_two_tasks(write: Write) -> None:
    """A request is continued once, so equal runs beside each other are not one loop."""
    name, logs = gateway_exports.portkey_own_traces(spans("ok"))
    again = [{**log, "id": log["id"][::-1], "trace_id": log["id"][::-1]} for log in logs]
    later = [{**log, "created_at": log["created_at"].replace("Z", ".500Z")} for log in again]
    analysis = analyse(read_spans([write("export", written((name, logs + later)))]).spans)
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
    turns = analyse(read_spans([write("export", written((name, pairs)))]).spans).turns
    assert turns["task"].n_unique() == 1


def _in_parts(message: Any) -> Any:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": parts}


def test_records_of_two_gateways_in_one_file_are_read_each_in_its_form(write: Write) -> None:
    """A folder's logs that were joined keep their content."""
    logs = [gateway_exports.portkey(spans("ok")), gateway_exports.litellm_payload(spans("ok"))]
    read = read_spans([write("export", b"".join(map(written, logs)))])
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
    read = read_spans([write("export", written(("LINES", lines)))])
    assert (read.spans.height, len(read.skipped)) == (0, 1)


def test_a_message_of_no_form_is_reported(write: Write) -> None:
    """What stands between messages is told, and the messages are read."""
    lines = [
        {"role": "user", "content": "Get it ready."},
        {"title": "a note"},
        {"role": "assistant", "content": "Done."},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    read = read_spans([write("export", text.encode())])
    assert len(read.skipped) == 1
    assert "left out" in read.skipped[0].why
    assert read.spans.height == 1


def test_texts_of_powershell_are_read(write: Write) -> None:
    """A shell of Windows writes what a command prints in UTF-16."""
    text = text_of("opik", "loop")
    plain = read_spans([write("plain", text)]).spans
    assert read_spans([write("utf16", text.decode().encode("utf-16"))]).spans.equals(plain)
