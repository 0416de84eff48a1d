import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrace._core import with_whole_escapes
from looptrace.collector.otlp import json_documents
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json_documents import documents
from tests.collector.conftest import Json, request, span

A, B = request(span(1)), request(span(2), span(3))
LINE_A, LINE_B = json.dumps(A), json.dumps(B)
PRETTY_A, PRETTY_B = json.dumps(A, indent=2), json.dumps(B, indent=1)
SECOND = 1 + len(PRETTY_A.split("\n"))
THIRD = SECOND + len(PRETTY_B.split("\n"))


def framed(text: str, chunk_bytes: int = 1 << 20) -> list[Frame]:
    """Cut text that arrives in chunks of a size."""
    data = text.encode()
    return list(documents(data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{LINE_A}\n{LINE_B}\n", [(1, A), (2, B)]),
        (f"{LINE_A}\n\n \r\n{LINE_B}", [(1, A), (4, B)]),
        (f"{LINE_A}\r\n{LINE_B}\r\n", [(1, A), (2, B)]),
        (f"\ufeff{LINE_A}", [(1, A)]),
        (f"  {PRETTY_A}", [(1, A)]),
        (PRETTY_A, [(1, A)]),
        (f"{PRETTY_A}\n{PRETTY_B}\n{LINE_A}\n", [(1, A), (SECOND, B), (THIRD, A)]),
        (json.dumps(A, indent="\t"), [(1, A)]),
        (json.dumps(A, indent=0), [(1, A)]),
        (json.dumps([A, B]), [(1, [A, B])]),
        (json.dumps([A, B], indent=2), [(1, [A, B])]),
        (json.dumps([A, B], indent=0), [(1, [A, B])]),
        (f"[\n{LINE_A},\n{LINE_B}\n]\n", [(1, [A, B])]),
        (f"[{LINE_A},\n{LINE_B}]\n", [(1, [A, B])]),
        (
            '{"resourceSpans": [\n{"a": 1},\n{"a": 2}\n]}',
            [(1, {"resourceSpans": [{"a": 1}, {"a": 2}]})],
        ),
        (
            '{"a": "}\\"]",\n "b": {\n  "c": "{"}}\n{}\n',
            [(1, {"a": '}"]', "b": {"c": "{"}}), (4, {})],
        ),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 20])
def test_valid_text_is_cut_into_its_documents(
    text: str, expected: list[tuple[int, Json]], chunk_bytes: int
) -> None:
    """Every way to lay out valid JSON is read, wherever the chunks happen to end."""
    found = framed(text, chunk_bytes)

    assert expected == [(frame.number, json.loads(frame.data)) for frame in found]
    assert {frame.problem for frame in found} == {None}


Value = st.recursive(
    st.none() | st.integers(-9, 9) | st.text('{}[]",\\\n a', max_size=5),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.text("ab{", max_size=2), children, max_size=3)
    ),
    max_leaves=8,
)


@given(
    values=st.lists(
        st.tuples(
            st.dictionaries(st.text("ab}", max_size=2), Value, min_size=1, max_size=3),
            st.sampled_from([None, 1, 2, "\t"]),
        ),
        max_size=4,
    ),
    chunk_bytes=st.integers(1, 40),
)
def test_any_objects_are_cut_apart(
    values: list[tuple[Json, int | str | None]], chunk_bytes: int
) -> None:
    """Brackets and quotes inside of strings must not count."""
    text = "\n".join(json.dumps(value, indent=indent) for value, indent in values)

    assert [value for value, _ in values] == [
        json.loads(frame.data) for frame in framed(text, chunk_bytes)
    ]


@pytest.mark.parametrize("text", [LINE_B, PRETTY_B])
def test_long_document_is_not_held(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Memory has a bound; the data beside the document is still read."""
    monkeypatch.setattr(json_documents, "FRAME_BYTES_MAX", len(LINE_A))
    found = framed(f"{LINE_A}\n{text}\n{LINE_A}\n", 16)

    assert [LINE_A.encode(), b"", LINE_A.encode()] == [frame.data for frame in found]
    assert found[1].problem is not None
    assert "export in smaller requests" in found[1].problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb"\ud83d\ude00", rb"\ud83d\ude00"),
        (rb"a\ud83d", rb"a\ufffd"),
        (rb"\ude00\ud83d\ude00\uD83Dx", rb"\ufffd\ud83d\ude00\ufffdx"),
        (rb"\\ud83d", rb"\\ud83d"),
        (rb"\\\ud83d", rb"\\\ufffd"),
        (rb"\u0041\n", rb"\u0041\n"),
    ],
)
def test_half_surrogates_are_replaced(text: bytes, expected: bytes) -> None:
    """An emoji that a JavaScript exporter cut in two must not cost its request."""
    assert expected == with_whole_escapes(text)
