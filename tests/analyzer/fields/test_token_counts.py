"""The tokens of a response mean the same in every turn, however its producer counts them.

`input_tokens` and `output_tokens` are all that a model read and wrote. What it read from a cache or
wrote into one, and what it thought, are parts of them.
"""

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace._core import FieldReader
from looptrace.analyzer.fields.dialect_table import SHIPPED
from looptrace.analyzer.fields.span_fields import span_reading
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA, span_rows
from looptrace.analyzer.schema.turns import TOKEN_COLUMNS
from looptrace.collector.content.policy import with_content
from tests.analyzer.normalize.span_rows import span, turns

KEY = b"k" * 32
TABLE = files("looptrace.analyzer.fields").joinpath("dialects.toml").read_text("utf-8")
LLM = {"openinference.span.kind": "LLM"}


@dataclass(frozen=True, slots=True)
class Case:
    """Attributes as a producer writes them, and the five counts that they mean."""

    case: str
    scope: str
    name: str
    counts: list[int | None]
    attributes: dict[str, Any]


LINES = Path(__file__).with_name("token_counts.jsonl").read_text("utf-8").splitlines()
CASES = {case.case: case for case in (Case(**json.loads(line)) for line in LINES)}


def row_of(case: Case) -> dict[str, object]:
    """Return the row of the span table of a case."""
    return span(1, case.attributes, name=case.name, scope=case.scope)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_tokens_mean_the_same_whoever_counts_them(case: Case) -> None:
    """A producer may count what was cached or thought beside the rest, or within it."""
    (turn,) = turns([row_of(case)]).select(TOKEN_COLUMNS).rows()

    assert list(turn) == case.counts


@pytest.mark.parametrize("content", ["redacted", "hashes"])
def test_tokens_outlast_what_is_left_out(content: Any) -> None:
    """Counts are no secrets; what is written anew is not counted twice."""
    spans = spans_of_cases().with_columns(trace_id=pl.col("span_id").str.zfill(32))
    found = turns_of(with_content(spans, content, KEY))[0].sort("trace_id")

    counts = dict(zip(CASES, found.select(TOKEN_COLUMNS).rows(), strict=True))
    assert counts == {name: tuple(case.counts) for name, case in CASES.items()}


def test_every_key_has_a_case() -> None:
    """A key of the table that no case has is never read in a test."""
    keys = {key for name in TOKEN_COLUMNS[2:] for key in SHIPPED.keys_of(name)}
    rows = span_rows(spans_of_cases())
    read = {field.key for row in rows for field in span_reading(row, SHIPPED).fields}
    assert keys - read == set()


@pytest.mark.parametrize("row", re.findall(r'\{[^{}]* of = "(?:input|output)" \},?', TABLE))
def test_every_producer_that_counts_beside_has_a_case(row: str) -> None:
    """Without its row a case is wrong."""
    rows = span_rows(spans_of_cases())
    without = FieldReader(table=TABLE.replace(row, ""))

    assert without.fields(rows) != FieldReader().fields(rows)


def spans_of_cases() -> pl.DataFrame:
    """Return a span of each case."""
    rows = [row_of(case) | {"span_id": f"{n:016x}"} for n, case in enumerate(CASES.values())]
    return pl.DataFrame(rows, schema=SPAN_SCHEMA)


def test_two_spans_of_one_response_have_the_tokens_of_the_fuller_one() -> None:
    """A whole and its parts come from one span, because another may count otherwise."""
    said = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}
    chat = {"gen_ai.operation.name": "chat"} | said
    outer = span(1, chat, name="chat", scope="acme", start=1, end=3)
    counts = {"prompt": 400, "completion": 20, "prompt_details.cache_read": 300}
    inner = LLM | {f"llm.token_count.{name}": count for name, count in counts.items()}
    rows = [outer, span(2, inner, parent=1, name="llm", scope="a", start=1.5, end=2.5)]

    assert turns(rows).select(TOKEN_COLUMNS).rows() == [(400, 20, 300, None, None)]
