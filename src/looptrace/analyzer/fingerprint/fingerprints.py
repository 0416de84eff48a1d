"""Sameness, decided in one place: when two calls, outcomes, outputs or responses count as equal.

The core decides (`core/src/same`); here turns become its columns and come back. Values that the
trace does not give stay null, and null equals nothing.
"""

from functools import lru_cache

import polars as pl

from looptrace._core import SOURCE, Policy
from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness, Tool
from looptrace.analyzer.schema.turns import TURN_SCHEMA, is_numbered, numbered
from looptrace.analyzer.text.digests import digest

# The columns that the core reads.
_READ = (
    *("kind", "name", "subtask", "arguments", "result", "error", "error_type", "location"),
    *("trace_hash", "text", "response", "talks_on"),
    *("failed", "tests_failed", "tests_total", "coverage"),
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


def compared_by(
    turns: pl.DataFrame, sameness: Sameness, made_with: str | None = None
) -> pl.DataFrame:
    """Return turns (`TURN_SCHEMA`) with fingerprints by the current declarations, numbered again.

    `made_with` is the `fingerprint_source` of the fingerprints that the turns have; None if it is
    not known.
    """
    if made_with != fingerprint_source(sameness):
        turns = add_fingerprints(turns, sameness)
    elif is_numbered(turns):  # It was when it was stored, and no turn is gone since.
        return turns
    return numbered(turns)


def fingerprint_source(sameness: Sameness) -> str:
    """Return a hash of all that fingerprints depend on besides the turns: declarations and core."""
    return digest(f"{sameness!r} {SOURCE}")
