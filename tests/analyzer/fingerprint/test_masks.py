"""Which parts of a result make it another one."""

import json
import time

import pytest

from looptrace._core import makes
from looptrace.analyzer.fingerprint.equivalence import NOTHING, Results, Sameness
from looptrace.analyzer.fingerprint.fingerprints import policy_of
from tests.turn_rows import turns_with

LONG_CHARS = 250_000  # Quadratic time for it is a minute.
SECONDS_MAX = 5


def read(*results: str, sameness: Sameness = NOTHING) -> list[str]:
    """Return what is compared of results."""
    return list(map(policy_of(sameness).answer, results))


def outcomes(
    tool: str, arguments: str, text: str, *, failed: bool, sameness: Sameness = NOTHING
) -> int:
    """Return how many outcomes three calls have whose arguments and texts hold another {n}."""
    turns = [
        {"name": tool, "failed": failed, "arguments": arguments.replace("{n}", n)}
        | {"error" if failed else "result": text.replace("{n}", n)}
        for n in "345"
    ]
    return turns_with(*turns, sameness=sameness)["outcome"].n_unique()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"ok":true,"messageId":"om_17"}', '{"ok":true,"messageId":"om_18"}'),
        ('{"rows":3,"meta":{"durationMs":17}}', '{"rows":3,"meta":{"durationMs":1804}}'),
        ('[{"a":1,"message_id":7},{"ts":1.5}]', '[{"a":1,"message_id":8},{"ts":2.5}]'),
        (r'{"text":"{\"run-id\": \"a\", \"n\": 1}"}', r'{"text":"{\"run-id\": \"b\", \"n\": 1}"}'),
        ("saved\nETag: W/17", "saved\nETag: W/18"),
        ("sent messageId=4, ts=11", "sent messageId=5, ts=12"),
        ("4 rows; took: 3.1", "4 rows; took: 4.2"),
        (
            "text\n(9 lines, read 1\N{MULTIPLICATION SIGN} this session)",
            "text\n(9 lines, read 2\N{MULTIPLICATION SIGN} this session)",
        ),
        ('{"text":"a","readCount":1}', '{"text":"a","readCount":2}'),
        ("name   state\nx      done", "name  state\r\nx     done\r\n"),
    ],
)
def test_fresh_values_make_no_other_result(first: str, second: str) -> None:
    """A message that is sent twenty times has another id each time, and is one message."""
    assert len(set(read(first, second))) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"elapsed_s":12}', '{"elapsed_s":24}'),
        ("12 s", "24 s"),
        ('{"durationMs":17,"rows":3}', '{"durationMs":17,"rows":4}'),
        ("0f3a9c01b7d24e68aa05fbc9e7d13a248b6c0d5f", "1f3a9c01b7d24e68aa05fbc9e7d13a248b6c0d5f"),
        ("commit 0f3a9c01b7d24e68 pushed", "commit 1f3a9c01b7d24e68 pushed"),
        ('{"ok":true,"sha256":"0f3a9c01b7d24e68"}', '{"ok":true,"sha256":"1f3a9c01b7d24e68"}'),
        ("main.ts: 3 errors", "main.ts: 4 errors"),
        ("took: 3 of 9 tickets", "took: 4 of 9 tickets"),
        ("12 of 40 done", "13 of 40 done"),
        ("attempt 2 of 5: pending", "attempt 3 of 5: pending"),
        ('{"id":"t1","offset":10}', '{"id":"t1","offset":20}'),
        ("read 3 lines", "read 4 lines"),
    ],
)
def test_news_make_another_result(first: str, second: str) -> None:
    """What a poll tells, a digest, and a word that is no key, are what work goes on by."""
    assert len(set(read(first, second))) == 2


def test_a_tool_that_is_asked_for_figures_keeps_its_counters() -> None:
    """How many calls are left is what it was asked for."""
    text = "{n} calls left, none failed"
    assert outcomes("usage_status", "{}", text, failed=False) == 3
    assert outcomes("read", "{}", text, failed=False) == 1


MADE = [
    '{"ok":true,"result":{"platformMessageId":"17{n}"},"receipt":{"a":[{"partId":{n}}],"sentAt":{n}}}',
    '{"receipt":"r-{n}","delivered":true}',
    '{"message_id":5{n}}',
    '{"messageIds":["m{n}","m{n}b"],"ok":true}',
    r'{"text":"{\"fileId\": \"F{n}\"}"}',
    '{"number":1{n},"html_url":"https://git.example/o/r/issues/1{n}","state":"open"}',
    '{"confirmation_number":"QX{n}7B","status":"booked"}',
    '{"eventId":"e{n}","updated_at":"in week {n}"}',
    "<result><submissionId>s{n}</submissionId><ok>true</ok></result>",
    "ok: true\nticketId: 7{n}\nlink: https://t.example/7{n}",
    "Email sent. Message ID: 18c{n}",
    "Created AB-10{n}",
    "Order #10{n} placed.",
    "https://git.example/o/r/issues/1{n}",
]


@pytest.mark.parametrize("written", MADE)
def test_what_was_made_has_another_name_each_time(written: str) -> None:
    """A message that is sent twenty times is one message, whatever its receipt looks like."""
    assert outcomes("send", "a", written, failed=False) == 1


@pytest.mark.parametrize(
    "written",
    [
        "1{n} of 40 chunks uploaded",
        "task {n} of 40 created",
        '{"row_count":1{n},"ok":true}',
        '{"id":"a","page":{n},"offset":{n}0}',
        '{"id":"a","status_code":20{n}}',
        "{n} rows were added",
    ],
)
def test_how_far_a_call_got_is_news(written: str) -> None:
    """A counter that rises shows that work goes on, also where each call makes something."""
    assert outcomes("send", "a", written, failed=False) == 3


def test_a_team_may_count_what_was_made() -> None:
    """A key that tells something to it is no receipt."""
    own = Sameness(results=Results(telling_keys=("fileId",)))
    assert outcomes("send", "a", '{"fileId":"F{n}"}', failed=False, sameness=own) == 3


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("send_email", "to a", True),
        ("jira.createTicket", "a", True),
        ("mcp__chat__post_message", "a", True),
        ("create_poll", "a", True),
        ("message", '{"action":"send","text":"hi"}', True),
        ("message", "hi", True),
        ("bash", '{"command":"gh issue create --title a"}', True),
        ("bash", '{"command":"curl -s -X POST https://api.example/notes"}', True),
        ("http", '{"method":"POST","url":"https://api.example"}', True),
        ("list_messages", "a", False),
        ("get_created_orders", "a", False),
        ("read_sent_messages", "a", False),
        ("get_next_task", "a", False),
        ("order_status", "a", False),
        ("claim_job", "a", False),
        ("bash", '{"command":"grep send a.txt"}', False),
        ("message", '{"action":"read"}', False),
        ("new_tab", "{}", False),
        ("create_session", "{}", False),
        (None, "a", False),
    ],
)
def test_calls_that_make_something_are_known(tool: str, arguments: str, expected: bool) -> None:
    """By their verb; a list of ids, and what is next in a queue, are news."""
    assert makes(tool, arguments) == expected


EDIT = '{"path":"a.py","old_string":"def f{n}(a):\\n    return a","new_string":"x"}'


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("edit", EDIT, "Not found in a.py:\ndef f{n}(a):\n    return a"),
        ("edit", EDIT, "old_string `def f{n}(a): return a` is not in a.py"),
        ("edit", EDIT, r'{"error":"not found","old":"def f{n}(a):\n    return a"}'),
        ("edit", '{"path":"a.py","old_text":"foo_{n}"}', "Could not find 'foo_{n}' in a.py"),
        ("bash", '{"command":"rm -rf b{n}"}', "The command rm -rf b{n} is against the rules."),
        ("sql", '{"query":"DELETE FROM t{n}"}', 'Only reads are allowed, not "DELETE FROM t{n}"'),
        (
            "edit",
            '{"path":"a.py","old_string":"the {n}th paragraph of the text, which is long"}',
            "No match for: the {n}th paragraph of the ...",
        ),
        ("submit", '{"form":"a"}', '{"error":"the form is incomplete","request_id":"r-{n}"}'),
    ],
)
def test_a_refusal_quotes_the_call(tool: str, arguments: str, error: str) -> None:
    """Eight refused edits are refused for one reason, whatever each of them was to write."""
    assert outcomes(tool, arguments, error, failed=True) == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("read_file", '{"path":"src/f{n}.py"}', "File not found: src/f{n}.py"),
        ("get_book", '{"text":"The story of {n}"}', "There is no book 'The story of {n}'"),
        ("create_event", '{"name":"Dinner with {n}"}', "An event 'Dinner with {n}' exists already"),
        ("bash", '{"command":"cat f{n}.txt"}', "cat: f{n}.txt: No such file or directory"),
        ("bash", '{"command":"tool{n}"}', "tool{n}: command not found"),
        ("delete_message", '{"message_id":"m{n}"}', '{"error":"locked","message_id":"m{n}"}'),
        ("sql", '{"query":"SELECT c{n} FROM t"}', "Unknown column 'c{n}' in 'field list'"),
    ],
)
def test_another_target_is_other_work(tool: str, arguments: str, error: str) -> None:
    """What a call asks for, and where, is no quote of what it was to write."""
    assert outcomes(tool, arguments, error, failed=True) == 3


def test_keys_are_settings() -> None:
    """A team names further keys, and those that do tell something to it."""
    own = Sameness(results=Results(volatile_keys=("servedBy",), telling_keys=("etag",)))
    assert len(set(read("ok served_by=a", "ok served_by=b", sameness=own))) == 1
    assert len(set(read("ok etag=a", "ok etag=b", sameness=own))) == 2


@pytest.mark.parametrize(
    "part", ["ts=", "ts:", "messageId ", '"', "\\", "commit ", "a" * 40, "<id>", "0 s ", "took: x "]
)
def test_long_results_take_linear_time(part: str) -> None:
    """A hostile result must not hold up all others."""
    began = time.process_time()
    text = part * (LONG_CHARS // len(part))
    read(text)
    outcomes("send", "a", text, failed=False)
    outcomes("edit", '{"old_string":"aaaa id ts=commit the rest"}', text, failed=True)
    assert time.process_time() - began < SECONDS_MAX


@pytest.mark.parametrize("content", ["\\" * 4_000, '\\"' * 2_000, '"' * 4_000, "a " * 2_000])
def test_a_hostile_quote_takes_no_time(content: str) -> None:
    """A pattern with a quantifier for each of many backslashes did not end."""
    outcomes("edit", json.dumps({"old_string": content}), content[:-1] + "b", failed=True)
