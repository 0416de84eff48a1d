import json
from base64 import b64encode
from typing import Any

import pytest

from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json import decode_document
from looptrace.collector.otlp.span_rows import DecodedSpans
from tests.collector.conftest import TRACE_ID, Json, attributes, request, span
from tests.otlp import decoded_rows

AGAIN = span(9)
NO_TRACE_ID = "traceId must be 32 hex digits, not all of them 0"
NO_TIME = "its times must be nanoseconds since 1970, before 2262"
DEEP = 50_000  # Deeper than any interpreter's stack.


def decoded(document: Any) -> DecodedSpans:
    """Decode a document, JSON text or what becomes it, that stands in line 7 of `t.json`."""
    text = document if isinstance(document, str | bytes) else json.dumps(document)
    return decode_document("t.json", Frame(7, text if isinstance(text, bytes) else text.encode()))


def rows(document: Any) -> list[Json]:
    """Return the rows of a document without problems."""
    out = decoded(document)
    assert out.problems == []
    return [dict(zip(SPAN_SCHEMA, row, strict=True)) for row in decoded_rows(out)]


def row(**fields: Any) -> Json:
    """Return the row of one span."""
    (only,) = rows(request(span(**fields)))
    return only


def why_not(**fields: Any) -> str:
    """Return the problem of a span, which must cost only that span."""
    out = decoded(request(span(1), span(2, **fields), span(3)))
    assert [row[1] for row in decoded_rows(out)] == ["0000000000000001", "0000000000000003"]
    (problem,) = out.problems
    start = "resourceSpans[0].scopeSpans[0].spans[1] was left out: "
    assert problem.where == "t.json:7"
    assert problem.why.startswith(start)
    return problem.why.removeprefix(start).split(";")[0]


def test_span_becomes_a_row() -> None:
    """Every column has one source in the request."""
    whole = span(
        traceId=TRACE_ID.upper(),
        spanId="EEE19B7EC3C1B174",
        parentSpanId="EEE19B7EC3C1B173",
        name="execute_tool run_tests",
        kind=1,
        startTimeUnixNano="1544712660000000000",
        endTimeUnixNano=1544712661000000000,
        attributes=attributes(a={"stringValue": "x"}),
        events=[{"name": "e", "timeUnixNano": "5", "attributes": attributes(b={"intValue": "1"})}],
        links=[{"traceId": TRACE_ID.upper(), "spanId": "EEE19B7EC3C1B175", "traceState": ""}],
        status={"code": 2, "message": "boom"},
        flags=257,
        droppedAttributesCount=0,
    )

    assert rows(request(whole)) == [
        {
            "trace_id": TRACE_ID,
            "span_id": "eee19b7ec3c1b174",
            "parent_span_id": "eee19b7ec3c1b173",
            "name": "execute_tool run_tests",
            "start_ns": 1544712660000000000,
            "end_ns": 1544712661000000000,
            "status": 2,
            "status_message": "boom",
            "service": "shop",
            "scope": "tests",
            "attributes": '{"a":"x"}',
            "events": '[{"name":"e","time_ns":5,"attributes":{"b":1}}]',
            "links": f'[{{"trace_id":"{TRACE_ID}","span_id":"eee19b7ec3c1b175"}}]',
        }
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": ""}, '""'),
        ({"stringValue": "\u00e9\u2028\0\U0001f600"}, '"é\u2028\\u0000\U0001f600"'),
        ({"intValue": "-9223372036854775808"}, "-9223372036854775808"),
        ({"intValue": 7}, "7"),
        ({"doubleValue": 1}, "1.0"),
        ({"doubleValue": 0.25}, "0.25"),
        ({"doubleValue": "NaN"}, "null"),
        ({"doubleValue": "-Infinity"}, "null"),
        ({"boolValue": False}, "false"),
        ({"bytesValue": "AAEC"}, '"AAEC"'),
        ({"arrayValue": {"values": [{"intValue": "1"}, {}, {"stringValue": "x"}]}}, '[1,null,"x"]'),
        ({"arrayValue": {}}, "[]"),
        ({"kvlistValue": {"values": attributes(k={"arrayValue": {"values": []}})}}, '{"k":[]}'),
        ({"newKindOfValue": 1}, "null"),
        ({}, "null"),
        (None, "null"),
    ],
)
def test_values_become_plain_json(value: Json, expected: str) -> None:
    """The rules compare values as text, so one value must have one text, and valid JSON."""
    assert f'{{"k":{expected}}}' == row(attributes=attributes(k=value))["attributes"]


def test_last_of_two_equal_keys_wins() -> None:
    """Keys ought to be unique, but some instrumentations set an attribute twice."""
    twice = attributes(k={"intValue": 1}, other={}) + attributes(k={"intValue": 2})

    assert row(attributes=twice)["attributes"] == '{"k":2,"other":null}'


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (1000, 2000)),
        ({"endTimeUnixNano": None}, (1000, 1000)),
        ({"endTimeUnixNano": "0"}, (1000, 1000)),
        ({"endTimeUnixNano": "900"}, (1000, 1000)),
        ({"startTimeUnixNano": ""}, (2000, 2000)),
    ],
)
def test_times_are_whole_and_in_order(fields: Json, expected: tuple[int, int]) -> None:
    """Clocks step back, and spans are exported before they ended."""
    made = row(**fields)

    assert expected == (made["start_ns"], made["end_ns"])


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, 0),
        ({}, 0),
        ({"code": 1}, 1),
        ({"code": 2}, 2),
        ({"code": "STATUS_CODE_ERROR"}, 2),
        ({"code": "STATUS_CODE_OK"}, 1),
        ({"code": "UNHEARD_OF"}, 0),
        ({"code": 99999}, 0),
    ],
)
def test_status_codes(status: Json | None, expected: int) -> None:
    """Enums are numbers, but some exports write their names; unknown ones must not fail."""
    assert expected == row(status=status)["status"]


@pytest.mark.parametrize("parent", [None, "", "0000000000000000"])
def test_root_has_no_parent(parent: str | None) -> None:
    """Exporters have three ways to say it."""
    assert row(parentSpanId=parent)["parent_span_id"] is None


def test_missing_resource_and_scope_are_unknown() -> None:
    """Spans without a resource or scope count."""
    (made,) = rows({"resourceSpans": [{"scopeSpans": [{"spans": [AGAIN]}]}]})

    assert (made["service"], made["scope"]) == (None, None)


@pytest.mark.parametrize(
    "empty",
    [
        {},
        {"resourceSpans": None},
        {"resourceSpans": [{}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": None, "scope": None}], "resource": None}]},
        {"resourceLogs": [{"scopeLogs": []}]},
        {"resource_metrics": []},
        [],
    ],
)
def test_request_without_spans_is_no_error(empty: Any) -> None:
    """One file may hold all signals."""
    assert rows(empty) == []


def test_ids_may_be_base64() -> None:
    """So protobuf's own libraries write requests as JSON, and parents and links, too."""
    ids: dict[str, Any] = {
        "traceId": TRACE_ID,
        "spanId": "b7ad6b7169203331",
        "parentSpanId": "00f067aa0ba902b7",
    }
    of_hex = {"traceId": ids["traceId"], "spanId": ids["spanId"]}
    plain: dict[str, Any] = {
        name: b64encode(bytes.fromhex(text)).decode() for name, text in ids.items()
    }
    packed = span(**plain, links=[{name: plain[name] for name in of_hex}])
    assert rows(request(packed)) == rows(request(span(**ids, links=[of_hex])))


def test_names_before_version_0_15_are_read() -> None:
    """Scopes were called instrumentation libraries."""
    older = json.dumps(request(span())).replace("scopeSpans", "instrumentationLibrarySpans")
    older = older.replace('"scope"', '"instrumentationLibrary"')
    assert rows(json.loads(older)) == rows(request(span()))


def test_underscored_names_are_read() -> None:
    """Some exports write the fields as the .proto files name them."""
    value = '"say \\"trace_id\\": x, attribute_values: y"'
    text = f"""{{"resource_spans": [{{"resource": {{"attributes": []}}, "scope_spans": [{{"spans": [
        {{"trace_id": "{TRACE_ID}", "span_id": "0000000000000001", "name": "n",
          "start_time_unix_nano": 1, "end_time_unix_nano": "2",
          "attributes": [{{"key": "snake_key", "value": {{"string_value": {value}}}}}]}}]}}]}}]}}"""
    (made,) = rows(text)

    assert (made["span_id"], made["start_ns"], made["end_ns"]) == ("0000000000000001", 1, 2)
    assert json.loads(made["attributes"]) == {"snake_key": json.loads(value)}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        *(({"traceId": trace_id}, NO_TRACE_ID) for trace_id in (None, "0" * 32, TRACE_ID + "\n")),
        ({"traceId": "W47/95gDgQM="}, NO_TRACE_ID),
        ({"spanId": "abc"}, "spanId must be 16 hex digits, not all of them 0"),
        ({"spanId": 5}, "expected a string, found a number at spanId"),
        ({"endTimeUnixNano": str(1 << 63)}, NO_TIME),
        ({"startTimeUnixNano": -1}, NO_TIME),
        ({"startTimeUnixNano": "soon"}, "expected a whole number, found 'soon'"),
        (
            {"startTimeUnixNano": 1.5},
            "expected a whole number or a string, found a number at startTimeUnixNano",
        ),
        ({"attributes": {"a": 1}}, "expected an array, found an object at attributes"),
        (
            {"attributes": [{"key": "a"}, {"key": 5}]},
            "expected a string, found a number at attributes[1].key",
        ),
        (
            {"attributes": attributes(a={"intValue": "x" * 500})},
            f"expected a whole number, found '{'x' * 59}",
        ),
        ({"attributes": attributes(a={"doubleValue": "x"})}, "expected a number, found 'x'"),
        ({"attributes": attributes(a={"doubleValue": 10**400})}, None),
        ({"events": [None]}, "expected an object, found null at events[0]"),
    ],
)
def test_bad_span_costs_only_itself(fields: Json, expected: str | None) -> None:
    """One broken instrumentation must not hide what the others saw."""
    why = why_not(**fields)

    assert expected is None or why == expected


def test_span_that_is_none_costs_only_itself() -> None:
    """A span may even be no object at all."""
    out = decoded(request(span(1), None, "x", span(2)))

    assert len(decoded_rows(out)) == 2
    assert [problem.why for problem in out.problems] == [
        "resourceSpans[0].scopeSpans[0].spans[1] was left out: expected an object, found null; "
        "correct what wrote it",
        "resourceSpans[0].scopeSpans[0].spans[2] was left out: expected an object, found a string; "
        "correct what wrote it",
    ]


def test_invalid_utf8_costs_only_its_span() -> None:
    """Tools print what they like, and some exporters pass the bytes on."""
    text = json.dumps(request(span(1), span(2, name="XX"), span(3)))
    out = decoded(text.encode().replace(b"XX", b"\xff\xfe"))

    assert [row[1] for row in decoded_rows(out)] == ["0000000000000001", "0000000000000003"]
    assert "its text is not valid UTF-8" in out.problems[0].why


def test_bad_resource_costs_only_the_service() -> None:
    """The spans are whole without the name of their service."""
    document = request(span(1))
    document["resourceSpans"][0]["resource"] = 5
    document["resourceSpans"].append(request(span(2))["resourceSpans"][0])
    document["resourceSpans"].append("x")
    out = decoded(document)

    assert [row[8] for row in decoded_rows(out)] == [None, "shop"]
    assert [problem.why.split(";")[0] for problem in out.problems] == [
        "resourceSpans[0].resource was left out: expected an object, found a number",
        "resourceSpans[2] was left out: expected an object, found a string",
    ]


def test_deep_nesting_costs_only_the_deep_part() -> None:
    """A value nested without end exhausts the decoder, not the reader."""
    deep = '{"arrayValue":{"values":[' * DEEP + "]}}" * DEEP
    text = json.dumps(request(span(1), span(2, attributes=attributes(k={"d": "d"})), span(3)))
    out = decoded(text.replace('{"d": "d"}', deep))

    assert [f"{number:016x}" for number in (1, 2, 3)] == [row[1] for row in decoded_rows(out)]
    assert len(out.problems) == 1
    assert "nested too deep" in out.problems[0].why


def test_array_holds_requests() -> None:
    """An invalid request is named by its place in the array."""
    out = decoded([request(span(1)), {"a": 1}, 5, request(span(2))])

    assert len(decoded_rows(out)) == 2
    assert [problem.where for problem in out.problems] == ["t.json:7[1]", "t.json:7[2]"]
    assert all(problem.foreign for problem in out.problems)


OTHER_JSON = "JSON, but not OTLP: it has no resourceSpans but"
NEITHER = "neither OTLP/JSON nor OTLP/protobuf;"
CORRECT_IT = "; correct it or export it again"


@pytest.mark.parametrize(
    ("text", "foreign", "expected"),
    [
        ('{"session": 1, "step": 2}', True, f"{OTHER_JSON} session, step;"),
        (json.dumps({"x" * 500: 1}), True, f"{OTHER_JSON} {'x' * 60};"),
        ("5", True, NEITHER),
        ("trace_id,span_id", True, NEITHER),
        (b"{\x00\xff", True, NEITHER),
        ('{"a": 1,}', False, f"not valid JSON at byte 8: trailing comma in object{CORRECT_IT}"),
        ('{"a": ' + "[" * DEEP + "]" * DEEP + "}", False, "nested too deep"),
        ('{"resourceSpans": 5}', False, "expected an array, found a number at resourceSpans;"),
        ('{"resourceSpans": [', False, f"the JSON is cut off{CORRECT_IT}"),
    ],
)
def test_what_cannot_be_read_is_explained(
    text: str | bytes, expected: str, *, foreign: bool
) -> None:
    """A user who passes the wrong file sees which one; no word is of the decoder or of Python."""
    (problem,) = decoded(text).problems

    assert (problem.where, problem.foreign) == ("t.json:7", foreign)
    assert problem.why.startswith(expected)


@pytest.mark.parametrize("between", ["", "\n", " , "])
def test_requests_that_run_together_are_read(between: str) -> None:
    """A writer that died in the middle of a line left the next request behind its half."""
    first, second = json.dumps(request(span(1), span(2))), json.dumps(request(span(3)))
    out = decoded(first[:-40] + between + second + between + first)

    assert [int(row[1], 16) for row in decoded_rows(out)] == [1, 3, 1, 2]
    assert len(out.problems) == 1
    assert "complete spans read from it: 1" in out.problems[0].why


def test_text_before_a_request_is_reported() -> None:
    """Container logs put a time before each line."""
    out = decoded("2026-01-01T00:00:00Z stdout F " + json.dumps(request(span(1))))

    assert len(decoded_rows(out)) == 1
    assert [problem.why for problem in out.problems] == [
        "the text before the export request is not JSON; remove it"
    ]
