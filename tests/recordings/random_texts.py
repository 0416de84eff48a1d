"""Makes up turns whose texts differ in one part, in each of the parts that patterns look for.

Which of them are equal shows what is masked, in every kind of text.
"""

import random
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.schema.turns import TURN_SCHEMA, numbered
from looptrace.rules.vocabulary import NS_PER_S

# What patterns look for, what they leave alone, and what stands between.
WORDS = [
    *("2026-03-02T09:15:01.5Z", "09:15:01", "1767225600123", "12 ms", "3.5 seconds", "4µs"),
    *("3f2b8c1d-1111-4a4a-8b8b-0123456789ab", "call_Ab12Cd34Ef", "a1b2c3d4e5f6a7b8", "0xdeadbeef"),
    *(
        "_9f8e7d6c5b4a39281706",
        "redacted:0123456789ab",
        "pid: 412",
        "/private/var/folders/x/y",
        "in /var/folders/q)",
    ),
    *("sha256:0123456789abcdef0123", "commit 0123456789abcdef", "f" * 40, "deadbeef"),
    *('"durationMs": 12', "took: 5s\n", "took=7;", "message_id: om_17,", '"ts":"9"', "jobId: 4\n"),
    *('"request_id":"r-1"', "etag: W/1", "elapsed 5", "created at 7", '\\"run_id\\": \\"x\\"'),
    *('  File "/a/b/c.py", line 12, in run\n    go()\n', "\n    at f (/x/y/z.js:3:14)\n"),
    *("src/app.ts:45:7 - error TS2322", "main.rs:3: ", "attempt 3 of 5", "[INFO] x\n"),
    *("Traceback (most recent call last):\n", "tool_error", "429 Too Many Requests", "503"),
    *("Error: boom", "ValueError: x", "exit code 1", "exited with code 0", '{"exit_code": 2}'),
    *("2 failed, 3 passed", "FAILED", "Tests: 1 failed, 2 total", "3 passed", "coverage: 80%"),
    *(
        "read 3\N{MULTIPLICATION SIGN} now",
        "seen 12 times",
        "the 2nd time",
        "call #4",
        "8 calls left",
        "callCount: 3",
    ),
    *('"fileId": "F7"', "orderNumber=12", "Order #1041", "https://x.example/7", "AB-12", "id 9"),
    *("let a;\nlet  b", "let a;\\nlet b", "x = 1", "String: the old text, of", "the old..."),
    *("Denied by policy.", "Request timed out.", "Timed out", "still running", "No matches found"),
    *("hello", "World", "a_b.c", "file.py", "src/app/main.ts", "[x]", "{y}", "(z)", "100", "7"),
    *(" ", "  ", "\n", "\t", "\r\n", "\x0b", "\x1c", "\x85", "\xa0", "\u2003", "\u3000", "\\n"),
    *(":", "=", ",", ";", '"', "'", "&", "-", "_", "."),
    *("Größe", "\u017f", "\u212a", "İ", "²", "½", "日本", "✓", "❶", "👍", "👍\ufe0f", "e\u0301"),
]
ROUNDS = 4
CORES = ("the job of today ", "Error: no such job ", "4 failed, 2 passed\n", "", '{"state": "up"} ')


def turns_with_texts() -> pl.DataFrame:
    """Return turns (`TURN_SCHEMA`), a task for each part with a few rounds of all kinds of turn."""
    rows = [
        dict.fromkeys(TURN_SCHEMA)
        | {"task": f"{task}", "session": f"{task}", "trace_id": f"{task}", "agent": "a"}
        | {"span_id": f"{place:04}", "start_ns": place * NS_PER_S, "end_ns": (place + 1) * NS_PER_S}
        | turn
        for task, word in enumerate(WORDS)
        for place, turn in enumerate(_turns(word, random.Random(task)))
    ]
    return numbered(add_fingerprints(pl.DataFrame(rows, TURN_SCHEMA, orient="row")))


def _turns(word: str, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Yield rounds of turns with the same words but for the digits, and sometimes the ends."""
    core, end = chance.choice(CORES), chance.choice(WORDS)
    for _ in range(ROUNDS):
        other = re.sub("[0-9]", lambda _: chance.choice("123456789"), word)
        text = core + other + (end if chance.random() < 0.8 else f" {other}")
        yield {"kind": "tool", "name": "ls", "arguments": "{}", "result": text}
        yield {"kind": "tool", "name": "run", "arguments": text, "failed": True, "error": text}
        yield {"kind": "tool", "name": "run_tests", "arguments": '{"path":"a"}', "result": text}
        yield {"kind": "tool", "name": "send_message", "arguments": '{"to":"C1"}', "result": text}
        yield {"kind": "tool", "name": "get_status", "arguments": '{"id":"7"}', "result": text}
        yield {"kind": "model", "name": "m", "arguments": text, "text": text, "response": text}
        yield {"kind": "user", "text": text}
        yield {"kind": "attempt", "name": "blocked", "arguments": text, "result": text}
