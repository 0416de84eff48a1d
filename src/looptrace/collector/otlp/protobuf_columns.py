"""OTLP/protobuf export requests to columns, without a Python object per span or attribute.

ptars walks the bytes by the description of the messages in this module. The description names the
fields that are read. Fields that few spans have stay bytes. Bytes that ptars refuses and invalid
spans are left to `protobuf`, where a bad span loses only itself. ptars is an extra
(`looptrace[columns]`); without it `protobuf` reads everything.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import msgspec
import numpy as np
import polars as pl
from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from looptrace.analyzer.schema.attribute_lists import ATTRIBUTE
from looptrace.analyzer.schema.spans import NO_ITEMS, SPAN_LISTS_SCHEMA
from looptrace.collector.otlp.protobuf import event_of, link_of, plain
from looptrace.collector.otlp.span_rows import (
    ERROR,
    OK,
    SERVICE_NAME,
    TIME_NS_MAX,
    UNSET,
    events_text,
    links_text,
)

_TEXT, _BYTES = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES
_BOOL, _INT = FieldDescriptorProto.TYPE_BOOL, FieldDescriptorProto.TYPE_INT64
_FLOAT, _TIME = FieldDescriptorProto.TYPE_DOUBLE, FieldDescriptorProto.TYPE_FIXED64
_COUNT, _CODE = FieldDescriptorProto.TYPE_UINT32, FieldDescriptorProto.TYPE_INT32

# The fields of OTLP's messages that are read, or only have to be readable: name, number and type. A
# type that is a name stands for a message. A star before it stands for many. The fields of a value
# exclude each other.
_VALUE = (
    ("text", 1, _TEXT),
    ("bool", 2, _BOOL),
    ("int", 3, _INT),
    ("float", 4, _FLOAT),
    ("list", 5, _BYTES),
    ("map", 6, _BYTES),
    ("bytes", 7, _BYTES),
)
_MESSAGES: dict[str, tuple[tuple[str, int, int | str], ...]] = {
    "Value": _VALUE,
    "Attribute": (("key", 1, _TEXT), ("value", 2, "Value")),
    "Status": (("message", 2, _TEXT), ("code", 3, _CODE)),
    "Span": (
        ("trace_id", 1, _BYTES),
        ("span_id", 2, _BYTES),
        ("trace_state", 3, _TEXT),
        ("parent_span_id", 4, _BYTES),
        ("name", 5, _TEXT),
        ("start_ns", 7, _TIME),
        ("end_ns", 8, _TIME),
        ("attributes", 9, "*Attribute"),
        ("attributes_lost", 10, _COUNT),
        ("events", 11, "*"),
        ("links", 13, "*"),
        ("status", 15, "Status"),
    ),
    "Scope": (("name", 1, _TEXT), ("version", 2, _TEXT), ("attributes", 3, "*Attribute")),
    "Resource": (("attributes", 1, "*Attribute"),),
    "ScopeSpans": (("scope", 1, "Scope"), ("span", 2, "*Span")),
    "ResourceSpans": (("resource", 1, "Resource"), ("scope_spans", 2, "*ScopeSpans")),
    "Request": (("resource_spans", 1, "*ResourceSpans"),),
}
_PACKAGE = "looptrace"
_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8
_encode = msgspec.json.Encoder().encode


def can_read_columns() -> bool:
    """Return whether ptars is installed."""
    return find_spec("ptars") is not None


def span_columns(requests: Sequence[bytes]) -> tuple[pl.DataFrame, list[int]] | None:
    """Return the spans of requests (`SPAN_LISTS_SCHEMA`), and how many attributes some lost.

    Returns None if a request or a span is not valid. It must then be read with care.
    """
    try:
        batch = _handler().list_to_record_batch(list(requests))
    except ValueError:  # ptars refuses bytes by this.
        return None
    spans = _unfolded(pl.DataFrame(batch))
    if not _are_spans(spans):
        return None
    try:
        return _in_schema(spans), _lost(spans)
    except DecodeError:  # The error lies in fields that stayed bytes.
        return None


@cache
def _handler() -> Any:
    import ptars  # noqa: PLC0415 # An extra, and it takes a quarter of a second.

    file = FileDescriptorProto(name=_PACKAGE, package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if fields is _VALUE:
            message.oneof_decl.add(name="value")
        for field, number, kind in fields:
            described = message.field.add(name=field, number=number)
            is_many = isinstance(kind, str) and kind.startswith("*")
            described.label = (
                FieldDescriptorProto.LABEL_REPEATED
                if is_many
                else FieldDescriptorProto.LABEL_OPTIONAL
            )
            if fields is _VALUE:
                described.oneof_index = 0
            if isinstance(kind, int) or kind == "*":
                described.type = _BYTES if kind == "*" else kind
            else:
                described.type = FieldDescriptorProto.TYPE_MESSAGE
                described.type_name = f".{_PACKAGE}.{kind.removeprefix('*')}"
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    # Offsets of 32 bits hold 2 GiB, which a batch may exceed.
    config = ptars.PtarsConfig(use_large_string=True, use_large_binary=True, use_large_list=True)
    handlers = ptars.HandlerPool([pool.FindFileByName(_PACKAGE)], config)
    return handlers.get_for_message(pool.FindMessageTypeByName(f"{_PACKAGE}.Request"))


def _unfolded(requests: pl.DataFrame) -> pl.DataFrame:
    """Return one row per span, with its `service` and `scope`."""
    resources = _each(requests.select(resource_spans="resource_spans"), "resource_spans")
    named = pl.element().struct.field("key") == SERVICE_NAME
    names = pl.col("resource").struct.field("attributes").list.eval(pl.element().filter(named))
    service = names.list.last().struct.field("value").struct.field("text")
    scopes = _each(resources.select("scope_spans", service=service), "scope_spans")
    scope = pl.col("scope").struct.field("name").replace("", None)
    return _each(scopes.select("span", "service", scope=scope), "span")


def _each(table: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return a row for each message in a column of lists, with its fields as columns."""
    return table.filter(pl.col(column).list.len() > 0).explode(column).unnest(column)


def _are_spans(spans: pl.DataFrame) -> bool:
    """Return whether each span has ids and times, and each of its values has one kind at most."""
    given = pl.col("attributes").explode().struct.field("value").struct
    kinds = pl.sum_horizontal(given.field(name).is_not_null() for name, *_ in _VALUE)
    return bool(
        spans.select(
            _is_id("trace_id", _TRACE_ID_BYTES)
            & _is_id("span_id", _SPAN_ID_BYTES)
            & (pl.max_horizontal("start_ns", "end_ns").max() <= TIME_NS_MAX)
            & (kinds <= 1).all()
        ).item()
    )


def _is_id(name: str, size: int) -> pl.Expr:
    return ((pl.col(name).bin.size() == size) & (pl.col(name) != bytes(size))).all()


def _lost(spans: pl.DataFrame) -> list[int]:
    lost = spans["attributes_lost"]
    return lost.filter(lost > 0).to_list()


def _in_schema(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans with the columns of SPAN_LISTS_SCHEMA."""
    parent, status = pl.col("parent_span_id").bin.encode("hex"), pl.col("status").struct
    code = status.field("code")
    return (
        spans.with_columns(
            _attributes(spans["attributes"]).alias("attributes"),
            _texts(spans["events"], _events).alias("events"),
            _texts(spans["links"], _links).alias("links"),
            pl.col("trace_id", "span_id").bin.encode("hex"),
            pl.when(parent.str.contains("[^0]")).then(parent).alias("parent_span_id"),
            start_ns=pl.when(pl.col("start_ns") > 0).then("start_ns").otherwise("end_ns"),
            end_ns=pl.max_horizontal("start_ns", "end_ns"),
            status=pl.when(code.is_in([OK, ERROR])).then(code).otherwise(UNSET),
            status_message=status.field("message").replace("", None),
        )
        .select(SPAN_LISTS_SCHEMA.names())
        .cast(SPAN_LISTS_SCHEMA)
    )


def _texts(messages: pl.Series, text_of: Callable[[Iterable[bytes]], str]) -> pl.Series:
    """Return the JSON of the messages of each span; few spans have any."""
    texts = pl.repeat(NO_ITEMS, len(messages), dtype=pl.String, eager=True)
    places = (messages.list.len() > 0).arg_true()
    return texts.scatter(places, list(map(text_of, messages.gather(places).to_list())))


def _events(messages: Iterable[bytes]) -> str:
    return events_text(event_of(Span.Event.FromString(message)) for message in messages)


def _links(messages: Iterable[bytes]) -> str:
    return links_text(link_of(Span.Link.FromString(message)) for message in messages)


def _attributes(lists: pl.Series) -> pl.Series:
    """Return attributes (lists of `ATTRIBUTE`) from OTLP's attributes."""
    counts = lists.list.len()
    every = lists.filter(counts > 0).explode().struct
    value = every.field("value").struct
    texts = pl.DataFrame(
        [value.field("int").cast(pl.String), value.field("bool").cast(pl.String)]
        + [_json_texts(write, value.field(name)) for name, write in _WRITTEN.items()]
    )
    named = pl.DataFrame([every.field("key"), value.field("text")])
    attributes = named.with_columns(texts.select(json=pl.coalesce(pl.all())).to_series())
    return _listed(attributes.to_struct().cast(ATTRIBUTE), counts)


def _listed(items: pl.Series, counts: pl.Series) -> pl.Series:
    """Return items in lists; `counts` has the length of each list. The items are not copied."""
    import pyarrow as pa  # noqa: PLC0415 # Comes with ptars.

    offsets = np.concatenate([[0], np.cumsum(counts.to_numpy(), dtype=np.int64)])
    given = items.to_arrow(compat_level=pl.CompatLevel.newest())
    return pl.Series(pa.LargeListArray.from_arrays(offsets, given))


def _json_texts(write: Callable[[Any], Any], values: pl.Series) -> pl.Series:
    """Return values as JSON; each distinct value is written once, and null stays null."""
    distinct = values.drop_nulls().unique()
    texts = pl.Series([_encode(write(value)).decode() for value in distinct], dtype=pl.String)
    return values.replace_strict(distinct, texts, default=None, return_dtype=pl.String)


# Values that Python writes, because they hold other values or because Polars writes them otherwise.
_WRITTEN: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "list": lambda data: plain(AnyValue(array_value=ArrayValue.FromString(data))),
    "map": lambda data: plain(AnyValue(kvlist_value=KeyValueList.FromString(data))),
    "bytes": lambda data: b64encode(data).decode(),
}
