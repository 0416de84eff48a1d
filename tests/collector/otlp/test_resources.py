"""The version of a service comes from the resource of a request, to each span of the service."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from looptrace.analyzer.schema.service_versions import versions_of, with_versions
from looptrace.collector.content.policy import with_content
from looptrace.collector.otlp import protobuf
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.json import decode_document
from looptrace.collector.otlp.protobuf import decode_message, message_pieces
from looptrace.collector.otlp.span_table import joined_table
from looptrace.collector.store import key
from tests.collector.coding_agents.test_genai_events import proto
from tests.otlp import Trace

OLD, NEW = "1.4.2", 'v1.5.0 "rc"'


def trace(session: str, **about: Any) -> Trace:
    """Return a trace of two spans."""
    made = Trace(session, **about)
    made.span("one")
    made.span("two")
    return made


def request(*traces: Trace) -> dict[str, Any]:
    """Return one request with the spans of several services."""
    return {"resourceSpans": [part for each in traces for part in each.request()["resourceSpans"]]}


SHOP, BANK = trace("s", service="shop", version=OLD), trace("b", service="bank", version=NEW)
NONE = trace("n", service="none")
KNOWN = {"shop": OLD, "bank": NEW}


def spans_of(sent: object) -> pl.DataFrame:
    """Return the spans of a request in JSON."""
    return joined_table([decode_document("f", Frame(1, json.dumps(sent).encode())).spans or ()])


def test_a_span_has_the_version_of_its_own_resource() -> None:
    """During a release two versions of a service send side by side, also through one Collector."""
    newer = trace("t", service="shop", version=NEW)
    table = spans_of(request(SHOP, newer, NONE))
    assert versions_of(table) == {(SHOP.trace_id, "shop"): OLD, (newer.trace_id, "shop"): NEW}
    versioned = table.filter(service="shop")["attributes"].to_list()
    assert {next(iter(json.loads(text))) for text in versioned} == {"service.version"}


def test_an_odd_version_is_none_and_a_long_one_is_cut() -> None:
    """A span that names a version itself keeps it; a number is no version."""
    odd = trace("o", service="shop")
    sent = odd.request()
    attributes = sent["resourceSpans"][0]["resource"]["attributes"]
    attributes.append({"key": "service.version", "value": {"intValue": 7}})
    assert versions_of(spans_of(sent)) == {}
    attributes[-1] = {"key": "service.version", "value": {"stringValue": "ä" * 300}}
    assert set(versions_of(spans_of(sent)).values()) == {"ä" * 100}
    own = sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    own.setdefault("attributes", []).append(
        {"key": "service.version", "value": {"stringValue": "own"}}
    )
    texts = spans_of(sent)["attributes"].to_list()
    assert [json.loads(text)["service.version"] for text in texts] == ["own", "ä" * 100]


def test_each_span_has_the_version_of_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any encoding, also of a message that is read piece by piece."""
    sent = request(SHOP, BANK, NONE)
    table = spans_of(sent)
    ids = {"shop": SHOP.trace_id, "bank": BANK.trace_id}
    expected = {(ids[service], service): version for service, version in KNOWN.items()}
    assert versions_of(table) == expected
    monkeypatch.setattr(protobuf, "PIECE_BYTES", 1)
    message = Frame(0, proto(sent))
    pieces = [decode_message("f", message, piece) for piece in message_pieces(message)]
    assert len(pieces) == 3
    assert_frame_equal(joined_table([each.spans or () for each in pieces]), table)


def test_a_version_stays_with_hashes(tmp_path: Path) -> None:
    """It is a name like that of the service, and no content; a text in its place is."""
    spans = spans_of(request(SHOP))
    hashed = with_content(spans, "hashes", key.content_key(tmp_path))
    assert versions_of(hashed) == {(SHOP.trace_id, "shop"): OLD}
    said = with_versions(spans.with_columns(attributes=pl.lit("{}")), ["a b"] * 2)
    assert versions_of(said) == {(SHOP.trace_id, "shop"): "a b"}
    assert versions_of(with_content(said, "hashes", key.content_key(tmp_path))) == {}
    assert set(with_versions(said, [OLD, None])["attributes"]) == {'{"service.version":"a b"}'}
