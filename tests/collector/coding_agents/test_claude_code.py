import json
from pathlib import Path
from typing import Any

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.report.json import understood_object
from looptrace.analyzer.report.verdict import understood_lines
from looptrace.collector.files.reader import read_spans
from tests.collector.coding_agents.logs import SESSIONS, lines, rules, shown, turns
from tests.collector.conftest import Write, line, span

Line = dict[str, Any]
NS_PER_S, NS_PER_MINUTE = 1_000_000_000, 60_000_000_000
SESSION = "7d3c6f8e-0001"
LOOP, HEALTHY = SESSIONS / "claude_code_loop.jsonl", SESSIONS / "claude_code_ok.jsonl"


def said(number: int, kind: str, content: Any, **more: Any) -> Line:
    """Return the line of one message; its number is its time in seconds, and its id."""
    message = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"msg_{number}", "model": "claude-example"}
    return {
        "type": kind,
        "uuid": f"{number:08}-{kind}",
        "parentUuid": None,
        "sessionId": SESSION,
        "timestamp": f"2026-05-04T08:30:{number:02}.000Z",
        "message": message | more.pop("message", {}),
        **more,
    }


def call(number: int, tool: str, arguments: Line, **more: Any) -> Line:
    """Return the line of a call, whose id is its number."""
    part = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": arguments}
    return said(number, "assistant", [part], **more)


def result(number: int, of: int, content: Any, **more: Any) -> Line:
    """Return the line of the result of a call."""
    is_error = more.pop("is_error", None)
    part = {"type": "tool_result", "tool_use_id": f"toolu_{of}", "content": content}
    return said(number, "user", [part | ({"is_error": True} if is_error else {})], **more)


def test_a_session_that_loops_is_found_and_one_that_works_is_not() -> None:
    """Edits between equal failures do not hide a loop; work and waiting for a build are silent."""
    assert rules([str(LOOP)]) == {"persistent_failure", "no_measurable_progress", "no_news"}
    assert rules([str(HEALTHY)]) == set()


def test_messages_calls_and_results_become_turns(write: Write) -> None:
    """Each is one turn, with its arguments, what came of it, and its tokens."""
    log = [
        said(1, "user", "Fix the build."),
        said(2, "assistant", [{"type": "thinking", "thinking": "Hm."}]),
        call(3, "Bash", {"command": "make"}, message={"usage": {"input_tokens": 5}}),
        result(4, 3, "Exit code 2\nmake: *** no rule", is_error=True),
        said(5, "assistant", [{"type": "text", "text": "There is no rule."}]),
    ]
    table = turns(write("session.jsonl", lines(log)))

    assert shown(table) == [
        "user Fix the build.",
        "model claude-code claude-example",
        "tool claude-code Bash Exit code 2\nmake: *** no rule !",
        "model claude-code claude-example There is no rule.",
    ]
    assert set(table["task"]) == {f"{SESSION}@claude-code"}
    assert table["arguments"].to_list()[2] == '{"command":"make"}'
    assert table["input_tokens"].to_list() == [None, 5, None, None]
    assert table["call_id"].to_list()[2] == "toolu_3"
    assert table["arguments"].to_list()[3] == "Exit code 2\nmake: *** no rule"  # The news.
    assert [at_ns % NS_PER_MINUTE // NS_PER_S for at_ns in table["end_ns"]] == [1, 3, 4, 5]
    assert [at_ns % NS_PER_MINUTE // NS_PER_S for at_ns in table["start_ns"]] == [1, 1, 3, 4]


def test_a_response_in_several_lines_is_one_turn_whose_tokens_count_once(write: Write) -> None:
    """Each line repeats the usage so far, and a result may come in between."""
    one: Line = {"id": "msg_1", "model": "claude-example"}
    usage = {"cache_read_input_tokens": 30, "cache_creation_input_tokens": 500}
    usage |= {"input_tokens": 2, "output_tokens": 21}
    log = [
        said(1, "assistant", [{"type": "text", "text": "Two looks."}], message=one),
        call(2, "Read", {"file_path": "a"}, message=one | {"usage": {"output_tokens": 8}}),
        result(3, 2, "alpha"),
        call(4, "Read", {"file_path": "b"}, message=one | {"usage": usage}),
        result(5, 4, [{"type": "text", "text": "beta"}]),
    ]
    thought = {"usage": {"input_tokens": 9_999, "output_tokens": 9_999}}
    log.append(said(6, "assistant", [{"type": "thinking", "thinking": "Hm."}], message=thought))
    table = turns(write("session.jsonl", lines(log)))

    assert shown(table) == [
        "model claude-code claude-example Two looks.",
        "tool claude-code Read alpha",
        "tool claude-code Read beta",
    ]
    tokens = table.select("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
    assert tokens.row(0) == (532, 21, 30, 500)
    assert table["step"].n_unique() == 2  # The calls are one step, the response is none.


def test_what_a_response_was_given_is_what_came_since_the_one_before(write: Write) -> None:
    """So that an agent that only talks is seen, and one that answers a person is not."""
    log = [
        call(1, "Bash", {}),
        result(2, 1, "ok"),
        said(3, "user", "Go on."),
        said(4, "assistant", "I will."),
        said(5, "assistant", "I am about to."),
        said(6, "user", "So?"),
        said(7, "assistant", "Soon."),
    ]
    table = turns(write("session.jsonl", lines(log))).filter(kind="model")

    assert table["arguments"].to_list() == [None, None, "", None]
    assert table["talks_on"].is_not_null().to_list() == [False, False, True, False]


def test_a_response_that_was_cut_off_says_so(write: Write) -> None:
    """Its log has the word of Anthropic's API."""
    stopped = {"usage": {"output_tokens": 900}, "stop_reason": "max_tokens"}
    log = [said(1, "user", "Write it."), said(2, "assistant", "It begins", message=stopped)]
    log.append(said(3, "assistant", "It", message={"usage": {}, "stop_reason": None}))
    table = turns(write("session.jsonl", lines(log))).filter(kind="model")

    assert table["finish_reason"].to_list() == ["length", None]


def attached(**about: str) -> Line:
    """Return the line of an attachment."""
    return {**said(5, "user", ""), "type": "attachment", "attachment": about}


NOTED = {"type": "queued_command", "commandMode": "task-notification", "prompt": "done"}
PEOPLE: dict[str, tuple[Line, str | None]] = {
    "prompt": (said(5, "user", "Try the other file."), "Try the other file."),
    "parts": (
        said(5, "user", [{"type": "text", "text": "Look:"}, {"type": "image"}]),
        "Look:\n<image>",
    ),
    "command": (
        said(5, "user", "<command-name>/review</command-name>"),
        "<command-name>/review</command-name>",
    ),
    "interrupt": (
        said(5, "user", [{"type": "text", "text": "[Request interrupted by user]"}]),
        "interrupted",
    ),
    "queued": (attached(type="queued_command", prompt="And the docs."), "And the docs."),
    "meta": (said(5, "user", "Stop hook feedback: go on", isMeta=True), None),
    "summary": (said(5, "user", "This session is continued", isCompactSummary=True), None),
    "output": (said(5, "user", "<local-command-stdout>ok</local-command-stdout>"), None),
    "notification": (said(5, "user", "<task-notification>done</task-notification>"), None),
    "origin": (said(5, "user", "Done.", origin={"kind": "task-notification"}), None),
    "queued notification": (attached(**NOTED), None),
    "other attachment": (attached(type="file", prompt="x"), None),
}


@pytest.mark.parametrize("case", PEOPLE)
def test_a_persons_words_are_told_from_the_programs_own(case: str, write: Write) -> None:
    """Only a person resets what was counted; hooks and summaries speak as a user, too."""
    message, expected = PEOPLE[case]
    table = turns(write("session.jsonl", lines([call(1, "Bash", {}), result(2, 1, "ok"), message])))
    people = table.filter(kind="user")

    heard = [row["text"] or row["name"] for row in people.iter_rows(named=True)]
    assert heard == ([] if expected is None else [expected])


REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you "
    "how to proceed, the user said:\nuse the other one"
)
STOPPED = "The user doesn't want to take this action right now. STOP."


@pytest.mark.parametrize(
    ("content", "is_error", "tool", "decision", "note"),
    [
        (REFUSED, True, "Bash", "rejected", "use the other one"),
        (STOPPED, True, "Bash", "rejected", None),
        ("User has answered: tabs", None, "AskUserQuestion", "answered", "User has answered: tabs"),
    ],
)
def test_who_does_not_let_a_call_run_or_answers_is_a_person(
    content: str, is_error: bool | None, tool: str, decision: str, note: str | None, write: Write
) -> None:
    """The call did not fail, and what a person decided begins a new count."""
    log = [call(1, tool, {}), result(2, 1, content, is_error=is_error)]
    table = turns(write("session.jsonl", lines(log)))

    assert table.filter(kind="tool")["failed"].to_list() != [True]
    (person,) = table.filter(kind="user").iter_rows(named=True)
    assert (person["name"], person["text"]) == (decision, note)


def test_a_person_who_asks_again_makes_no_loop(write: Write) -> None:
    """The same call after each prompt is what the person wants."""
    log = [
        item
        for i in range(0, 40, 4)
        for item in (
            said(i, "user", "Any news?"),
            call(i + 1, "Bash", {"command": "inbox"}),
            result(i + 2, i + 1, "nothing"),
        )
    ]

    assert rules([write("asked.jsonl", lines(log))]) == set()
    log = [item for item in log if item["message"]["content"] != "Any news?"]
    assert "repeated_call" in rules([write("alone.jsonl", lines(log))])


def test_sub_agents_are_agents_of_their_own_in_the_same_task(write: Write) -> None:
    """In files of their own or in the same one, and their prompts are no person's."""
    aside = {"isSidechain": True}
    main = [
        said(1, "user", "Compare them."),
        call(2, "Task", {"prompt": "Read a."}),
        said(3, "user", "Read a.", **aside, uuid="aaaaaaaa-1"),
        said(3, "user", "Read b.", **aside, uuid="bbbbbbbb-1"),
        call(4, "Read", {"file": "a"}, **aside, uuid="a2", parentUuid="aaaaaaaa-1"),
        call(5, "Read", {"file": "b"}, **aside, uuid="b2", parentUuid="bbbbbbbb-1"),
        result(6, 4, "alpha", **aside, uuid="a3", parentUuid="a2"),
        result(7, 5, "beta", **aside, uuid="b3", parentUuid="b2"),
        result(8, 2, "a is alpha"),
    ]
    own = [
        said(9, "user", "Read c.", **aside, agentId="c1"),
        call(10, "Read", {"file": "c"}, **aside, agentId="c1"),
        result(11, 10, "gamma", **aside, agentId="c1"),
    ]
    write(f"{SESSION}/subagents/agent-c1.jsonl", lines(own))
    write(f"{SESSION}.jsonl", lines(main))
    table = turns(".")

    assert [row for row in shown(table) if row.startswith(("tool", "user"))] == [
        "user Compare them.",
        "tool agent-aaaaaaaa Read alpha",
        "tool agent-bbbbbbbb Read beta",
        "tool claude-code Task a is alpha",
        "tool agent-c1 Read gamma",
    ]
    assert table["task"].n_unique() == 1


def test_a_folder_of_logs_and_traces_is_read_as_one(write: Write) -> None:
    """Files beside the logs are ignored, and names decide nothing."""
    write("a/any name.json", LOOP.read_bytes())
    write("a/traces.jsonl", line(span(1)))
    write("a/sessions-index.json", json.dumps({"version": 1, "entries": []}, indent=2).encode())
    write("a/s/subagents/agent-a1.meta.json", b'{"agentType": "Explore"}')
    write("a/empty.jsonl", lines([{"type": "summary", "summary": "x", "leafUuid": "y"}]))
    found = read_spans(["a"])

    assert found.skipped == ()
    assert set(found.spans["service"]) == {"shop", "claude-code"}


def test_a_source_of_traces_is_none_of_logs(write: Write) -> None:
    """A line that is not a request is reported there, whatever its fields are."""
    data = line(span(1)) + lines([said(1, "user", "Go.")])

    assert "no resourceSpans" in read_spans([write("traces.jsonl", data)]).skipped[0].why


def test_the_same_log_twice_is_the_same_spans(write: Write) -> None:
    """Ids come from the session and its messages, so that a store knows them again."""
    copy = write("copy.jsonl", LOOP.read_bytes())
    once, twice = read_spans([str(LOOP)]), read_spans([str(LOOP), copy])

    assert twice.skipped == ()
    assert once.spans.equals(twice.spans)


def test_a_session_that_goes_on_keeps_its_spans(write: Write) -> None:
    """A log is read while it is written, and what was read then is not there twice later."""
    whole = LOOP.read_bytes().splitlines(keepends=True)
    parts = [write(f"{n}.jsonl", b"".join(whole[:n])) for n in range(1, len(whole) + 1)]
    found = read_spans(parts)
    latest = read_spans([str(LOOP)])

    quiet = [path for n, path in enumerate(parts) if b'"type":"text"' not in whole[n]]
    assert read_spans([*quiet, str(LOOP)]).skipped == ()
    key = ["trace_id", "span_id"]
    assert found.spans.sort(key).equals(latest.spans.sort(key))


def test_a_call_that_still_runs_is_no_turn_yet(write: Write) -> None:
    """Nor is the response that asked for it, which may get more calls."""
    log = [said(1, "user", "Go."), call(2, "Bash", {})]

    assert shown(turns(write("session.jsonl", lines(log)))) == ["user Go."]


def test_bad_lines_are_reported_and_the_rest_is_read(write: Write) -> None:
    """A crash cuts a line off; unknown lines are a newer version's."""
    log = [
        lines([said(1, "user", "Go.")]),
        b'{"type":"assistant","sessionId":"7d3c6f8e-0001","message":{"cont\n',
        lines([{"type": "mode", "sessionId": SESSION}, call(2, "Bash", {})]),
        lines([result(3, 2, "ok \\ud83d")]).replace(b"\\\\ud83d", b"\\ud83d"),
        lines([{**said(4, "user", "Later."), "timestamp": "9999-01-01T00:00:00Z"}]),
        b'{"type":"user","sessionId":"7d3c6f8e-0001"',
    ]
    found = read_spans([write("session.jsonl", b"".join(log))])

    assert [skipped.where for skipped in found.skipped] == [
        f"session.jsonl:{number}" for number in (2, 6, 7)
    ]
    assert "before 2262" in found.skipped[1].why
    assert shown(turns_of(found.spans)[0]) == [
        "user Go.",
        "model claude-code claude-example",
        "tool claude-code Bash ok �",
    ]


def test_an_api_error_is_a_failed_response(write: Write) -> None:
    """The log has it as a message of the program, which no model wrote."""
    error = [{"type": "text", "text": "API Error: 529 Overloaded"}]
    log = [
        said(n, "assistant", error, isApiErrorMessage=True, message={"model": "<synthetic>"})
        for n in range(1, 4)
    ]
    table = turns(write("session.jsonl", lines(log)))

    assert table["failed"].to_list() == [True] * 3
    assert table["error"].to_list() == ["API Error: 529 Overloaded"] * 3


@pytest.mark.parametrize("content", [None, 7, [], ["x", None], [{"type": "tool_use"}], {"a": 1}])
def test_odd_contents_raise_nothing(content: Any, write: Write) -> None:
    """The format is not documented."""
    log = [
        said(1, "assistant", content),
        said(2, "user", content),
        {"type": "user", "sessionId": 3},
    ]
    path = write("session.jsonl", lines(log))

    assert read_spans([path]).skipped == ()
    assert Path(path).exists()


def stream(*items: Line) -> list[Line]:
    """Return lines of a stream, of which only some have a time."""
    return [
        {"type": "system", "subtype": "init", "session_id": SESSION},
        *({**item, "session_id": SESSION, "parent_tool_use_id": None} for item in items),
    ]


def untimed(item: Line) -> Line:
    """Return a line without its time."""
    return {key: value for key, value in item.items() if key not in ("timestamp", "sessionId")}


def test_lines_without_a_time_stand_where_they_stand_in_the_file(write: Write) -> None:
    """Responses of some models have no time; all of them came first, and outages were invented."""
    log = stream(
        untimed(call(1, "Bash", {"command": "make"})),
        result(2, 1, "ok"),
        untimed(call(3, "Bash", {"command": "make test"})),
        result(4, 3, "1 passed"),
        untimed(said(5, "assistant", [{"type": "text", "text": "It works."}])),
    )
    table = turns(write("log.jsonl", lines(log)))
    kinds = table.sort("turn")["kind"].to_list()
    assert kinds == ["model", "tool", "model", "tool", "model"]
    assert table["start_ns"].min() > 1_700_000_000 * NS_PER_S  # type: ignore[operator] # It is known.


def test_the_usage_of_all_responses_is_a_check(write: Write) -> None:
    """Some versions write the tokens with which a response begins; the larger sum counts."""
    usage = {"input_tokens": 5, "output_tokens": 1}
    log = stream(
        *(call(n, "Bash", {"n": n}, message={"usage": usage}) for n in (1, 2)),
        {"type": "result", "subtype": "success", "usage": {"input_tokens": 9, "output_tokens": 70}},
    )
    path = write("log.jsonl", lines(log))
    table = turns(path)
    assert (table["input_tokens"].sum(), table["output_tokens"].sum()) == (10, 70)
    # One of the input is too many, and 68 of the output are missing.
    analysis = analyse(read_spans([path]).spans)
    assert analysis.understood.differing_tokens == 69
    assert "differ by 69 tokens" in " ".join(understood_lines(analysis))
    assert understood_object(analysis.understood)["differing_tokens"] == 69


@pytest.mark.parametrize("usage", [{"input_tokens": 10, "output_tokens": 2}, {}, None])
def test_usage_that_agrees_or_is_not_there_differs_by_nothing(
    usage: dict[str, int] | None, write: Write
) -> None:
    """A later run may count itself alone."""
    each = {"input_tokens": 5, "output_tokens": 1}
    result = {"type": "result", "subtype": "success", "usage": usage}
    runs = [call(n, "Bash", {"n": n}, message={"usage": each}) for n in (1, 2)]
    later = [call(3, "Bash", {"n": 3}, message={"usage": each})]
    path = write("log.jsonl", lines(stream(*runs, result, *later, result)))
    assert analyse(read_spans([path]).spans).understood.differing_tokens == 0


def test_calls_that_agents_number_alike_are_not_lost(write: Write) -> None:
    """Sub-agents of one run may call the same tool under the same id."""
    about = {"isSidechain": True}
    log = [
        each
        for agent in ("a", "b")
        for each in (
            call(1, "Bash", {"of": agent}, **about, agentId=agent),
            result(2, 1, f"done by {agent}", **about, agentId=agent),
        )
    ]
    table = turns(write("log.jsonl", lines(log)))
    assert sorted(table.filter(kind="tool")["result"]) == ["done by a", "done by b"]


def test_a_document_that_a_tool_attached_is_no_person(write: Write) -> None:
    """It comes as a message of the user, after the result; a picture that a person sends is one."""
    document = [{"type": "document", "source": {"type": "base64", "data": "x"}}]
    log = [
        said(1, "user", [{"type": "image", "source": {}}]),
        call(2, "Read", {"file_path": "plan.pdf"}),
        result(3, 2, "PDF file read: plan.pdf"),
        said(4, "user", document),
        said(5, "assistant", [{"type": "text", "text": "I see."}]),
    ]
    table = turns(write("log.jsonl", lines(log)))
    assert table["kind"].to_list() == ["user", "model", "tool", "model"]


def test_a_call_without_a_name_or_an_id_is_not_lost(write: Write) -> None:
    """It is a call all the same."""
    parts = [{"type": "tool_use", "input": {"n": n}} for n in range(2)]
    log = [said(1, "assistant", parts), said(2, "assistant", [{"type": "text", "text": "Hm."}])]
    table = turns(write("log.jsonl", lines(log))).filter(kind="tool")
    assert sorted(table.select("name", "arguments").rows()) == [
        ("unnamed", '{"n":0}'),
        ("unnamed", '{"n":1}'),
    ]
