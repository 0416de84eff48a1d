import json
from typing import Any

import pytest

from looptrace.collector.files.reader import read_spans
from tests.collector.coding_agents.logs import SESSIONS, lines, rules, shown, turns
from tests.collector.conftest import Write
from tests.commands import run

Line = dict[str, Any]
SESSION = "019dabc6-0000-7000-8000-00000000000a"
LOOP, HEALTHY = SESSIONS / "codex_loop.jsonl", SESSIONS / "codex_ok.jsonl"


def at(second: float, kind: str, payload: Line) -> Line:
    """Return a line at a second of the session."""
    return {"timestamp": f"2026-05-04T08:30:{second:06.3f}Z", "type": kind, "payload": payload}


def meta(**more: Any) -> Line:
    """Return the first line of a log."""
    return at(0, "session_meta", {"id": SESSION, "cwd": "/home/ada", "source": "cli", **more})


def message(role: str, text: str) -> Line:
    """Return a message's item."""
    return {"type": "message", "role": role, "content": [{"type": "text", "text": text}]}


def call(number: int, **more: Any) -> Line:
    """Return the item of a call of a function."""
    return {
        "type": "function_call",
        "name": "shell",
        "arguments": '{"command":["make"]}',
        "call_id": f"call_{number}",
        **more,
    }


def output(number: int, text: Any, kind: str = "function_call_output") -> Line:
    """Return the item of a call's result."""
    return {"type": kind, "call_id": f"call_{number}", "output": text}


def log(*items: Line) -> bytes:
    """Return a log of items, a second apart."""
    return lines([meta(), *(at(n, "response_item", item) for n, item in enumerate(items, 1))])


def test_a_session_that_loops_is_found_and_one_that_works_is_not() -> None:
    """The header above a command's output differs each time, and hides no loop."""
    assert rules([str(LOOP)]) == {"repeated_call", "repeated_failure", "signature_repeat"}
    assert rules([str(HEALTHY)]) == set()


def test_messages_calls_and_results_become_turns(write: Write) -> None:
    """What the screen showed besides is not counted again, and tokens come with an event."""
    parts = {"cached_input_tokens": 40, "reasoning_output_tokens": 3, "total_tokens": 57}
    used = {"last_token_usage": {"input_tokens": 50, "output_tokens": 7, **parts}}
    items = [
        meta(),
        at(1, "response_item", message("developer", "<permissions>all</permissions>")),
        at(1, "response_item", message("user", "# AGENTS.md instructions for /home\n\nBe brief.")),
        at(1, "turn_context", {"model": "gpt-example"}),
        at(2, "response_item", message("user", "Build it.")),
        at(2, "event_msg", {"type": "user_message", "message": "Build it."}),
        at(3, "event_msg", {"type": "agent_message", "message": "I build."}),
        at(3, "response_item", message("assistant", "I build.")),
        at(3, "response_item", call(1)),
        at(3, "response_item", call(2, name="update_plan", arguments="{}")),
        at(3, "event_msg", {"type": "token_count", "info": used}),
        at(4, "response_item", output(1, "Exit code: 2\nWall time: 0.4 seconds\nOutput:\nno rule")),
        at(5, "response_item", output(2, "Plan updated")),
        at(5, "event_msg", {"type": "token_count", "info": None}),
        at(6, "response_item", message("assistant", "There is no rule.")),
        at(7, "world_state", {"new": "kind"}),
    ]
    table = turns(write("rollout.jsonl", lines(items)))

    assert shown(table) == [
        "user Build it.",
        "model codex gpt-example I build.",
        "tool codex update_plan Plan updated",  # The two are one step, whose order says nothing.
        "tool codex shell no rule !",
        "model codex gpt-example There is no rule.",
    ]
    assert set(table["task"]) == {f"{SESSION}@codex"}
    assert table["input_tokens"].to_list() == [None, 50, None, None, None]
    assert table.row(1, named=True)["cached_tokens"] == 40
    assert table.row(1, named=True)["reasoning_tokens"] == 3
    assert table["arguments"].to_list()[3] == '{"command":["make"]}'
    assert table["step"].to_list()[2:4] == [table["span_id"].to_list()[1]] * 2


@pytest.mark.parametrize(
    ("given", "result", "failed"),
    [
        ("plain text", "plain text", False),
        ('{"output":"no rule","metadata":{"exit_code":2,"duration_seconds":0.4}}', "no rule", True),
        ('{"output":"done","metadata":{"exit_code":0,"duration_seconds":0.4}}', "done", False),
        ("Exit code: 0\nWall time: 2 seconds\nTotal output lines: 9\nOutput:\n\nok", "ok", False),
        (
            "Chunk ID: 7f\nWall time: 0.5 seconds\nProcess exited with code -1\n"
            "Original token count: 4\nOutput:\nkilled",
            "killed",
            True,
        ),
        ("Wall time: 9 seconds\nProcess running with session ID 7\nOutput:\n12 %", "12 %", False),
        ("Wall time: 9 seconds\nProcess running with session ID 7\nOutput:\n", None, False),
        ({"content": "no such tool", "success": False}, "no such tool", True),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image"}], "a\n<input_image>", False),
    ],
)
def test_outcomes_of_every_version_are_read(
    given: Any, result: str | None, failed: bool, write: Write
) -> None:
    """Exit codes stand in metadata, or above the output; silence of what runs on says nothing."""
    table = turns(write("rollout.jsonl", log(call(1), output(1, given)))).filter(kind="tool")

    assert table["result"].to_list() == [result]
    assert table["failed"].to_list() in ([[True]] if failed else [[None], [False]])


def test_other_kinds_of_calls_are_calls(write: Write) -> None:
    """A patch, a shell of the older models, and a search, which never shows what it found."""
    patch = {"type": "custom_tool_call", "call_id": "call_1", "name": "apply_patch"}
    patch["input"] = "*** Begin Patch"
    items: list[Line] = [
        patch,
        output(1, "Success.", "custom_tool_call_output"),
        {"type": "local_shell_call", "call_id": "call_2", "action": {"command": ["ls"]}},
        output(2, "a.py"),
        {"type": "web_search_call", "action": {"type": "search", "query": "libpq"}},
        message("assistant", "Found."),
    ]
    table = turns(write("rollout.jsonl", log(*items))).filter(kind="tool")

    assert table["name"].to_list() == ["apply_patch", "local_shell", "web_search"]
    assert table["arguments"].to_list()[0] == "*** Begin Patch"
    assert table["result"].to_list() == ["Success.", "a.py", None]
    assert table["arguments"].to_list()[2] == '{"query":"libpq","type":"search"}'


@pytest.mark.parametrize(
    ("item", "decision"),
    [
        (output(1, "exec command rejected by user"), "rejected"),
        (output(1, "aborted by user after 3.1s"), "interrupted"),
        (at(3, "event_msg", {"type": "turn_aborted", "reason": "interrupted"}), "interrupted"),
    ],
)
def test_who_stops_a_call_is_a_person(item: Line, decision: str, write: Write) -> None:
    """The call did not fail."""
    items = [meta(), at(1, "response_item", call(1))]
    items.append(item if "payload" in item else at(3, "response_item", item))
    table = turns(write("rollout.jsonl", lines(items)))

    assert table.filter(kind="user")["name"].to_list() == [decision]
    assert table.filter(kind="tool")["failed"].to_list() != [True]


def test_what_a_person_answers_is_theirs(write: Write) -> None:
    """An agent may ask by a tool."""
    asked = call(1, name="request_user_input", arguments='{"questions":["tabs?"]}')
    table = turns(write("rollout.jsonl", log(asked, output(1, "tabs"))))

    assert table.filter(kind="user")["text"].to_list() == ["tabs"]


def test_sub_agents_work_at_the_task_of_the_session_that_began_them(write: Write) -> None:
    """Their prompts are the agent's, not a person's."""
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": SESSION, "depth": 1}}}
    prompt = message("user", "Look into it.")
    main = log(prompt, call(1), output(1, "ok"))
    own = meta(id="019dabc6-0000-7000-8000-0000000000b1", source=spawned)
    items = [
        own,
        meta(),
        *(at(9, "response_item", item) for item in (prompt, call(2), output(2, "ok"))),
    ]
    table = turns(write("a/main.jsonl", main), write("a/own.jsonl", lines(items)))

    assert table["task"].unique().to_list() == [f"{SESSION}@codex"]
    assert table.filter(kind="tool")["agent"].to_list() == ["codex", "agent-000000b1"]
    assert len(table.filter(kind="user")) == 1


def test_a_log_without_times_is_read_in_its_order(write: Write) -> None:
    """So were those before 0.32."""
    head = {"id": SESSION, "timestamp": "2025-06-01T10:00:00.000Z", "instructions": None}
    items: list[Line] = [head, {"record_type": "state"}, message("user", "Build it.")]
    for number in range(4):
        failed = json.dumps({"output": "no rule", "metadata": {"exit_code": 2}})
        items += [call(number), {"record_type": "state"}, output(number, failed)]
    path = write("rollout.jsonl", lines(items))

    assert [row.split()[0] for row in shown(turns(path))] == ["user", *["model", "tool"] * 4]
    assert "repeated_call" in rules([path])


def test_bad_lines_are_reported_and_the_rest_is_read(write: Write) -> None:
    """A crash cuts a line off."""
    data = log(call(1), output(1, "ok")) + b'{"timestamp":"2026-05-04T08:31:00Z","ty'
    found = read_spans([write("rollout.jsonl", data)])

    assert [skipped.where for skipped in found.skipped] == ["rollout.jsonl:4"]
    assert found.spans["name"].to_list() == ["execute_tool shell", "chat"]


@pytest.mark.parametrize("odd", [None, 7, "text", [], [None], {"a": 1}])
def test_odd_contents_raise_nothing(odd: Any, write: Write) -> None:
    """The format is not documented."""
    kinds = ("message", "function_call", "function_call_output", "web_search_call", odd)
    events = ("token_count", "user_message", "turn_aborted", odd)
    items = [
        meta(source=odd),
        *(at(1, "response_item", {"type": kind, "content": odd, "output": odd}) for kind in kinds),
        *(at(2, "event_msg", {"type": kind, "info": odd, "message": odd}) for kind in events),
        at(3, "turn_context", {"model": odd}),
        {"timestamp": odd, "type": odd, "payload": odd},
    ]

    assert read_spans([write("rollout.jsonl", lines(items))]).skipped == ()


def test_a_failure_that_a_stream_writes_twice_is_one(write: Write) -> None:
    """`codex exec` writes a failed request as `error`, and again as the end of its turn."""
    failure = "You've hit your usage limit. Try again at 9:01."
    restart: list[Line] = [
        {"type": "thread.started", "thread_id": SESSION},
        {"type": "turn.started"},
        {"type": "error", "message": failure},
        {"type": "turn.failed", "error": {"message": failure}},
    ]
    path = write("exec.jsonl", lines(restart * 3))

    assert read_spans([path]).spans.height == 3
    assert rules([path]) == {"model_outage"}


@pytest.mark.parametrize("form", ["terminal", "json", "html", "junit", "sarif", "github"])
def test_a_stream_without_times_shows_none(form: str, write: Write) -> None:
    """Items are placed one after the other from 1970 on, which nobody should read."""
    item = {"type": "command_execution", "command": "make", "aggregated_output": "no rule"}
    failed = [{**item, "id": f"{n}", "exit_code": 2} for n in range(6)]
    stream: list[Line] = [{"type": "item.completed", "item": each} for each in failed]
    path = write("exec.jsonl", lines([{"type": "thread.started", "thread_id": SESSION}, *stream]))

    report = run("analyze", path, "--format", form).output
    escalation = run("escalation", path).output

    assert "make" in report
    for text in (report, escalation):
        assert [word for word in ("1970", "under 0.1", "in the loop: \n") if word in text] == []


CODEX_STREAM: list[Line] = [
    {"type": "thread.started", "thread_id": "{session}"},
    {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "Done."}},
]
FIRST = {"type": "system", "subtype": "init", "model": "m", "permissionMode": "default"}
LAST = {
    "type": "assistant",
    "message": message("assistant", "Done."),
    "timestamp_ms": 1767865803494,
}
CURSOR_STREAM: list[Line] = [{**each, "session_id": "{session}"} for each in (FIRST, LAST)]


@pytest.mark.parametrize("stream", [CODEX_STREAM, CURSOR_STREAM], ids=["codex", "cursor"])
def test_each_session_of_a_file_keeps_its_last_response(stream: list[Line], write: Write) -> None:
    """The streams of several runs are often appended to one file."""
    one = lines(stream)
    runs = [one.replace(b"{session}", name.encode()) for name in ("s-1", "s-2")]

    assert read_spans([write("runs.jsonl", b"".join(runs))]).spans.height == len(runs)
