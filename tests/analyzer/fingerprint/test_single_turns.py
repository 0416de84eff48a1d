"""A turn that arrives alone is compared by what it is compared by among others."""

from __future__ import annotations

import itertools
import re
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from looptrace.analyzer.fields.span_fields import span_fields_of
from looptrace.analyzer.fingerprint.equivalence import Results, Sameness, TextMask, Tool
from looptrace.analyzer.fingerprint.masks import masked
from looptrace.analyzer.fingerprint.signatures import add_fingerprints
from looptrace.analyzer.fingerprint.single_texts import CHARS_MAX, PLAIN, masked_text
from looptrace.analyzer.fingerprint.single_turns import (
    LiveFingerprints,
    _answer,
    single_fingerprint,
)
from looptrace.analyzer.normalize.session_history import SessionHistory
from looptrace.analyzer.normalize.turn_builder import turn_rows_of
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.collector.files.reader import read_spans
from tests.paths import ROOT, SHARED
from tests.seeds import seeds

FILES = [
    path
    for folder in (ROOT / "examples/traces", ROOT / "tests/framework_traces", SHARED / "frameworks")
    for path in sorted(folder.glob("*.json*")) + sorted(folder.glob("*.binpb"))
]
# Declared by a team, for two of the tools below.
DECLARED = Sameness(
    tools={
        "run": Tool(volatile_keys=("path", "deep.key")),
        "search_docs": Tool(same_call=("query",)),
        "poll": Tool(polling=True),
    },
    results=Results(volatile_keys=("jobId",), telling_keys=("took",)),
)

# What patterns look for, what they leave alone, and what stands between.
WORDS = [
    *("2026-03-02T09:15:01.5Z", "09:15:01", "1767225600123", "12 ms", "3.5 seconds", "4µs"),
    *(
        "3f2b8c1d-1111-4a4a-8b8b-0123456789ab",
        "call_Ab12Cd34Ef",
        "a1b2c3d4e5f6a7b8",
        "0xdeadbeef",
    ),
    *(
        "_9f8e7d6c5b4a39281706",
        "redacted:0123456789ab",
        "pid: 412",
        "/private/var/folders/x/y",
        "in /var/folders/q)",
    ),
    *("sha256:0123456789abcdef0123", "commit 0123456789abcdef", "f" * 40, "deadbeef"),
    *(
        '"durationMs": 12',
        "took: 5s\n",
        "took=7;",
        "message_id: om_17,",
        '"ts":"9"',
        "jobId: 4\n",
    ),
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
    *(
        '"fileId": "F7"',
        "orderNumber=12",
        "Order #1041",
        "https://x.example/7",
        "AB-12",
        "id 9",
    ),
    *("let a;\nlet  b", "let a;\\nlet b", "x = 1", "String: the old text, of", "the old..."),
    *(
        "Denied by policy.",
        "Request timed out.",
        "Timed out",
        "still running",
        "No matches found",
    ),
    *("hello", "World", "a_b.c", "file.py", "src/app/main.ts", "[x]", "{y}", "(z)", "100", "7"),
    *(" ", "  ", "\n", "\t", "\r\n", "\x0b", "\x1c", "\x85", "\xa0", "\u2003", "\u3000", "\\n"),
    *(":", "=", ",", ";", '"', "'", "&", "-", "_", "."),
    *(
        "Größe",
        "\u017f",
        "\u212a",
        "İ",
        "²",
        "½",
        "日本",
        "✓",
        "❶",
        "👍",
        "👍\ufe0f",
        "e\u0301",
    ),
]
PARTS = st.sampled_from(WORDS)
TEXTS = st.none() | st.lists(PARTS, max_size=9).map("".join)
ARGUMENTS = TEXTS | st.sampled_from(
    [
        '{"path":"src/a.py","content":"x = 1"}',
        '{"path":"a","request_id":"1","deep":{"key":1,"left":""}}',
        '{"query":"how \\\\"so\\\\" 日本","timestamp":"5","page":"16"}',
        '{"command":"pytest -q tests/"}',
        '{"file_path":"C:\\\\x\\\\y.ts","new_string":"let a;\\\\nlet b"}',
        '{"id":"007","n":null}',
        '{"action":"send","to":"C1","text":"the old text, of the file"}',
        '{"path":"a.py","old_string":"the old text, of the file","new_string":"x = 1"}',
        '{"command":"gh issue create --title a"}',
        '"text"',
    ]
)
NAMES = [
    "run",
    "search_docs",
    "write_file",
    "poll",
    "read_file",
    "run_tests",
    "send_message",
    "get_status",
    "blocked",
    "done",
    "Größe",
]
ROWS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            ["tool"] * 6 + ["model", "user", "handoff", "attempt", "switch", "progress"]
        ),
        "name": st.sampled_from(NAMES),
        "subtask": st.sampled_from([None, "part"]),
        "arguments": ARGUMENTS,
        "result": TEXTS,
        "failed": st.sampled_from([None, None, False, True]),
        "error": TEXTS,
        "error_type": st.sampled_from([None, "ValueError", "timeout"]),
        "trace_hash": st.none() | TEXTS,
        "text": TEXTS,
        "response": TEXTS,
        "talks_on": TEXTS,
    }
)


def with_own_trace(row: dict[str, Any]) -> dict[str, Any]:
    """Let only a span that says that it failed have a stack trace, as spans are read."""
    return row if row["failed"] else row | {"trace_hash": None}


def by_columns(rows: list[dict[str, Any]], sameness: Sameness) -> list[tuple[Any, ...]]:
    """Compare turns as batch does."""
    columns = {name: [row.get(name) for row in rows] for name in TURN_SCHEMA}
    return add_fingerprints(pl.DataFrame(columns, TURN_SCHEMA), sameness).rows()


@settings(max_examples=seeds(160))
@given(
    st.lists(ROWS.map(with_own_trace), min_size=1, max_size=12),
    st.sampled_from([Sameness(), DECLARED]),
)
@example([{"kind": "tool", "name": "ls", "result": "a\x1c"}], Sameness())
def test_both_ways_are_equal(rows: list[dict[str, Any]], sameness: Sameness) -> None:
    """Whatever stands in the texts, and whatever a team declares."""
    fingerprints = LiveFingerprints(sameness)
    whole = by_columns(rows, sameness)

    assert [fingerprints.turns([row])[0] for row in rows] == whole
    assert fingerprints.turns(rows) == whole


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_turns_of_frameworks_are_compared_alike(path: Path) -> None:
    """Whatever way they go."""
    rows, _ = turn_rows_of(span_fields_of(read_spans([str(path)]).spans), SessionHistory())
    made = LiveFingerprints().turns(rows)

    assert made == by_columns(rows, Sameness())


def test_most_turns_need_no_columns() -> None:
    """Failures neither, but for runs of tests, whose figures are read by columns."""
    path = ROOT / "examples/traces/flaky_import_loop.jsonl"
    rows, _ = turn_rows_of(span_fields_of(read_spans([str(path)]).spans), SessionHistory())
    failed = TURN_SCHEMA.names().index("failed")
    ways = [
        (single_fingerprint(row, Sameness()), turn)
        for row, turn in zip(rows, by_columns(rows, Sameness()), strict=True)
    ]
    alone = [turn[failed] for made, turn in ways if made is not None]

    assert True in alone
    assert len(alone) > len(rows) / 2


@pytest.mark.parametrize("key", ["jobId", "job-id", "job id", "a:b", "a=", "x.y", "&&", "Größe"])
@pytest.mark.parametrize("sign", [": ", "=", '": ', "' = ", '\\": "', " : "])
def test_any_key_of_a_result_may_be_declared(key: str, sign: str) -> None:
    """Whatever it is written with: it is looked for where it may stand."""
    sameness = Sameness(results=Results(volatile_keys=(key,)))
    texts = [f"ready, {key}{sign}{value}" for value in ("17;", '18", done', "19")]
    rows = [{"kind": "tool", "name": "ls", "result": text} for text in texts]
    assert LiveFingerprints(sameness).turns(rows) == by_columns(rows, sameness)


def test_what_a_mask_needs_stands_in_all_that_it_changes() -> None:
    """For ids that have hardly any digits, too."""
    ids = ["abcdefab-abcd-abcd-abcd-abcdefabcdef", "run_abcdefgh", "exact:abcdefabcdef", "a1" * 6]
    ids += ["abcdefghi1a1", "1a1abcdefghi", "1a0000000000", "a10000000000", "_abcdefghi1a1"]
    texts = [f"saw {each}{end}" for each in ids for end in ("", ".", "_", " x")]
    texts += ["1500000000", "1:07:09:15", "07:09:15", "2026-11-25T07:09", "PiD=4", "/tmp/x", "7 µs"]  # noqa: S108
    texts += ["in /var/tmp/x", "/private/var/folders/x", "1,5S", "0xABCD"]
    masks = pl.DataFrame({"text": texts}).select(masked(pl.col("text"))).to_series()

    assert [masked_text(text) for text in texts] == masks.to_list()
    assert sum(text != each for text, each in zip(texts, masks, strict=True)) > len(texts) / 2


def test_a_declared_mask_goes_the_columns_way() -> None:
    """Its pattern is written for the linear-time engine."""
    sameness = Sameness(masks=(TextMask("[0-9]+", "<n>"),))
    rows = [{"kind": "tool", "name": "ls", "arguments": "{}", "result": n} for n in ("1 a", "2 a")]

    assert single_fingerprint(rows[0], sameness) is None
    one, other = LiveFingerprints(sameness).turns(rows)
    outcome = TURN_SCHEMA.names().index("outcome")
    assert one[outcome] == other[outcome]


def test_both_engines_read_plain_signs_alike() -> None:
    """Letters, spaces, and the two cases of a letter, sign by sign."""
    signs = [sign for sign in map(chr, range(sys.maxunicode + 1)) if PLAIN.fullmatch(sign)]
    texts = pl.Series(signs)

    for ours, theirs in ((r"\w", r"\w"), (r"(?i)[a-z]", r"(?i)[a-z]"), (r"\d", r"\d")):
        found = [sign for sign in signs if re.search(ours, sign)]
        assert found == texts.filter(texts.str.contains(theirs)).to_list()
    assert [sign.lower() for sign in signs] == texts.str.to_lowercase().to_list()


@pytest.mark.parametrize("unit", ["x", "a.b-", "<a", "a=", 'a" ', "a\\'"])
def test_no_result_takes_the_square_of_its_length(unit: str) -> None:
    """A file of one long word, such as base64, took a third of a second a turn."""
    results = ["x " + (unit * CHARS_MAX)[: CHARS_MAX - number] for number in range(3, 8)]
    began_s = time.process_time()
    for name, result in itertools.product(("ls", "send"), results):
        row = {"kind": "tool", "name": name, "arguments": "to a", "result": result}
        assert _answer(row, Results())
    assert time.process_time() - began_s < 0.3
