"""When calls, outcomes and failures count as the same, and how signatures read."""

import json
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.fingerprint.equivalence import (
    NOTHING,
    PATTERN_CHARS_MAX,
    Sameness,
    TextMask,
    Tool,
    check_pattern,
)
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.testing.notation import turns_in
from tests.drivers import findings_of
from tests.fields import arguments_of
from tests.otlp import tool_call
from tests.turn_rows import turns_with

JEST = """\
FAIL src/auth.test.ts
  ● login timeout
    thrown: "Exceeded timeout"
  ● logout assertion
    expect(received).toBe(expected)

Test Suites: 1 failed, 1 total
Tests:       {failed} failed, 3 passed, {total} total
"""
PYTEST = (
    "FAILED tests/test_cart.py::test_tax - assert {n} == 42\n{failed} failed, 3 passed in 0.{n}s"
)


def same(column: str, *rows: dict[str, Any], sameness: Sameness = NOTHING) -> bool:
    """Say whether all calls are known to be the same by a column."""
    values = turns_with(*rows, sameness=sameness)[column]
    return values.null_count() == 0 and values.n_unique() == 1


def given(**arguments: object) -> dict[str, Any]:
    """Return a call with arguments and one result."""
    return {"arguments": arguments_of(arguments), "result": "ok"}


def gave(result: object) -> dict[str, Any]:
    """Return a call with a result, and always the same arguments."""
    text = result if isinstance(result, str) else json.dumps(result)
    return {"arguments": "{}", "result": text, "failed": False}


def raised(error: str, arguments: str = "{}", **fields: object) -> dict[str, Any]:
    """Return a failed call."""
    return {"arguments": arguments, "failed": True, "error": error, **fields}


@pytest.mark.requirement("C1")
def test_signatures_have_the_forms_that_are_asked_for() -> None:
    """Errors, test runs, changes and searches each read as C1 has them; a digest says the rest."""
    trace = "TypeError: null\n    at login (/srv/src/auth.ts:12:5)"
    found = turns_with(
        raised("null", error_type="TypeError", result=trace),
        raised(JEST.format(failed=2, total=5)),
        {"name": "edit_file", "result": "ok"}
        | {"arguments": '{"description":"null check","path":"src/auth.ts"}'},
        {"name": "web_search", "result": "1", "arguments": '{"query":"OAuth2 refresh token"}'},
        {"name": "weather", "result": "rain", "arguments": "Oslo,\n" + "and Bergen " * 9},
    )
    error, tests, change, search, other = found["signature"]

    assert error == "error:TypeError-null-auth.ts"
    assert tests == "test-fail:2-auth.test.ts:login-timeout,logout-assertion"
    assert change.split("#")[0] == "file:auth.ts:null-check"
    assert search.split("#")[0] == "search:OAuth2-refresh-token"
    assert other.split("#")[0] == "weather:Oslo, and Bergen and Bergen and Bergen and"
    assert all(len(sign.split("#")[1]) == 16 for sign in (change, search, other))


@pytest.mark.requirement("C1")
def test_attempts_and_handoffs_have_signatures() -> None:
    """Notes and authority are found again by what blocks, what was completed, what was asked."""
    turns = turns_in(
        'attempt(blocked, no key)->page attempt(pending)->"page 1" attempt(done) '
        'handoff(B, "Review it.")->ok $a switch(blocked, no key)'
    )
    blocked, pending, done, request, switch = turns["signature"]
    assert (blocked, pending, done) == ("blocked:no-key", "pending:page-1", "done")
    assert request.startswith("request:B:Review-it.#")
    assert switch == "a:blocked:no-key"


@pytest.mark.requirement("C4")
def test_what_a_signature_leaves_out_keeps_things_apart() -> None:
    """Two errors with the same words are not the same error."""
    assert same("signature", raised("no rate for 1"), raised("no rate for 1"))
    for other in ("no rate for -1", "no rate, for 1", "no-rate for 1"):
        assert not same("signature", raised("no rate for 1"), raised(other))
    words = "the rate of a country " * 5
    assert not same("signature", raised(words + "a"), raised(words + "b"))
    here, there = (f'  File "/src/{name}.py", line 3, in tax' for name in ("a", "b"))
    assert same("signature", raised("no", result=here), raised("no", result=here + "\n"))
    assert not same("signature", raised("no", result=here), raised("no", result=there))
    long = [here.replace("/a.py", f"/{'a' * 80}{name}.py") for name in ("a", "b")]
    assert not same("signature", *(raised("no", result=text) for text in long))
    temporary = here.replace("/src/a.py", "/var/folders/x7/a.py")
    assert turns_with(raised("no", result=temporary))["signature"].to_list() == ["error:Error-no"]


@pytest.mark.requirement("C1")
@pytest.mark.requirement("C4")
def test_fewer_failing_tests_are_another_signature() -> None:
    """The count and the names are compared, the time that a run took and what it shows are not."""
    runs = [raised(PYTEST.format(failed=count, n=40 + count)) for count in (3, 2, 1)]

    assert turns_with(*runs)["signature"].n_unique() == 3
    assert same("signature", *(gave(PYTEST.format(failed=2, n=n)) for n in (40, 41)))
    assert turns_with(gave("3 passed in 0.12s"))["signature"][0].startswith("run:")
    nameless = ["2 failed, 1 passed in 0.1s", "E 1\n2 failed, 1 passed in 0.1s"]
    assert not same("signature", *map(gave, nameless))


def test_recorded_figures_are_no_output() -> None:
    """Edits on whose spans an author recorded the state of the tests are edits."""
    edits = [given(path="a.py", text=n) | {"name": "edit", "tests_failed": 3} for n in range(3)]

    assert turns_with(*edits)["signature"].n_unique() == 3
    assert turns_with(*edits)["tests_failed"].to_list() == [3, 3, 3]


@pytest.mark.requirement("C4")
def test_falling_figures_and_other_changes_are_no_loop() -> None:
    """Three changes to one file, and 3, then 2, then 1 failing tests, are work."""
    edits = [
        {"name": "edit_file", "result": "ok", "arguments": json.dumps({"path": "a.py", "text": n})}
        for n in range(3)
    ]
    runs = [raised(JEST.format(failed=count, total=5)) for count in (3, 2, 1)]
    stuck = [raised(JEST.format(failed=2, total=5)) for _ in range(3)]

    assert findings_of(turns_with(*edits, *runs)) == []
    assert findings_of(turns_with(*stuck))


def test_arguments_are_compared_by_what_they_mean() -> None:
    """Neither the order of keys nor spacing nor the form of a number makes another call."""
    texts = ['{"n": 1, "to": [2.0]}', '{"to":[2],"n":1.0}', '{ "n":1e0,\n"to" : [ 20e-1 ] }']

    assert {arguments_of(text) for text in texts} == {'{"n":1,"to":[2]}'}
    assert len({arguments_of(text) for text in ('{"n":1}', '{"n":"1"}', '{"n":1.5}')}) == 3


@pytest.mark.parametrize(
    "key",
    [
        *("request_id", "requestId", "Idempotency-Key", "nonce", "timestamp", "correlation_id"),
        *("trace_id", "traceparent", "tool_call_id"),
    ],
)
def test_fresh_tokens_make_no_other_call(key: str) -> None:
    """Keys whose very purpose is to be new each time do not count, unless there is nothing else."""
    fresh = [given(order=7, **{key: token}) for token in ("a1", "b2", "c3")]

    assert same("call", *fresh)
    assert same("signature", *fresh)
    assert not same("call", *(given(**{key: token}) for token in ("a1", "b2")))
    assert not same("call", *(given(order=order, **{key: "a1"}) for order in (7, 8)))
    assert not same("call", *(given(deep={key: token}) for token in ("a1", "b2")))


def test_other_ids_are_other_work() -> None:
    """No argument is masked, whatever it looks like."""
    for one, two in (("8f3a9c2e1b77", "9b1c2d3e4f55"), ("1700000001", "1700000002")):
        assert not same("call", given(order=one), given(order=two))


def test_how_arguments_are_written_makes_no_other_call() -> None:
    """A key without a value is as good as none, and a whole number in quotes is that number."""
    plain = given(order=7, lines=[1, 2])

    empty: tuple[object, ...] = (None, "", [], {}, {"deep": None})
    for extra in empty:
        assert same("call", plain, given(order="7", lines=[1, "2"], note=extra))
        assert same("signature", plain, given(order="7", lines=[1, "2"], note=extra))
    # A code begins with a zero, a place in a list counts, and false and 0 are values.
    for one, two in ((7, "07"), ([1, None], [1]), (0, None), (False, None), (7, "7.0")):
        assert not same("call", given(order=one, a=1), given(order=two, a=1))
    # What is nothing but empty is compared as it stands.
    assert not same("call", given(query=""), given(query=None))


OPAQUE = [
    ("1f8b3c9d2e4a", "9a7c5e3b1d2f"),
    ("7c9E6679aB7440dEx1", "0aF4b81c2D3e4F5g6H"),
    ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "7d444840-9dc0-11d1-b245-5ffdce74fad2"),
    ("req_8f3a9c2e1b", "req_0d1e2f3a4b"),
    ("1700000001", "1700000032"),
    ("1700000001123", "1700000032456"),
    ("1700000001123456789", "1700000032456123789"),
    ("2026-01-01T10:00:00Z", "2026-01-01 10:00:07.5+01:00"),
    ("0x7f21aa10", "0x55d0bb20"),
    ("/var/folders/x1/out.txt", "/var/folders/y2/out.txt"),
]


@pytest.mark.parametrize(("one", "two"), OPAQUE)
def test_what_a_program_draws_anew_is_no_difference(one: str, two: str) -> None:
    """Opaque tokens and times in results and errors say nothing of the outcome."""
    assert same(
        "outcome", gave({"status": "pending", "at": one}), gave({"status": "pending", "at": two})
    )
    assert same("outcome", raised(f"no rate ({one})"), raised(f"no rate ({two})"))
    assert same("signature", raised(f"no rate ({one})"), raised(f"no rate ({two})"))


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(
    "results",
    [
        ["10%", "20%", "30%"],
        ["page=1", "page=2", "page=3"],
        ["3 failed", "2 failed", "1 failed"],
        ["120 rows left", "80 rows left", "40 rows left"],
        ["attempt 1: pending", "attempt 2: pending", "attempt 3: pending"],
        ["build 1041 deployed", "build 1042 deployed", "build 1043 deployed"],
        ["sha256Checksum", "utf8StringDecoder", "http2ConnectionPool"],
        ["deleted a", "deleted b", "deleted c"],
        ["4012345678", "5012345678", "6012345678"],
    ],
)
def test_figures_by_which_work_goes_on_are_differences(results: list[str]) -> None:
    """What changes while all else stays is what paging, polling and progress look like."""
    assert turns_with(*map(gave, results))["outcome"].n_unique() == 3


def test_attempts_are_counted_by_the_client() -> None:
    """The number of an attempt is no part of an error; the step at which it fails is."""
    for form in ("attempt {} of 5: no route", "no route (retry #{})", "no route after {} retries"):
        assert same("outcome", *(raised(form.format(n)) for n in (1, 2, 3)))
    for form in ("step {} failed", "row {} is broken", "{}% done, then it broke"):
        assert not same("outcome", *(raised(form.format(n)) for n in (1, 2)))


def test_an_id_that_the_call_names_is_a_difference() -> None:
    """Three unknown orders are three failures, even if their ids look like nothing."""
    ids = [one for one, _ in OPAQUE[:3]]
    asked = [raised(f"order {i} not found", json.dumps({"order": i})) for i in ids]
    drawn = [raised(f"order {i} not found", json.dumps({"order": 7})) for i in ids]

    assert (
        turns_with(*asked)["outcome"].n_unique() == turns_with(*asked)["signature"].n_unique() == 3
    )
    assert same("outcome", *drawn)
    assert same("signature", *drawn)


def test_a_team_declares_what_makes_a_call() -> None:
    """Volatile keys are dropped at any depth, or only named keys are kept, of one tool alone."""
    tools = {
        "run": Tool(volatile_keys=("seed", "meta.at")),
        "pay": Tool(same_call=("order.id", "timestamp")),
    }
    sameness = Sameness(tools)
    runs = [given(order=7, seed=n, meta={"at": n}) for n in range(3)]
    pays = [given(order={"id": 7, "at": n}, timestamp=1) | {"name": "pay"} for n in range(3)]

    for column in ("call", "signature"):
        assert same(column, *runs, sameness=sameness)
        assert same(column, *pays, sameness=sameness)
        assert not same(column, *runs)
        assert not same(column, *(run | {"name": "walk"} for run in runs), sameness=sameness)
    assert not same("call", *(given(order=n, seed=1) for n in range(2)), sameness=sameness)
    dated = [given(timestamp=n, to="x") | {"name": "pay"} for n in range(2)]
    assert not same("call", *dated, sameness=sameness)
    text = [{"arguments": f"seed {n}", "result": "ok"} for n in range(2)]
    assert not same("call", *text, sameness=sameness)


def test_polling_is_never_a_repeat() -> None:
    """Calls of a polling tool are unknown to every rule, but that they fail is known."""
    polls = Sameness({"run": Tool(polling=True)})
    waits = [gave("pending")] * 6

    assert findings_of(turns_with(*waits))
    assert findings_of(turns_with(*waits, sameness=polls)) == []
    failing = turns_with(*[raised("no such job")] * 6, sameness=polls)
    assert {finding.rule for finding in findings_of(failing)} == {
        "no_measurable_progress",
        "repeated_failure",
    }


def test_a_team_declares_masks() -> None:
    """Its masks come first, in their order, and their names are no patterns."""
    masks = (TextMask(r"build \d+", "<$1 build>"), TextMask(r"<\$1 build> of \w+", "<web>"))
    sameness = Sameness(masks=masks)
    builds = [f"build {n} of web failed" for n in (1041, 1042)]

    for column in ("outcome", "signature"):
        assert same(column, *map(raised, builds), sameness=sameness)
        assert not same(column, *map(raised, builds))
    assert same("outcome", *map(gave, builds), sameness=sameness)
    shown = turns_with(raised(builds[0]), sameness=sameness)["signature"][0]
    assert shown.startswith("error:Error-web-failed")
    assert not same("call", *(given(text=build) for build in builds), sameness=sameness)
    own = Sameness(masks=(TextMask("run_[a-z0-9]+", "<mine>"),))
    first = turns_with(raised("run_8f3a9c2e1b77 broke"), sameness=own)["signature"][0]
    assert first.startswith("error:Error-mine-broke")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?=a)", "look-around"),
        (r"(a)\1", "backreferences"),
        (r"(\w{100}){1000}", "size limit"),
        ("[", "unclosed character class"),
        (r"\d*", "matches an empty text"),
        ("", "1 to 500 characters, not 0"),
        ("a" * (PATTERN_CHARS_MAX + 1), "1 to 500 characters, not 501"),
    ],
)
def test_patterns_that_cannot_run_are_refused(pattern: str, reason: str) -> None:
    """The reason is one line, in words that a person can act on."""
    with pytest.raises(ValueError, match=reason) as refused:
        check_pattern(pattern)

    assert "\n" not in str(refused.value)
    check_pattern(r"build-\d+")


def test_reading_takes_what_is_declared() -> None:
    """What a team declares goes from the reading of spans to the fingerprints."""
    attributes = tool_call("run")
    blank: dict[str, Any] = dict.fromkeys(SPAN_SCHEMA) | {"events": "[]", "links": "[]"}
    blank |= {"trace_id": "t", "name": "run", "status": 0, "service": ""}
    rows = [
        blank
        | {"span_id": str(n), "start_ns": n, "end_ns": n}
        | {"attributes": json.dumps(attributes | {"gen_ai.tool.call.arguments": f'{{"seed":{n}}}'})}
        for n in range(2)
    ]
    spans = pl.DataFrame(rows, SPAN_SCHEMA)
    declared = Sameness({"run": Tool(volatile_keys=("seed",))})

    assert turns_of(spans)[0]["call"].n_unique() == 2
    assert turns_of(spans, declared)[0]["call"].n_unique() == 1
