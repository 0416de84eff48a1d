"""The turn table: one row per turn of an agent, in any dialect of spans."""

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import polars as pl

from looptrace.analyzer.schema.column import Column, schema_of
from looptrace.rules.turns import KINDS
from looptrace.rules.vocabulary import NS_PER_S

# It replaces the hash (`response`) of a response that neither says nor asks for anything.
SILENCE = "0" * 64

_TEXT, _INT = pl.String(), pl.Int64()
_NS = "ns since 1970, UTC"
# Null always means *unknown*, and a known empty text is "". A column for one kind of turn, or only
# for failures, is also null elsewhere.
_UNTOLD = "the trace does not say"

TURN_COLUMNS = (
    Column("task", _TEXT, "id", "whose counters count: task, else session@service, else trace"),
    Column("session", _TEXT, "id", "conversation or session, else the trace"),
    Column("payer", _TEXT, "id", "session of a caller, whose budget pays", "it is the own one"),
    Column("trace_id", _TEXT, "id", "trace of the span that shows the turn"),
    Column("span_id", _TEXT, "id", "span that shows the turn"),
    Column("call_id", _TEXT, "id", "names one of several calls that a model's span shows", _UNTOLD),
    Column(
        "turn", pl.UInt32(), "turns", "1, 2, 3, ... of the task; a message has the turn's before"
    ),
    Column("kind", pl.Enum(KINDS), "name", f"what the turn is: {', '.join(KINDS)}"),
    Column("user_id", _TEXT, "id", "user for whom the agent works", _UNTOLD),
    Column("agent", _TEXT, "name", 'agent that took the turn; "" where none is named'),
    Column("name", _TEXT, "name", "tool, model, agent handed to, or status of an attempt", _UNTOLD),
    Column("phase", _TEXT, "name", "declared phase", _UNTOLD),
    Column(
        "phase_start_ns",
        _INT,
        _NS,
        "start of the span that declares the phase for its children",
        "a call or a response declares its own phase, or none is declared",
    ),
    Column("iteration", _TEXT, "name", "declared iteration of an orchestrator", _UNTOLD),
    Column(
        "subtask",
        _TEXT,
        "id",
        "declared task, where the counters are its root's",
        "the counters are the declared task's own",
    ),
    Column("task_kind", _TEXT, "name", "declared kind of the task, such as code or setup", _UNTOLD),
    Column(
        "arguments",
        _TEXT,
        "canonical JSON or text",
        "what went in: arguments of a call, news of a response, request of a hand-off, blockers "
        "of an attempt",
        _UNTOLD,
    ),
    Column(
        "result",
        _TEXT,
        "canonical JSON or text",
        "what came out: result or error of a call, answer to a hand-off, completed work of an "
        "attempt",
        _UNTOLD,
    ),
    Column("failed", pl.Boolean(), "flag", "whether the turn failed", _UNTOLD),
    Column("error_type", _TEXT, "name", "type of the failure", _UNTOLD),
    Column("error", _TEXT, "text", "message of the failure", _UNTOLD),
    Column(
        "error_kind", _TEXT, "name", "kind of the failure, such as network", "no failure is known"
    ),
    Column("location", _TEXT, "path", "file:line of the failure, else file or function", _UNTOLD),
    Column("trace_hash", _TEXT, "hash", "stack trace of the failure, else its text", _UNTOLD),
    Column("text", _TEXT, "text", "what a model or a person said", _UNTOLD),
    Column("step", _TEXT, "id", "shared by the parallel calls of a response", "it is alone"),
    Column("order_ns", _INT, _NS, "when the turn was known: its end, of a step its first end"),
    Column("start_ns", _INT, _NS, "start of the turn"),
    Column("end_ns", _INT, _NS, "end of the turn"),
    Column(
        "finish_reason",
        _TEXT,
        "name",
        "why a model stopped: length, content_filter, or in its producer's word",
        _UNTOLD,
    ),
    Column(
        "service_tier",
        _TEXT,
        "name",
        "tier of the service that answered, in its word: batch, flex, priority",
        _UNTOLD,
    ),
    Column(
        "compacted",
        pl.Boolean(),
        "flag",
        "whether the history that a model was given was compacted",
        _UNTOLD,
    ),
    Column(
        "input_tokens", _INT, "tokens", "all tokens that the model read, also from a cache", _UNTOLD
    ),
    Column(
        "output_tokens", _INT, "tokens", "all tokens that the model wrote, also in thought", _UNTOLD
    ),
    Column("cached_tokens", _INT, "tokens", "part of the input read from a cache", _UNTOLD),
    Column("cache_write_tokens", _INT, "tokens", "part of the input put into a cache", _UNTOLD),
    Column("reasoning_tokens", _INT, "tokens", "part of the output that is thought", _UNTOLD),
    Column("tests_failed", _INT, "tests", "failed tests of a run, errors included", _UNTOLD),
    Column("tests_total", _INT, "tests", "tests of the run, skipped ones included", _UNTOLD),
    Column("coverage", pl.Float64(), "percent", "coverage that the run measured", _UNTOLD),
    Column("markers", _INT, "count", "files, dependencies and code added, as recorded", _UNTOLD),
    Column("metrics", _TEXT, "JSON object", "numbers of the author's own, by name", _UNTOLD),
    Column("service", _TEXT, "name", "`service.name` of the resource", "the resource has none"),
    # Columns that `fingerprint` computes from the row. Equal texts are the same thing.
    Column("call", _TEXT, "hash", "tool and arguments; what a model was given; a message", _UNTOLD),
    Column("outcome", _TEXT, "hash", "result or error, volatile parts masked", _UNTOLD),
    Column("signature", _TEXT, "text", "what was done or asked, blocks or failed, short", _UNTOLD),
    Column("response", _TEXT, "hash", "text of a model, and the calls it asks for", _UNTOLD),
    Column(
        "talks_on",
        _TEXT,
        "hash",
        "response that a model's history ends with",
        "this response or that one asks for calls, or there is none",
    ),
)
# SQL has it beside them, computed when it is read.
MONEY_COLUMN = Column(
    "money", pl.Float64(), "currency", "what a response cost by the price of its model", "no price"
)
# docs/schema.md explains each column.
TURN_SCHEMA = schema_of(TURN_COLUMNS)


TurnTuple = tuple[Any, ...]  # a row of `TURN_SCHEMA`
TurnKey = tuple[str | None, ...]  # `TURN_KEY`
# All tokens of a response, and those that are parts of them.
TOKEN_COLUMNS = (
    *("input_tokens", "output_tokens"),
    *("cached_tokens", "cache_write_tokens", "reasoning_tokens"),
)

# Places of the columns of a turn.
AT = {name: place for place, name in enumerate(TURN_SCHEMA)}

# A parallel call that ends later than this after the first of its step stands at its own end, so a
# live engine never waits for it.
STEP_SPREAD_S = 60
TURN_KEY = ("trace_id", "span_id", "kind", "call_id")

IS_USER = pl.col("kind") == "user"
# Turns that count in a report. A switch is already there as an attempt.
IS_STEP = ~pl.col("kind").is_in(["user", "switch"])


# Expressions are made once, because live, making them takes longer than sorting by them.
_FIRST_END = pl.col("end_ns").min().over("task", "trace_id", "step")
_TOGETHER = pl.col("step").is_not_null() & (
    pl.col("end_ns") - _FIRST_END <= STEP_SPREAD_S * NS_PER_S
)
_ORDER_NS = pl.when(_TOGETHER).then(_FIRST_END).otherwise("end_ns").alias("order_ns")
_ORDER = (
    pl.col("task"),
    pl.col("order_ns"),
    pl.when(_TOGETHER).then("step").fill_null(""),
    pl.when(_TOGETHER).then(pl.concat_str("call", "outcome", ignore_nulls=True)).fill_null(""),
    pl.col("start_ns"),
    pl.col("span_id"),
    pl.col("call_id").fill_null(""),
    pl.col("kind"),  # A span may be a call and an attempt.
)


_STEPS = (~IS_USER).cum_sum().cast(pl.UInt32).over("task")
# Numbers do not tell the order of two messages between the same turns.
_IN_TIME = (pl.col("order_ns").diff() >= 0).fill_null(value=True) | (
    pl.col("task") != pl.col("task").shift()
)

# The order of numbered turns. A person's message has the number of the turn before it, and comes
# after it.
BY_TURN = ("task", "turn", IS_USER, "order_ns", "start_ns", "span_id", "call_id")


def ordered(turns: pl.DataFrame) -> pl.DataFrame:
    """Sort turns by task and by when they were known; sets `order_ns`.

    A turn is known at its end. Calls that one response asked for in parallel stand together at the
    first of their ends. They are sorted by what they are, not by which was quicker.
    """
    return turns.with_columns(_ORDER_NS).sort(_ORDER)


def placed(turns: Iterable[tuple[Any, ...]]) -> list[tuple[int, tuple[Any, ...]]]:
    """Return some turns of one task in the order of `ordered`, each with its `order_ns`.

    Both functions exist because a call to Polars takes longer than sorting a few turns.
    """
    every = [(*_placed_by(turn), turn) for turn in turns]
    first_ns: dict[tuple[str, str], int] = {}
    for trace_id, step, end_ns, *_ in every:
        if step is not None:
            first_ns[trace_id, step] = min(end_ns, first_ns.get((trace_id, step), end_ns))
    keyed: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []
    for trace_id, step, end_ns, call, outcome, start_ns, span_id, call_id, kind, turn in every:
        order_ns, said = end_ns, ("", "")
        if step is not None and end_ns - first_ns[trace_id, step] <= STEP_SPREAD_S * NS_PER_S:
            order_ns, said = first_ns[trace_id, step], (step, (call or "") + (outcome or ""))
        keyed.append(((order_ns, *said, start_ns, span_id, call_id or "", _KIND_AT[kind]), turn))
    keyed.sort(key=itemgetter(0))
    return [(key[0], turn) for key, turn in keyed]


_placed_by = itemgetter(
    *(AT[name] for name in ("trace_id", "step", "end_ns", "call", "outcome", "start_ns")),
    *(AT[name] for name in ("span_id", "call_id", "kind")),
)
_KIND_AT = {kind: place for place, kind in enumerate(KINDS)}


def numbered(turns: pl.DataFrame) -> pl.DataFrame:
    """Order turns (`TURN_SCHEMA`) and number them from 1 within each task.

    A message to an agent is not one of its steps. It has the number of the turn before it.
    """
    return ordered(turns).with_columns(turn=_STEPS)


def is_numbered(turns: pl.DataFrame) -> bool:
    """Return whether turns that were numbered are as `numbered` would have them.

    They are some of those that it returned, each task's together.
    """
    # A step may have lost the call that ended first.
    is_so = (pl.col("turn") == _STEPS) & _IN_TIME & (pl.col("order_ns") == _ORDER_NS)
    return turns["task"].is_sorted() and bool(turns.select(is_so.all()).item())
