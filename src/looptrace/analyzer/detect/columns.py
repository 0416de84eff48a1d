"""Fingerprinted turns to coded ones, and counted turns to the columns that rules see."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import fields
from math import nan
from typing import Any

import numpy as np
import polars as pl

from looptrace.analyzer.fingerprint.chants import with_chants
from looptrace.analyzer.fingerprint.signatures import (
    ACKNOWLEDGES,
    CHANGES,
    EXTERNAL,
    FOUND_NOTHING,
    PAUSES,
    QUERIES,
    READS,
    SEARCHES,
    UNTESTED,
    UNTOLD,
)
from looptrace.analyzer.fingerprint.similarity import Meaning, meanings_of
from looptrace.analyzer.schema.columns import CODED, COUNTED
from looptrace.rules.turns import STATUSES, UNKNOWN, Codes, Figures, Turns

# What is coded as the hash of the column of a turn that has its name.
_HASHED = (
    "agent",
    "subtask",
    "task_kind",
    "phase",
    "call",
    "outcome",
    "signature",
    "response",
    "talks_on",
)

_FIGURES = ("tests_failed", "tests_total", "coverage")
_SEEN = {field.name for field in fields(Turns)}
_CODE = "_code"
_CODES = [c.name for c in CODED if c.name.endswith(_CODE)]
# What rules see as it stands in the table; texts and codes are made into arrays of their own.
_PLAIN = [c.name for c in (*CODED, *COUNTED) if c.name in _SEEN and c.dtype != pl.String]


def encode_columns(turns: pl.DataFrame) -> pl.DataFrame:
    """Add `CODED`, the integer codes and marks that rules compare, to fingerprinted turns.

    The codes hold in this process only, because the hash differs between versions of Polars.
    """
    external = pl.col("error_kind").is_in(EXTERNAL).fill_null(value=False)
    call = pl.col("kind") == "tool"
    own = pl.col("failed") & ~external & (pl.col("error_kind") != UNTOLD)
    fine = call & ~pl.col("failed").fill_null(value=False)
    names = turns["name"].drop_nulls().unique().to_list()
    changes = _fitting(names, CHANGES)
    searches = _fitting(names, SEARCHES) & ~changes
    reads = _fitting(names, READS) & ~changes
    lookups = searches | reads
    status = pl.col("name").replace_strict(
        STATUSES, range(1, len(STATUSES) + 1), default=UNKNOWN, return_dtype=pl.Int64
    )
    turns = with_chants(turns).with_columns(*(_code(name) for name in _HASHED), external=external)
    turns = turns.with_columns(
        own=(call & pl.col("failed") & ~external).fill_null(value=False),
        untested=pl.col("task_kind").str.contains(UNTESTED).fill_null(value=False),
        works=fine & ~lookups,
        only_reads=fine & reads,
        pauses=call & _fitting(names, PAUSES),
        searches=searches,
        look_chars=pl.when(call & ~_fitting(names, CHANGES))
        .then(pl.coalesce("error", "result").str.len_chars())
        .fill_null(0)
        .cast(pl.Int64),
        only_calls=((pl.col("kind") == "model") & (pl.col("text") == "")).fill_null(value=False),
    )
    return turns.with_columns(
        _search_results(turns),
        error_code=pl.when(own).then("outcome_code").otherwise(UNKNOWN),
        status_code=pl.when(pl.col("kind").is_in(["attempt", "switch"]))
        .then(status)
        .otherwise(UNKNOWN),
    )


def _search_results(turns: pl.DataFrame) -> pl.Series:
    """Code tool and answer of searches in coded turns, where one is alone in its step and tells."""
    name, result = pl.col("name"), pl.col("result")
    alone = (pl.col("kind") == "tool") & pl.col("step").is_null() & pl.col("searches")
    tells = ~result.str.contains(ACKNOWLEDGES)
    surely = ~name.str.contains(QUERIES) | result.str.contains(FOUND_NOTHING)
    rows = turns.with_row_index("row").filter(alone & ~pl.col("failed").fill_null(value=False))
    answers = rows.filter(tells & surely).select("row", code=_hash("name") ^ pl.col("outcome_code"))
    codes = np.full(turns.height, UNKNOWN, dtype=np.int64)
    codes[answers["row"].to_numpy()] = answers["code"].to_numpy()
    return pl.Series("search_result_code", codes)


def _fitting(names: Sequence[str], tools: re.Pattern[str]) -> pl.Expr:
    """Mark the turns whose name fits a pattern; names are few."""
    fitting = [name for name in names if tools.search(name)]
    return pl.col("name").is_in(fitting).fill_null(value=False)


def _code(name: str) -> pl.Expr:
    code = pl.when(pl.col(name).is_not_null()).then(_hash(name)).otherwise(UNKNOWN)
    return code.alias(f"{name}_code")


def _hash(name: str) -> pl.Expr:
    return pl.col(name).hash().reinterpret(signed=True)


def columns(
    table: pl.DataFrame, *, texts: Collection[str] = (), meaning: Meaning | None = None
) -> Turns:
    """Return the columns that rules see, out of counted turns.

    Only the texts of some kinds of turn are there, as most rules do not read any, and what requests
    mean only on request.
    """
    numbers: dict[str, Any] = {name: _figures_of(table[name]) for name in _FIGURES}
    numbers |= {name: table[name].to_numpy() for name in _PLAIN}
    numbers |= {name.removesuffix(_CODE): table[name].to_numpy() for name in _CODES}
    return Turns(
        task=_numbered(table["task"]),
        texts=_texts(table, texts),
        kind=table["kind"].to_physical().cast(pl.Int64).to_numpy(),
        end_ns=table["end_ns"].to_numpy(),
        failed=table["failed"].fill_null(value=False).to_numpy(),
        phase_before=_codes_of(table["phase_before"]),
        measured=_codes_of(table["measured"]),
        meanings=meanings_of(table, meaning) if meaning else None,
        **numbers,
    )


def _texts(table: pl.DataFrame, kinds: Collection[str]) -> tuple[str | None, ...]:
    """Return what turns of these kinds put out, none at all where there is no such turn."""
    kind = pl.col("kind")
    of_kinds = kind.is_in(list(kinds))
    if not table.select(of_kinds.any()).item():
        return ()
    put_out = (
        pl.when(kind == "model")
        .then("text")
        .when(kind == "handoff")
        .then("arguments")
        .otherwise(pl.coalesce("error", "result"))
    )
    return tuple(table.select(pl.when(of_kinds).then(put_out)).to_series().to_list())


def _codes_of(texts: pl.Series) -> Codes:
    """Code texts of which most traces have none."""
    if texts.null_count() == len(texts):
        return np.broadcast_to(np.int64(UNKNOWN), len(texts))
    return texts.to_frame().select(_code(texts.name)).to_series().to_numpy()


def _figures_of(values: pl.Series) -> Figures:
    if values.null_count() == len(values):
        return np.broadcast_to(np.float64(nan), len(values))
    return values.cast(pl.Float64).fill_null(nan).to_numpy()


def _numbered(tasks: pl.Series) -> Codes:
    """Return the number of each turn's task; the turns of a task stand together."""
    hashes = tasks.hash().to_numpy()
    numbers = np.zeros(len(hashes), dtype=np.int64)
    np.cumsum(hashes[1:] != hashes[:-1], out=numbers[1:])
    return numbers
