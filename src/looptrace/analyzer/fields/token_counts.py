"""The tokens of responses: all that models read and wrote, and parts of both.

Some producers count what was cached beside the rest of the input, or what was thought beside the
rest of the output. A table says which do (`beside`); others show it, by a part that is larger than
the whole, or by a total with room for the parts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from looptrace.analyzer.fields.dialect_table import DialectTable
from looptrace.analyzer.fields.field_reader import FieldColumns, SpansAlike
from looptrace.analyzer.schema.span_fields import SpanKind
from looptrace.analyzer.text.payloads import parsed

# A response cannot have used more. A larger number is a fault of its writer.
TOKENS_MAX = 10**9

_PARTS = ("cached_tokens", "cache_write_tokens", "reasoning_tokens")


class TokenCounts(NamedTuple):
    """The tokens of a response, in the order of `SpanFields`; parts of what is unknown are, too."""

    input: int | None
    output: int | None
    cached: int | None  # of the input, like the next
    cache_write: int | None
    reasoning: int | None  # of the output
    differing: int | None


def token_counts(
    spans: SpansAlike, columns: FieldColumns, kinds: Sequence[SpanKind | None], table: DialectTable
) -> list[TokenCounts]:
    """Return the tokens of each span; those of agents repeat the sum of their models'."""

    def counts(name: str) -> list[int | None]:
        return list(map(_count, columns.values(name), kinds))

    wholes = counts("input_tokens"), counts("output_tokens")
    parts, differing = [counts(name) for name in _PARTS], counts("differing_tokens")
    every = map(TokenCounts, *wholes, *parts, differing)
    if not any(name in columns for name in _PARTS):
        return list(every)
    rows, totals = table.beside_rows(spans.attributes), counts("total_tokens")
    found = []
    for place, (counted, total) in enumerate(zip(every, totals, strict=True)):
        told = {row.key: spans.attributes[row.key][place] for row in rows if row.key}
        named = spans.row["name"][place], spans.row["scope"][place]
        beside = {row.kind for row in rows if row.is_named(*named) and row.fits(told)}
        found.append(_whole(counted, total, beside))
    return found


def _whole(counted: TokenCounts, total: int | None, beside: Collection[str]) -> TokenCounts:
    """Return tokens whose input and output have all parts in them."""
    given, said, cached, written, thought, differing = counted
    of_input, of_output = (cached or 0) + (written or 0), thought or 0
    rest = 0 if total is None else total - (given or 0) - (said or 0)
    # The total has room for both, or for one of them.
    for_input = rest in (of_input + of_output, of_input)
    for_output = rest == of_input + of_output or (rest == of_output and not for_input)
    if given is None:
        cached = written = None
    elif "input" in beside or for_input or of_input > given:
        given += of_input
    if said is None:
        thought = None
    elif "output" in beside or for_output or of_output > said:
        said += of_output
    return TokenCounts(given, said, cached, written, thought, differing)


def _count(value: Any, kind: SpanKind | None) -> int | None:
    if value is None or kind != "model":
        return None
    value = parsed(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value <= TOKENS_MAX else None
