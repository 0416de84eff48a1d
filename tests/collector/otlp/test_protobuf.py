from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, Status, StatusCode

from looptrace._core import begins_protobuf
from looptrace.collector.otlp import protobuf
from looptrace.collector.otlp.frames import DamagedError, Frame
from looptrace.collector.otlp.json import decode_document
from looptrace.collector.otlp.protobuf import (
    begins_prefixed,
    decode_message,
    prefixed_messages,
    whole_message,
)
from tests.collector.conftest import pack_zstd, prefixed
from tests.otlp import as_json, decoded_rows

SPANS = 3
DEEP = 200


def exported() -> ExportTraceServiceRequest:
    """Return the request that the official exporter makes of a few spans of the official SDK."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("tests", "1.0")
    with tracer.start_as_current_span("invoke_agent") as agent:
        agent.add_event("note", {"n": 1, "ok": True})
        with tracer.start_as_current_span("chat", attributes={"temperature": 0.5, "tries": 3}):
            pass
        link = Link(agent.get_span_context())
        with tracer.start_as_current_span("execute_tool", links=[link]) as tool:
            tool.set_attribute("stack", ["a", "b"])
            tool.set_attribute("emoji", "\U0001f600")
            tool.set_status(Status(StatusCode.ERROR, "boom"))
    return encode_spans(memory.get_finished_spans())


def names(request: bytes) -> list[str]:
    """Return the names of the spans of a message in which nothing is wrong."""
    out = decode_message("t.pb", Frame(0, request))
    assert out.problems == []
    return [row[3] for row in decoded_rows(out)]


def test_both_encodings_give_the_same_rows() -> None:
    """What a loop is must not depend on how its spans were sent."""
    request = exported()
    proto = decode_message("t.pb", Frame(0, request.SerializeToString()))
    text = decode_document("t.json", Frame(1, as_json(request)))

    assert decoded_rows(proto) == decoded_rows(text)
    assert len(decoded_rows(proto)) == SPANS


def test_every_kind_of_value_is_equal_in_both() -> None:
    """Bytes and empty values are rare, and easily read differently."""
    request = exported()
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for key in "abcdefgh":
        span.attributes.add(key=key)
    span.attributes[-1].value.bytes_value = b"\0\xff"
    span.attributes[-2].value.int_value = -(1 << 63)
    span.attributes[-3].value.kvlist_value.values.add(key="k").value.bool_value = True
    span.attributes[-4].value.array_value.values.add().array_value.values.add()
    span.attributes[-5].value.double_value = float("nan")
    span.attributes[-6].value.double_value = 1e300
    span.attributes[-7].value.string_value = ""
    span.end_time_unix_nano = 0
    proto = decode_message("t.pb", Frame(0, request.SerializeToString()))

    text = decode_document("t.json", Frame(1, as_json(request)))

    assert decoded_rows(proto) == decoded_rows(text)
    assert '"h":"AP8="' in decoded_rows(proto)[0][10]


def test_cut_off_message_is_read_up_to_the_cut() -> None:
    """A file that is still being written ends anywhere."""
    data = exported().SerializeToString()
    whole = decoded_rows(decode_message("t.pb", Frame(0, data)))
    counts = []
    for stop in range(1, len(data)):
        out = decode_message("t.pb", Frame(0, data[:stop]))
        rows = decoded_rows(out)
        assert whole[: len(rows)] == rows
        assert [problem.why for problem in out.problems] == [
            "the request: the protobuf message is cut off; export it again"
        ]
        counts.append(len(rows))

    assert counts == sorted(counts)
    assert set(counts) == set(range(SPANS))


def test_bad_spans_cost_only_themselves() -> None:
    """One broken instrumentation must not hide what the others saw."""
    request = exported()
    spans = request.resource_spans[0].scope_spans[0].spans
    spans.add(name="no ids")
    deep = spans.add(trace_id=spans[0].trace_id, span_id=b"12345678").attributes.add().value
    for _ in range(DEEP):
        deep = deep.array_value.values.add()
    garbled = spans.add(trace_id=spans[0].trace_id, span_id=b"12345678", name="GARBLED")
    data = request.SerializeToString().replace(b"GARBLED", b"GARB\xff\xfe!")
    out = decode_message("t.pb", Frame(3, data))

    assert garbled.name == "GARBLED"
    assert [row[3] for row in decoded_rows(out)] == ["chat", "execute_tool", "invoke_agent"]
    assert {problem.where for problem in out.problems} == {"t.pb message 3"}
    assert [problem.why.split(":")[0] for problem in out.problems] == [
        f"resourceSpans[0].scopeSpans[0].spans[{index}] was left out" for index in (3, 4, 5)
    ]
    assert "traceId must be 32 hex digits" in out.problems[0].why


def test_unknown_fields_are_ignored() -> None:
    """The protocol grows; every type of the wire format is passed over."""
    data = exported().SerializeToString()
    unknown = bytes([0x78, 0x96, 0x01, 0x79, *range(8), 0x7D, *range(4), 0x7A, 2, 0, 0])

    assert names(unknown + data + unknown) == names(data)


def test_other_signals_are_one_line() -> None:
    """Logs look like spans from outside; a file of them must not give a line for each record."""
    logs = LogsData()
    records = logs.resource_logs.add().scope_logs.add().log_records
    for second in range(SPANS):
        records.add(time_unix_nano=second + 1, severity_text="INFO").body.string_value = "hello"
    (problem,) = decode_message("t.pb", Frame(2, logs.SerializeToString())).problems

    assert problem.where == "t.pb message 2"
    assert problem.why.startswith("no spans, perhaps logs or metrics: resourceSpans[0]")
    assert problem.foreign


@pytest.mark.parametrize("garbage", [b"\x0f", b"\x0b", b"\x78" + b"\xff" * 11])
def test_garbage_after_a_request_is_reported(garbage: bytes) -> None:
    """The spans read before are kept."""
    out = decode_message("t.pb", Frame(0, exported().SerializeToString() + garbage))

    assert len(decoded_rows(out)) == SPANS
    assert len(out.problems) == 1
    assert "not protobuf at byte" in out.problems[0].why


@pytest.mark.parametrize("chunk_bytes", [1, 5, 1 << 20])
def test_prefixed_messages_are_cut_apart(chunk_bytes: int) -> None:
    """The collector's file exporter writes the length before each message."""
    data = prefixed(b"first", b"", b"second")
    chunks = (data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes))

    assert list(prefixed_messages(chunks)) == [
        Frame(1, b"first"),
        Frame(2, b""),
        Frame(3, b"second"),
    ]


@pytest.mark.parametrize(("stop", "rest"), [(13, b"sec"), (7, b""), (6, None)])
def test_cut_off_prefixed_message_is_marked(stop: int, rest: bytes | None) -> None:
    """The last message of a file that is still being written is not whole."""
    found = list(prefixed_messages([prefixed(b"ab", b"second")[:stop]]))

    assert found[0] == Frame(1, b"ab")
    if rest is None:
        assert len(found) == 1
    else:
        assert found[1] == Frame(2, rest, "the protobuf message is cut off; export it again")


def broken() -> Iterator[bytes]:
    """Return a stream that breaks off."""
    yield prefixed(b"ab", b"second")[:-1]
    raise DamagedError("broken")


def test_damage_is_told_once() -> None:
    """The packing broke, and with it the message: that is one fault."""
    assert list(prefixed_messages(broken())) == [Frame(1, b"ab"), Frame(2, b"secon", "broken")]
    assert whole_message(broken()).problem == "broken"


def test_long_messages_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory has a bound."""
    monkeypatch.setattr(protobuf, "FRAME_BYTES_MAX", 10)
    *_, last = prefixed_messages([prefixed(b"ab"), (11).to_bytes(4, "big") + b"x" * 11])

    assert whole_message([b"x" * 6] * 2) == Frame(0, b"", last.problem)
    assert last.problem is not None
    assert "this message is longer than" in last.problem


def test_forms_are_told_apart() -> None:
    """Nothing but the first bytes says what a file is."""
    data = exported().SerializeToString()
    text = as_json(exported())

    assert begins_protobuf(data)
    assert not begins_prefixed(data)
    for message in (data, text, pack_zstd(data)):
        assert begins_prefixed(prefixed(message))
        assert not begins_protobuf(prefixed(message))
    for other in (
        b"",
        b"\n",
        b"\n\n{",
        b"plain text",
        b"\n" + text,
        text,
        bytes(64),
        b"\0\0\0\5abcde",
    ):
        assert not begins_protobuf(other)
        assert not begins_prefixed(other)
