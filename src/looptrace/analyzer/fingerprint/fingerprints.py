"""Sameness, decided in one place: when two calls, outcomes, outputs or responses count as equal.

The core decides (`core/src/same`); here turns become its columns and come back. Values that the
trace does not give stay null, and null equals nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from looptrace._core import SOURCE, Policy
from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness, Tool
from looptrace.analyzer.schema.turns import TURN_SCHEMA, Turn, numbered
from looptrace.analyzer.text.digests import digest

# The columns that the core reads, and those that it writes, in the order of its single turns.
_READ = (
    *("kind", "name", "subtask", "arguments", "result", "error", "error_type", "location"),
    *("trace_hash", "text", "response", "talks_on"),
    *("failed", "tests_failed", "tests_total", "coverage"),
)
_MADE = (
    *("tests_failed", "tests_total", "coverage", "failed", "error_type", "error", "error_kind"),
    *("location", "trace_hash", "call", "outcome", "signature", "response", "talks_on"),
)
# Declarations that stay compiled: a program has one, and a backtest two.
_POLICIES_KEPT = 16


def policy_of(sameness: Sameness) -> Policy:
    """Return declarations as the core needs them."""
    results = sameness.results
    tools = tuple(sorted(sameness.tools.items(), key=lambda item: item[0]))
    masks = tuple((mask.pattern, mask.name) for mask in sameness.masks)
    return _compiled(tools, masks, results.keys, frozenset(results.telling_keys))


@lru_cache(_POLICIES_KEPT)
def _compiled(
    tools: tuple[tuple[str, Tool], ...],
    masks: tuple[tuple[str, str], ...],
    volatile_keys: frozenset[str],
    telling_keys: frozenset[str],
) -> Policy:
    declared = {name: (tool.volatile_keys, tool.same_call, tool.polling) for name, tool in tools}
    return Policy(declared, masks, volatile_keys, telling_keys)


def add_fingerprints(turns: pl.DataFrame, sameness: Sameness = NOTHING) -> pl.DataFrame:
    """Fill in the columns that turns (`TURN_SCHEMA`) are compared by, such as call and signature.

    If the span does not say whether a call failed, the text of the result decides. The kind and
    place of failures and the figures of test runs are filled in from the texts too.
    """
    made = policy_of(sameness).fingerprinted(turns.select(_READ))
    return turns.with_columns(pl.DataFrame(made)).select(TURN_SCHEMA.names())


def fingerprinted(rows: Sequence[Mapping[str, Any]], sameness: Sameness) -> list[Turn]:
    """Return the turns of rows in order; fields of `TURN_SCHEMA` that a row leaves out are null."""
    policy = policy_of(sameness)
    made = (policy.fingerprint(tuple(map(row.get, _READ))) for row in rows)
    whole = (
        {**row, **dict(zip(_MADE, values, strict=True))}
        for row, values in zip(rows, made, strict=True)
    )
    return [tuple(map(row.get, TURN_SCHEMA)) for row in whole]


def compared_by(
    turns: pl.DataFrame, sameness: Sameness, made_with: str | None = None
) -> pl.DataFrame:
    """Return turns (`TURN_SCHEMA`) with fingerprints by the current declarations, numbered again.

    `made_with` is the `fingerprint_source` of the fingerprints that the turns have; None if it is
    not known.
    """
    is_same = made_with == fingerprint_source(sameness)
    return numbered(turns if is_same else add_fingerprints(turns, sameness))


def fingerprint_source(sameness: Sameness) -> str:
    """Return a hash of all that fingerprints depend on besides the turns: declarations and core."""
    return digest(f"{sameness!r} {SOURCE}")
