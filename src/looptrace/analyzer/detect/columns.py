"""Fingerprinted turns to coded ones, and counted turns to the columns that rules see."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from functools import lru_cache
from math import nan
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from looptrace import _core
from looptrace._core import EXTERNAL, PATTERNS
from looptrace.analyzer.detect.parts import Columns
from looptrace.analyzer.fingerprint.chants import with_chants
from looptrace.analyzer.fingerprint.error_kinds import MENDABLE, OWN_SERVER, RAN_OUT, UNTOLD
from looptrace.analyzer.fingerprint.rounds import BRIEF_ANSWER
from looptrace.analyzer.fingerprint.similarity import Meaning, meanings_of
from looptrace.analyzer.fingerprint.tool_kinds import (
    ACKNOWLEDGES,
    ASKS_HELP,
    CHANGES_FOUND,
    FOUND_NOTHING,
    FOUND_NOTHING_CHARS_MAX,
    QUERIES,
    SEARCHING_COMMAND,
    UNTESTED,
    falls_short,
    may_check,
)
from looptrace.analyzer.fingerprint.waiting import LOG_FILE, OWN_NOTES, SLEEPS
from looptrace.analyzer.schema.columns import CODED, COUNTED
from looptrace.analyzer.schema.turns import SILENCE
from looptrace.rules.turns import CUTS, STATUSES, UNKNOWN, Codes, Figures, Flags, Turns
from looptrace.rules.vocabulary import pair

# Columns of turns that get a code, which is the hash of the column.
_HASHED = (
    "agent",
    "name",
    "subtask",
    "task_kind",
    "phase",
    "iteration",
    "call",
    "outcome",
    "signature",
    "response",
    "talks_on",
)

# A limit of fewer tokens is meant: for a yes, a no, or the name of a class.
CUT_TOKENS_MIN = 64

# Phases that converge, and other names in settings.
CODES_KEPT_MAX = 1_000

_FIGURES = ("tests_failed", "tests_total", "coverage")
_SEEN = {field.name for field in fields(Turns)}
_CODE = "_code"
_CODES = [
    c.name
    for c in (*CODED, *COUNTED)
    if c.name.endswith(_CODE) and c.name.removesuffix(_CODE) in _SEEN
]
# Columns that rules see as the table has them; texts and codes become other arrays.
_PLAIN = [c.name for c in (*CODED, *COUNTED) if c.name in _SEEN and c.dtype != pl.String]


def encode_columns(turns: pl.DataFrame) -> pl.DataFrame:
    """Add `CODED`, the integer codes and marks that rules compare, to fingerprinted turns.

    The codes are valid in this process only, because the hash differs between versions of Polars.
    """
    status = pl.col("name").replace_strict(
        STATUSES, range(1, len(STATUSES) + 1), default=UNKNOWN, return_dtype=pl.Int64
    )
    tools = {name: tool_marks(name) for name in turns["name"].drop_nulls().unique()}
    untested = [kind for kind in turns["task_kind"].drop_nulls().unique() if is_untested(kind)]
    turns = with_chants(turns).with_columns(
        *(_code(name) for name in _HASHED),
        *(_of_tools(mark, tools) for mark in _ToolMarks._fields),
        external=pl.col("error_kind").is_in(EXTERNAL).fill_null(value=False),
        untested=pl.col("task_kind").is_in(untested).fill_null(value=False),
        trace_code=_hash("trace_id"),
        has_id=pl.col("call_id").is_not_null(),
        **_of_messages(),
        status_code=pl.when(pl.col("kind").is_in(["attempt", "switch"]))
        .then(status)
        .otherwise(UNKNOWN),
        step_code=_step_code(turns),
    )
    marks = _marks({name: column.to_numpy() for name, column in _marked_by(turns).items()})
    failed = pl.col("failed").fill_null(value=False)
    arguments = pl.col("arguments")
    by_command = arguments.str.contains(SEARCHING_COMMAND) & ~arguments.str.contains(CHANGES_FOUND)
    asks = pl.col("searches") | (by_command.fill_null(value=False) & ~pl.col("changes"))
    searches = turns.with_row_index("row").filter((pl.col("kind") == "tool") & asks & ~failed)
    result_codes = np.full(turns.height, UNKNOWN, dtype=np.int64)
    places, codes = _search_results(searches.select(_SEARCHED.keys()))
    result_codes[places] = codes
    looks = (
        (pl.col("kind") == "tool")
        & ~pl.col("changes")
        & ~pl.Series(_makes(turns), dtype=pl.Boolean)
    )
    return turns.with_columns(
        *(pl.Series(name, values) for name, values in marks.items()),
        look_chars=pl.when(looks)
        .then(pl.coalesce("error", "result").str.len_chars())
        .fill_null(0)
        .cast(pl.Int64),
        search_result_code=pl.Series(result_codes),
    ).drop("reads", "checks")


def _of_messages() -> dict[str, pl.Expr]:
    """Return the codes and marks of responses, and of messages to the agent."""
    return {
        "repeated_code": pl.when((pl.col("kind") == "user") & pl.col("arguments").is_not_null())
        .then(_hash("arguments"))
        .otherwise(UNKNOWN),
        "brief": (
            (pl.col("kind") == "model") & pl.col("text").str.contains(BRIEF_ANSWER)
        ).fill_null(value=False),
        "silent": (pl.col("response") == SILENCE).fill_null(value=False),
        "only_calls": ((pl.col("kind") == "model") & (pl.col("text") == "")).fill_null(value=False),
        "cut": pl.when(pl.col("output_tokens").is_between(1, CUT_TOKENS_MIN, closed="left"))
        .then(UNKNOWN)
        .otherwise(
            pl.col("finish_reason").replace_strict(
                CUTS, range(1, len(CUTS) + 1), default=UNKNOWN, return_dtype=pl.Int64
            )
        ),
        "compacted_code": pl.when(pl.col("compacted") & pl.col("response").is_not_null())
        .then(_hash("response"))
        .otherwise(UNKNOWN),
    }


def _marked_by(turns: pl.DataFrame) -> dict[str, pl.Series]:
    """Return the columns that `_marks` reads."""
    kind = pl.col("error_kind")
    own_server = (kind == "network") & pl.col("error").str.contains(OWN_SERVER)
    arguments = pl.col("arguments")
    says = {
        "failed": pl.col("failed"),
        "told": kind != UNTOLD,
        "ran_out": kind == RAN_OUT,
        "mendable": kind.is_in(MENDABLE) | own_server,
        "sleeps": arguments.str.contains(SLEEPS),
        "waits": arguments.str.contains(PATTERNS["waits"]),
        "asks_help": pl.when("failed").then(arguments).str.contains(ASKS_HELP),
    }
    return turns.select(
        *("external", "call_code", "outcome_code", "signature_code", *_ToolMarks._fields),
        call=pl.col("kind") == "tool",
        goes_on=pl.Series(_goes_on(turns), dtype=pl.Boolean),
        short=_short(turns),
        **{name: holds.fill_null(value=False) for name, holds in says.items()},
    ).to_dict()


def _goes_on(turns: pl.DataFrame) -> Flags:
    """Mark the calls whose result or error says that something goes on.

    Looks at files and at the agent's own notes are left out: what they say goes on elsewhere.
    """
    arguments: pl.Expr = pl.col("arguments").fill_null("")
    is_file = arguments.str.contains(PATTERNS["looks_at_file"]) & ~arguments.str.contains(LOG_FILE)
    is_own = pl.col("name").str.contains(OWN_NOTES).fill_null(value=False)
    asked = (pl.col("kind") == "tool") & ~is_file & ~is_own
    shown = pl.when(asked).then(pl.coalesce("error", "result"))
    texts = turns.select(shown=shown)["shown"]
    distinct = texts.drop_nulls().unique()
    goes_on = pl.Series([_core.is_unfinished(text) for text in distinct], dtype=pl.Boolean)
    return texts.replace_strict(distinct, goes_on, default=False).to_numpy()


def _makes(turns: pl.DataFrame) -> Flags:
    """Mark the calls that send or make something."""
    calls = turns.select(pl.col("kind") == "tool", "name", "arguments").rows()
    return np.array([call and _core.makes(*asked) for call, *asked in calls], dtype=np.bool_)


def _short(turns: pl.DataFrame) -> pl.Series:
    """Mark the calls that check something, and whose answer is not that all is well."""
    names = [name for name in turns["name"].drop_nulls().unique() if tool_marks(name).checks]
    is_check = (pl.col("kind") == "tool") & pl.col("name").is_in(names)
    rows = turns.select(is_check.fill_null(value=False)).to_series().arg_true()
    texts = turns.select(pl.col("name", "arguments", "result").gather(rows)).fill_null("")
    calls = texts.rows()
    known = {call: falls_short(*call) for call in set(calls)}
    marks = pl.Series([known[call] for call in calls], dtype=pl.Boolean)
    return pl.repeat(False, turns.height, eager=True).scatter(rows, marks)


class _ToolMarks(NamedTuple):
    """What the name of a tool says about it."""

    changes: bool
    searches: bool
    reads: bool
    pauses: bool
    watches: bool
    checks: bool


@lru_cache(CODES_KEPT_MAX)
def tool_marks(name: str | None) -> _ToolMarks:
    """Return what the name of a tool says about it; no mark is set without a name."""
    if name is None:
        return _ToolMarks(*[False] * len(_ToolMarks._fields))
    changes = _core.changes(name)
    return _ToolMarks(
        changes=changes,
        searches=_core.searches(name) and not changes,
        reads=_core.reads(name) and not changes,
        pauses=_core.pauses(name),
        watches=_core.watches(name) and not changes,
        checks=may_check(name) and not changes,
    )


@lru_cache(CODES_KEPT_MAX)
def is_untested(task_kind: str) -> bool:
    """Return whether tests say nothing about a task of this kind."""
    return re.search(UNTESTED, task_kind) is not None


def _of_tools(mark: str, tools: Mapping[str, _ToolMarks]) -> pl.Expr:
    """Mark the turns of tools that have a mark; there are few names."""
    fitting = [name for name, marks in tools.items() if getattr(marks, mark)]
    return pl.col("name").is_in(fitting).fill_null(value=False).alias(mark)


def _marks(columns: Columns) -> Columns:
    """Return the marks and codes that follow from others.

    Besides coded columns the input has `call`, `failed`, `told` (no framework hides the failure),
    `mendable` (the agent may end the failure by its edits), `sleeps` (a command that only waits),
    `waits` (arguments of a call that waits by itself), `goes_on` (a result that says that
    something has not ended), `ran_out` (the failure is a timeout), `short` (a check without a good
    answer) and `asks_help` (arguments of a failed call that asks how it is used).
    """
    call = columns["call"]
    pauses = call & (columns["pauses"] | columns["sleeps"])
    watches = call & (columns["watches"] | (columns["waits"] & ~columns["changes"])) & ~pauses
    # A wait that timed out may exit with an error.
    ran_out = (columns["goes_on"] | columns["ran_out"]) & (watches | pauses)
    unfinished = ran_out | (columns["goes_on"] & call & ~columns["failed"])
    failed = columns["failed"] & ~unfinished
    helps = columns["asks_help"] & call & failed
    looks = columns["searches"] | columns["reads"] | watches | unfinished | helps
    own, fine = failed & ~columns["external"], call & ~failed
    # "404 Not Found" for one page after another is a search, so the error of a look has its call;
    # and a question that timed out may be answered at the second try.
    outcome, asked = columns["outcome_code"], columns["call_code"]
    asks = (looks | columns["ran_out"]) & (asked != UNKNOWN)
    error = np.where(asks, pair(outcome, asked), outcome)
    signature = columns["signature_code"]
    tells = helps & (asked != UNKNOWN) & (signature != UNKNOWN)
    return {
        "own": call & own,
        "changes": fine & columns["changes"],
        "works": fine & ~(looks | pauses),
        "only_reads": fine & columns["reads"],
        "unfinished": unfinished,
        "watches": watches & ~failed,
        "pauses": pauses,
        "signature_code": np.where(tells, pair(signature, asked), signature),
        "error_code": np.where(own & columns["told"], error, UNKNOWN),
        "check_code": np.where(
            columns["short"] & fine & ~(pauses | watches | unfinished),
            pair(asked, outcome),
            UNKNOWN,
        ),
        "mendable_code": np.where(call & columns["mendable"], columns["outcome_code"], UNKNOWN),
    }


def _step_code(turns: pl.DataFrame) -> pl.Expr:
    """Code the parallel step of the trace that a turn belongs to; most traces have no steps."""
    if turns["step"].null_count() == turns.height:
        return pl.lit(UNKNOWN, pl.Int64)
    # The shift gives a step a code even if it has the same name as its trace.
    code = (_hash("trace_id") // 2) ^ _hash("step")
    return pl.when(pl.col("step").is_not_null()).then(code).otherwise(UNKNOWN)


# The columns that are read of a search that did not fail.
_SEARCHED = {
    "row": pl.Int64,
    "name": pl.String,
    "result": pl.String,
    "error": pl.String,
    "searches": pl.Boolean,
    "outcome_code": pl.Int64,
}
# The code of finding nothing, in whatever words and by whatever search.
NOTHING_FOUND = 1


def _search_results(searches: pl.DataFrame) -> tuple[Codes, Codes]:
    """Return the rows of searches (`_SEARCHED`) that say what they found, and a code of it."""
    name, result = pl.col("name"), pl.coalesce("error", "result")
    short = result.str.len_chars() <= FOUND_NOTHING_CHARS_MAX
    texts = searches.select(result.alias("text"))["text"].drop_nulls().unique()
    says_no = result.is_in([text for text in texts if _core.answers_no(text)])
    nothing = short & (result.str.contains(FOUND_NOTHING) | says_no)
    by_name = pl.col("searches") & ~name.str.contains(QUERIES)
    answers = searches.filter(~result.str.contains(ACKNOWLEDGES) & (by_name | nothing)).select(
        pl.col("row").cast(pl.Int64),
        code=pl.when(nothing).then(NOTHING_FOUND).otherwise(_hash("name") ^ pl.col("outcome_code")),
    )
    return answers["row"].to_numpy(), answers["code"].to_numpy()


@lru_cache(CODES_KEPT_MAX)
def code_of(text: str) -> int:
    """Return the code that a text has in every column of codes."""
    return int(pl.Series([text]).hash().to_numpy().view(np.int64)[0])


def _code(name: str) -> pl.Expr:
    code = pl.when(pl.col(name).is_not_null()).then(_hash(name)).otherwise(UNKNOWN)
    return code.alias(f"{name}_code")


def _hash(name: str) -> pl.Expr:
    return pl.col(name).hash().reinterpret(signed=True)


def columns(
    table: pl.DataFrame, *, texts: Collection[str] = (), meaning: Meaning | None = None
) -> Turns:
    """Return the columns that rules see of counted turns.

    They hold texts only for the kinds of turn in `texts`, because most rules read none. They hold
    the meanings of requests only if `meaning` is given.
    """
    numbers: dict[str, Any] = {name: _figures_of(table[name]) for name in _FIGURES}
    numbers |= {name: table[name].to_numpy() for name in _PLAIN}
    numbers |= {name.removesuffix(_CODE): table[name].to_numpy() for name in _CODES}
    return Turns(
        task=task_numbers(table["task"]),
        texts=_texts(table, texts),
        kind=table["kind"].to_physical().cast(pl.Int64).to_numpy(),
        end_ns=table["end_ns"].to_numpy(),
        failed=table["failed"].fill_null(value=False).to_numpy(),
        meanings=meanings_of(table, meaning) if meaning else None,
        **numbers,
    )


def _texts(table: pl.DataFrame, kinds: Collection[str]) -> tuple[str | None, ...]:
    """Return the output of turns of these kinds; an empty tuple if there is no such turn."""
    kind = pl.col("kind")
    of_kinds = kind.is_in(list(kinds))
    if not table.select(of_kinds.any()).item():
        return ()
    put_out = (
        pl.when(kind.is_in(["model", "handoff"]))
        .then("text")
        .otherwise(pl.coalesce("error", "result"))
    )
    return tuple(table.select(pl.when(of_kinds).then(put_out)).to_series().to_list())


def _figures_of(values: pl.Series) -> Figures:
    if values.null_count() == len(values):
        return np.broadcast_to(np.float64(nan), len(values))
    return values.cast(pl.Float64).fill_null(nan).to_numpy()


def task_numbers(tasks: pl.Series) -> Codes:
    """Return the number of each turn's task; the turns of a task are adjacent."""
    hashes = tasks.hash().to_numpy()
    numbers = np.zeros(len(hashes), dtype=np.int64)
    np.cumsum(hashes[1:] != hashes[:-1], out=numbers[1:])
    return numbers
