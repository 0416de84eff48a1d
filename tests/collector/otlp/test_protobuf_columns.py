"""Reading by columns gives what reading span by span gives, or leaves the request to that."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, TracesData

from looptrace.analyzer.normalize.span_ties import with_ties
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.attribute_lists import ATTRIBUTES, attributes_of, with_json
from looptrace.analyzer.schema.spans import SPAN_LISTS_SCHEMA, SPAN_SCHEMA
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.protobuf import decode_message
from looptrace.collector.otlp.protobuf_columns import span_columns
from looptrace.collector.otlp.span_table import span_table
from tests.collector.otlp.test_protobuf import exported

MUTATIONS = 400

keys = st.sampled_from(["session.id", "gen_ai.operation.name", "looptrace.task.id", "k", ""])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
scalars = st.one_of(
    st.builds(AnyValue),
    st.builds(AnyValue, string_value=texts),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=st.integers(-(1 << 63), (1 << 63) - 1)),
    st.builds(AnyValue, double_value=st.floats()),
    st.builds(AnyValue, bytes_value=st.binary(max_size=5)),
)


def _holding(values: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
    lists = st.lists(values, max_size=2)
    pairs = st.lists(st.builds(KeyValue, key=keys, value=values), max_size=2)
    return st.builds(AnyValue, array_value=st.builds(dict, values=lists)) | st.builds(
        AnyValue, kvlist_value=st.builds(dict, values=pairs)
    )


attributes = st.lists(
    st.builds(KeyValue, key=keys, value=st.recursive(scalars, _holding, max_leaves=3)), max_size=4
)
times = st.sampled_from([0, 1, 1_700_000_000_000_000_000, (1 << 63) - 1])
spans = st.builds(
    Span,
    trace_id=st.sampled_from([b"\1" * 16, b"\2" * 16]),
    span_id=st.binary(min_size=8, max_size=8).filter(any),
    parent_span_id=st.sampled_from([b"", bytes(8), b"\3" * 8]),
    name=texts,
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    attributes=attributes,
    dropped_attributes_count=st.integers(0, 3),
    events=st.lists(
        st.builds(Span.Event, name=texts, time_unix_nano=times, attributes=attributes), max_size=1
    ),
    links=st.lists(
        st.builds(Span.Link, trace_id=st.just(b"\4" * 16), span_id=st.just(b"\5" * 8)), max_size=1
    ),
    status=st.none() | st.builds(dict, code=st.integers(0, 2), message=texts),
)
scope_spans: st.SearchStrategy[dict[str, object]] = st.builds(
    dict, scope=st.none() | st.builds(dict, name=texts), spans=st.lists(spans, max_size=3)
)
requests = st.builds(
    TracesData,
    resource_spans=st.lists(
        st.builds(
            ResourceSpans,
            resource=st.none() | st.builds(dict, attributes=attributes),
            scope_spans=st.lists(scope_spans, max_size=2),
        ),
        max_size=2,
    ),
)


def carefully(request: bytes) -> tuple[pl.DataFrame, list[int]] | None:
    """Return what reading span by span makes of a request; None where it reports a problem."""
    out = decode_message("t", Frame(0, request))
    return None if out.problems else (span_table(out.rows), out.cut)


@given(st.lists(requests, min_size=1, max_size=3))
def test_spans_are_those_that_are_read_one_by_one(several: list[TracesData]) -> None:
    """A loop must not hang on whether an extra is installed."""
    data = [each.SerializeToString() for each in several]
    read = span_columns(data)
    expected = [carefully(each) for each in data]

    if read is None:
        assert not any(each and each[0].height for each in expected)
        return
    table, lost = read
    assert table.schema == SPAN_LISTS_SCHEMA
    whole = [each for each in expected if each is not None]
    assert with_json(table).equals(pl.concat(each[0] for each in whole))
    assert lost == [count for each in whole for count in each[1]]


@given(requests)
def test_lists_say_the_same_as_their_text(request_: TracesData) -> None:
    """What names a task is read from either form."""
    read = span_columns([request_.SerializeToString()])
    if read is None:
        return
    lists, texts_ = read[0], with_json(read[0])

    assert lists.schema["attributes"] == ATTRIBUTES
    assert texts_.schema == SPAN_SCHEMA
    assert list(attributes_of(lists["attributes"])) == list(attributes_of(texts_["attributes"]))
    assert with_ties(lists).drop("attributes").equals(with_ties(texts_).drop("attributes"))
    assert turns_of(lists)[0].equals(turns_of(texts_)[0])


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_give_the_same_or_nothing(seed: int) -> None:
    """What another parser makes of damage must not become a loop.

    It skips fields that it does not know, where the careful reader may refuse the span.
    """
    whole, random = exported().SerializeToString(), Random(seed)
    read = 0
    for _ in range(MUTATIONS):
        damaged = bytearray(whole)
        for _ in range(random.randint(1, 3)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        found = span_columns([bytes(damaged)])
        if found is not None:
            expected = carefully(bytes(damaged))
            assert expected is None or with_json(found[0]).equals(expected[0])
            read += expected is not None
    assert read > 0


@pytest.mark.parametrize(
    "bad",
    [
        Span(trace_id=bytes(16), span_id=b"\1" * 8),
        Span(trace_id=b"\1" * 15, span_id=b"\1" * 8),
        Span(trace_id=b"\1" * 16, span_id=bytes(8)),
        Span(trace_id=b"\1" * 16, span_id=b"\1" * 8, end_time_unix_nano=1 << 63),
    ],
)
def test_what_is_no_span_is_left_to_be_read_alone(bad: Span) -> None:
    """A bad span costs itself alone, and only the careful reader can say which it is."""
    request_ = exported()
    assert span_columns([request_.SerializeToString()]) is not None

    request_.resource_spans[0].scope_spans[0].spans.append(bad)

    assert span_columns([request_.SerializeToString()]) is None


def test_a_value_of_two_kinds_is_left_to_be_read_alone() -> None:
    """Protobuf lets the last kind count, which columns do not know."""
    text, number = AnyValue(string_value="a"), AnyValue(int_value=5)
    both = text.SerializeToString() + number.SerializeToString()
    value = bytes([2 << 3 | 2, len(both)]) + both
    span = Span(trace_id=b"\1" * 16, span_id=b"\1" * 8)
    data = span.SerializeToString() + bytes([9 << 3 | 2, len(value)]) + value
    for number_of_field in (2, 2, 1):  # spans, scope_spans, resource_spans
        data = bytes([number_of_field << 3 | 2, len(data)]) + data

    assert carefully(data) is not None
    assert span_columns([data]) is None
