"""Tables of turns from the few values that matter to a test."""

from typing import Any

import polars as pl

from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.schema.turns import TURN_SCHEMA, numbered
from looptrace.rules.vocabulary import NS_PER_S

_USUAL = {"task": "t", "session": "t", "trace_id": "t", "agent": "", "kind": "tool", "name": "run"}


def turns_with(
    *rows: dict[str, Any], sameness: Sameness = NOTHING, gap_s: float = 1
) -> pl.DataFrame:
    """Return turns with these values, fingerprinted: calls of a tool, one a second, else."""
    turns = [
        _USUAL
        | {"span_id": f"{number:04d}"}
        | dict.fromkeys(("start_ns", "end_ns"), int(number * gap_s * NS_PER_S))
        | row
        for number, row in enumerate(rows)
    ]
    return numbered(add_fingerprints(pl.DataFrame(turns, TURN_SCHEMA), sameness))
