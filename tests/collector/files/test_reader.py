import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from looptrace.analyzer.engine.span_spool import SpanSpool
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, Skipped
from looptrace.collector.files import reader, sources
from looptrace.collector.files.reader import SpansRead, read_spans, spool_spans
from looptrace.collector.otlp import protobuf
from tests.collector.conftest import TRACE_ID, Write, line, pack_zstd, prefixed, request, span
from tests.paths import SHARED

REAL = {
    "frameworks/*.jsonl": 896,
    "labelled/intercode.otlp.jsonl.gz": 7893,
    "labelled/magentic_one.otlp.jsonl.gz": 980,
    "labelled/study_autocoderover.otlp.jsonl.gz": 103,
    "labelled/study_openhands.otlp.jsonl.gz": 792,
    "labelled/study_repairagent.otlp.jsonl.gz": 943,
}
LONG_LINE_BYTES = 50_000_000
CUT_STEP = 7  # Every byte takes half a minute, and finds no more.

REQUEST = request(span(1), span(2), span(3))
LINE = line(span(1), span(2), span(3))
PRETTY = json.dumps(REQUEST, indent=2).encode()
NOISE = Random(3).randbytes(40_000)
ALL = [1, 2, 3]


def proto(*numbers: int) -> bytes:
    """Return the spans of these numbers as a protobuf message."""
    data = TracesData()
    resource_spans = data.resource_spans.add()
    resource_spans.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "tests"
    for number in numbers:
        scope_spans.spans.add(
            trace_id=bytes.fromhex(TRACE_ID),
            span_id=number.to_bytes(8, "big"),
            name=f"call {number}",
            start_time_unix_nano=1000,
            end_time_unix_nano=2000,
        )
    return bytes(data.SerializeToString())


def numbers(found: SpansRead) -> list[int]:
    """Return the numbers of the spans that were read."""
    assert found.spans.schema == SPAN_SCHEMA
    return [int(span_id, 16) for span_id in found.spans["span_id"]]


FORMS = {
    "line": LINE,
    "lines": line(span(1)) + line(span(2)) + line(span(3)),
    "pretty": PRETTY,
    "pretty objects": json.dumps(request(span(1)), indent=4).encode()
    + b"\n"
    + json.dumps(request(span(2), span(3)), indent=1).encode(),
    "array": json.dumps([request(span(1)), request(span(2), span(3))], indent=2).encode(),
    "array of lines": b"[\n" + line(span(1)) + b",\n" + line(span(2), span(3)) + b"]\n",
    "mixed signals": b'{"resourceLogs":[{"scopeLogs":[]}]}\n' + LINE + b'{"resourceMetrics":[]}\n',
    "protobuf": proto(1, 2, 3),
    "prefixed protobuf": prefixed(proto(1), proto(2, 3)),
    "prefixed zstd protobuf": prefixed(pack_zstd(proto(1)), pack_zstd(proto(2, 3))),
    "prefixed gzip JSON": prefixed(
        gzip.compress(line(span(1), span(2))), gzip.compress(line(span(3)))
    ),
    "prefixed zstd JSON": prefixed(pack_zstd(line(span(1))), pack_zstd(line(span(2), span(3)))),
}
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "zstd": pack_zstd,
    "gzip members": lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:]),
    "zstd frames": lambda data: pack_zstd(data[:50]) + pack_zstd(data[50:]),
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_spans(write: Write, form: str, packing: str) -> None:
    """Names can be wrong, so the content decides the form; a loop is a loop in every form."""
    found = read_spans([write("traces.txt", PACKINGS[packing](FORMS[form]))])

    assert found.skipped == ()
    assert found.spans.equals(read_spans([write("line", LINE)]).spans)
    assert numbers(found) == ALL


BAD = {
    "empty": (b"", "", "the file is empty"),
    "blank": (b"\n \n\n\n", "", "the file is empty"),
    "empty gzip": (gzip.compress(b""), "", "the file is empty"),
    "noise": (NOISE, ":1", "neither OTLP/JSON nor OTLP/protobuf"),
    "noise like protobuf": (b"\n\x05\n\x03" + NOISE, "", "protobuf"),
    "noise like a prefix": (b"\0\1\0\0\n\x05\x1a\x03" + NOISE, " message 1", "cut off"),
    "zeros": (bytes(9999), ":1", "neither OTLP/JSON nor OTLP/protobuf"),
    "CSV": (b"trace_id,span_id\n" * 999, ":1", "(998 more like it)"),
    "log": (b'{"level": "info"}\n' * 999, ":1", "no resourceSpans but level"),
    "numbers": (b"1\n2\n[3]\n", ":1", "neither OTLP/JSON nor OTLP/protobuf"),
    "gzip noise": (b"\x1f\x8b\x08" + NOISE, "", "gzip data is"),
    "zstd noise": (b"\x28\xb5\x2f\xfd" + NOISE, "", "zstd data is"),
    "gzip head": (gzip.compress(LINE)[:5], "", "gzip data is cut off"),
    "bad JSON": (b'{"resourceSpans": ]\n', ":1", "not valid JSON at byte 18"),
    "Aider": (b"\n# aider chat started at 2026-04-07\n\n> it\n", "", "Aider's files are prose"),
    "deep": (b'{"a":' * 99_999, ":1", "cut off"),
    "deep and whole": (b"[" * 99_999 + b"]" * 99_999, ":1", "nested too deep"),
}


@pytest.mark.parametrize("name", BAD)
def test_unreadable_file_is_one_line(write: Write, name: str) -> None:
    """The files beside it are read, and the user sees one line, not a thousand."""
    data, place, why = BAD[name]
    paths = [write("a.json", line(span(1))), write("bad", data), write("c.json", line(span(2)))]
    found = read_spans(paths)

    assert numbers(found) == [1, 2]
    assert [part.where for part in found.skipped] == ["bad" + place]
    assert why in found.skipped[0].why


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [', "cut off"),
        (LINE[:-9] + b"\n", "cut off"),
        (b'{"resourceSpans": ["a": 1]}\n', "not valid JSON at byte"),
        (b'{"resourceSpans": 5}\n', "expected an array, found a number at resourceSpans"),
        (b"\xff\xfe\xfd\n", "neither OTLP/JSON"),
        (b'{"spans": []}\n', "no resourceSpans but spans"),
        (line(span(2, name=5)), "spans[0] was left out: expected a string, found a number at name"),
        (line(span(2)).replace(b"call", b"\xff\xff"), "not valid UTF-8"),
        (b'{"resourceSpans":' + b"[" * 99_999 + b"\n", "cut off"),
    ],
)
def test_broken_line_costs_only_itself(write: Write, broken: bytes, why: str) -> None:
    """The lines before and after it are whole, and it is named by its number."""
    data = line(span(11)) + broken.rstrip(b"\n") + b"\n" + line(span(12))
    found = read_spans([write("t/a.jsonl", data)])

    assert [number for number in numbers(found) if number > 10] == [11, 12]
    assert [part.where for part in found.skipped] == ["t/a.jsonl:2"]
    assert why in found.skipped[0].why


@pytest.mark.parametrize("first", [LINE.strip(), PRETTY], ids=["line", "pretty"])
@pytest.mark.parametrize("indent", [None, 2])
def test_cut_off_request_is_read_up_to_the_cut(
    write: Write, first: bytes, indent: int | None
) -> None:
    """A killed writer leaves half a request; its whole spans count, and so does what follows."""
    after = b"\n" + json.dumps(request(span(11)), indent=indent).encode()
    alone = []
    for stop in range(20, len(first) - 1, CUT_STEP):
        cut = read_spans([write("a.json", first[:stop])])
        followed = read_spans([write("a.json", first[:stop] + after)])
        assert [len(cut.skipped), len(followed.skipped)] == [1, 1]
        assert numbers(followed) == [*numbers(cut), 11]
        assert "cut off" in cut.skipped[0].why
        alone.append(len(numbers(cut)))

    assert alone == sorted(alone)
    assert set(alone) == {0, 1, 2, 3}


packed_both_ways = pytest.mark.parametrize("pack", [gzip.compress, pack_zstd], ids=["gzip", "zstd"])


@packed_both_ways
def test_cut_off_packing_is_one_line(write: Write, pack: Callable[[bytes], bytes]) -> None:
    """The packing and the last line are cut off together: one fault, and the prefix is read."""
    random = Random(5)
    data = b"".join(line(span(n, name=random.randbytes(400).hex())) for n in range(1, 2000))
    packed = pack(data)
    found = read_spans([write("a.jsonl", packed[: len(packed) // 2])])

    assert len(found.skipped) == 1
    assert "data is cut off" in found.skipped[0].why
    assert 500 < len(numbers(found)) < 1500
    assert found.skipped[0].where == f"a.jsonl:{len(numbers(found)) + 1}"


@packed_both_ways
def test_decompression_bomb_is_one_line(
    write: Write, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    """Data before the bomb is read, and so are other files."""
    monkeypatch.setattr(sources, "TRUSTED_BYTES", 1 << 20)
    bomb = pack(line(span(1)) + b"{" * (64 << 20))
    found = read_spans([write("bomb", bomb), write("b.json", line(span(2)))])

    assert numbers(found) == [1, 2]
    assert [part.where for part in found.skipped] == ["bomb:2"]
    assert "decompression bomb" in found.skipped[0].why


def test_cut_off_message_is_one_line(write: Write) -> None:
    """Protobuf too is read up to the cut."""
    whole = read_spans([write("a.pb", proto(1, 2, 3)[:-9])])
    several = read_spans([write("b.pb", prefixed(proto(1), proto(2, 3))[:-9])])
    packed = read_spans([write("c.pb", prefixed(pack_zstd(proto(1)), pack_zstd(proto(2)))[:-9])])

    assert numbers(whole) == numbers(several) == [1, 2]
    assert numbers(packed) == [1]
    assert [part.where for part in whole.skipped] == ["a.pb"]
    assert [part.where for part in several.skipped] == ["b.pb message 2"]
    assert [part.where for part in packed.skipped] == ["c.pb message 2"]


def test_bad_paths_are_reported_beside_good_ones(write: Write) -> None:
    """One wrong argument does not make the others wrong."""
    Path("empty").mkdir()
    found = read_spans(["gone.json", "gone/*.json", "empty", write("a.json", LINE)])

    assert numbers(found) == ALL
    assert [part.where for part in found.skipped] == ["gone.json", "gone/*.json", "empty"]


def test_nothing_named_gives_an_empty_table() -> None:
    """The table has its columns even then."""
    assert numbers(read_spans([])) == []


@pytest.mark.parametrize("text", [LINE + b"x\n", gzip.compress(LINE + b"x\n"), b""])
def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    """Its lines are named like those of files; `cat traces.gz | looptrace analyze -` is enough."""
    stdin = io.TextIOWrapper(io.BytesIO(text))
    monkeypatch.setattr(sys, "stdin", stdin)
    found = read_spans(["-"])

    assert numbers(found) == (ALL if text else [])
    assert [part.where for part in found.skipped] == ["<stdin>:2" if text else "<stdin>"]
    assert not stdin.closed


def test_spans_are_distinct_and_keep_their_order(write: Write) -> None:
    """Exporters send again what was not acknowledged, and children before their parents."""
    write("t/a.jsonl", line(span(3, parentSpanId=f"{1:016x}"), span(2)))
    write("t/b.jsonl", line(span(2), span(1)))
    write("t/c.jsonl", line(span(2, name="other", endTimeUnixNano="9000")))

    assert numbers(read_spans(["t/a.jsonl", "t/b.jsonl"])) == [3, 2, 1]
    clash = read_spans(["t"])
    assert sorted(numbers(clash)) == ALL
    assert [part.where for part in clash.skipped] == [f"span {2:016x} of trace {TRACE_ID}"]


def test_rows_are_flushed_to_columns(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long input is not held as Python objects, and nothing is lost between the parts."""
    monkeypatch.setattr(reader, "ROWS_HELD_MAX", 2)
    found = read_spans([write("a", line(*map(span, range(1, 6)))), write("b", line(span(6)))])

    assert numbers(found) == [1, 2, 3, 4, 5, 6]


def test_progress_reaches_the_end(write: Write) -> None:
    """Bytes are those on disk, packed or not, and never more than there are."""
    paths = [write("a.gz", gzip.compress(LINE)), write("bad", NOISE), write("c.json", PRETTY)]
    told: list[tuple[int, int]] = []
    read_spans(paths, lambda done, of: told.append((done, of)))
    size = sum(Path(path).stat().st_size for path in paths)

    assert told == sorted(told)
    assert {of for _, of in told} == {size}
    assert told[-1] == (size, size)


def test_progress_passes_what_cannot_be_read(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar that never fills looks like a program that hangs."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    told: list[tuple[int, int]] = []
    path = write("a.json", LINE)
    monkeypatch.setattr(Path, "open", refuse)
    found = read_spans([path], lambda done, of: told.append((done, of)))

    assert told == [(len(LINE), len(LINE))]
    assert found.skipped == (
        Skipped("a.json", "permission denied; make it readable for this user"),
    )


@pytest.mark.parametrize("is_valid", [True, False])
def test_long_line_is_read_or_reported(write: Write, is_valid: bool) -> None:
    """A line of 50 million bytes takes no more than a moment, and is never echoed."""
    long = b'x\\"' * (LONG_LINE_BYTES // 3)
    text = line(span(1, name="LONG"), span(2)).replace(b"LONG", long)
    found = read_spans([write("a.jsonl", text if is_valid else b"{" + long)])

    assert numbers(found) == ([1, 2] if is_valid else [])
    assert [part.where for part in found.skipped] == ([] if is_valid else ["a.jsonl:1"])
    assert all(len(part.why) < 200 for part in found.skipped)


MUTABLE = [*FORMS.values(), *(pack(LINE) for pack in PACKINGS.values())]


@given(
    base=st.sampled_from(MUTABLE),
    edits=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3), st.binary(max_size=9))),
)
def test_no_bytes_raise(base: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    """Whatever disks, networks and exporters do to a file, the user gets lines, no traceback."""
    data = base
    for at, removed, inserted in edits:
        data = data[:at] + inserted + data[at + removed :]
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.json")
        path.write_bytes(data)
        found = read_spans([str(path)])

    assert found.spans.schema == SPAN_SCHEMA
    assert found.spans.height or found.skipped or data != base
    for part in found.skipped:
        assert "\n" not in part.where + part.why
        assert len(part.why) < 400


@given(at=st.integers(0, len(LINE) - 2), byte=st.integers(0, 255))
def test_one_wrong_byte_costs_one_line(at: int, byte: int) -> None:
    """The lines beside it are read, whatever became of it."""
    wrong = bytearray(LINE[:-1])
    wrong[at] = byte
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.jsonl")
        path.write_bytes(line(span(11)) + wrong + b"\n" + line(span(12)))
        found = read_spans([str(path)])

    assert {11, 12} <= set(numbers(found))


@pytest.mark.parametrize(("pattern", "spans"), REAL.items())
def test_real_traces_are_read_whole(pattern: str, spans: int) -> None:
    """Real exporters wrote them; nothing of theirs may be skipped."""
    if not SHARED.is_dir():
        pytest.skip("../shared is not here")
    found = read_spans([str(SHARED / pattern)])

    assert found.skipped == ()
    assert found.spans.height == spans
    for column, kind in [("attributes", dict), ("events", list), ("links", list)]:
        assert {type(json.loads(text)) for text in found.spans[column]} == {kind}


def cut_by_an_sdk() -> bytes:
    """Return three spans of an SDK with a limit of four attributes."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=4))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    for count in (3, 6, 10):
        attributes = {f"key.{number}": number for number in range(count)}
        provider.get_tracer("agent").start_span("chat", attributes=attributes).end()
    data: bytes = encode_spans(memory.get_finished_spans()).SerializeToString()
    return data


AS_JSON = line(span(1), span(2) | {"droppedAttributesCount": 2})
AS_JSON += line(span(3) | {"droppedAttributesCount": "6"})


@pytest.mark.parametrize("data", [cut_by_an_sdk(), AS_JSON], ids=["protobuf", "json"])
def test_spans_that_an_sdk_has_cut_are_counted(data: bytes, tmp_path: Path) -> None:
    """A span of 130 messages lost its session, and one loop was four tasks without a word."""
    path = tmp_path / "0.spans"
    path.write_bytes(data)

    found = read_spans([str(path)])

    assert (found.cut, found.skipped, found.spans.height) == ((2, 6), (), 3)
    paths = [tmp_path / f"{number}.spans" for number in range(3)]
    for each in paths:
        each.write_bytes(data)
    with SpanSpool() as spool:
        notes = spool_spans(list(map(str, paths)), spool)
        assert notes.cut == (2, 6) * 3


def test_a_bad_span_of_a_large_message_costs_itself_alone(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message is read in pieces, and what is wrong is named by its place in the whole."""
    good, bad = proto(1, 2), proto(0)
    monkeypatch.setattr(protobuf, "PIECE_BYTES", len(good))

    found = read_spans([write("a.pb", good + bad + proto(3) + good)])

    assert numbers(found) == [1, 2, 3]
    (skipped,) = found.skipped
    assert "resourceSpans[1].scopeSpans[0].spans[0] was left out" in skipped.why
    cut = read_spans([write("b.pb", (good + proto(3, 4))[:-9])])
    assert numbers(cut) == [1, 2, 3]
