"""The turn table: one row a turn of an agent, whatever dialect its spans spoke."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import polars as pl

from looptrace.rules.turns import KINDS
from looptrace.rules.vocabulary import NS_PER_S

# In place of the hash of a response that neither says nor asks for anything.
SILENCE = "0" * 64

# Null always means *unknown*: the trace does not say. A known empty text is "".
TURN_SCHEMA = pl.Schema(
    {
        "task": pl.String(),  # whose counters count: task id, else session@service, else trace
        "session": pl.String(),  # conversation or session id, else the trace id
        "trace_id": pl.String(),
        "span_id": pl.String(),
        "call_id": pl.String(),  # names one of several calls that a model's span shows
        "turn": pl.UInt32(),  # 1, 2, 3, ... of the task; a message has the turn's before it
        "kind": pl.Enum(KINDS),
        "agent": pl.String(),  # "" where no agent is named
        "name": pl.String(),  # of the tool, the model, the agent handed to; status of an attempt
        "phase": pl.String(),
        # Start of the span that declares the phase for those within; null where a call or a
        # response declares its own.
        "phase_start_ns": pl.Int64(),
        "iteration": pl.String(),  # of an orchestrator that lets an agent try again and again
        "subtask": pl.String(),  # the declared task, where the counters are its root's
        "task_kind": pl.String(),  # such as code or setup, as the agent's author declares
        # What went in, as canonical JSON or text: arguments of a call, news of a response, the
        # request of a hand-off, blockers of an attempt.
        "arguments": pl.String(),
        # What came out: of a call, errors included; of a hand-off; the work an attempt completed.
        "result": pl.String(),
        "failed": pl.Boolean(),
        "error_type": pl.String(),
        "error": pl.String(),  # message of the failure
        "error_kind": pl.String(),  # one of `fingerprint.ERROR_KINDS`
        "location": pl.String(),  # of the failure: file:line, else file or function
        "trace_hash": pl.String(),  # hash of the failure's stack trace, else of its text
        "text": pl.String(),  # what a model or a person said
        "step": pl.String(),  # id shared by the calls that one response asked for in parallel
        "order_ns": pl.Int64(),  # when the turn was known: its end, for a step its first end
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "input_tokens": pl.Int64(),
        "output_tokens": pl.Int64(),
        # What a test run told: errors count as failed, skipped tests belong to the total.
        "tests_failed": pl.Int64(),
        "tests_total": pl.Int64(),
        "coverage": pl.Float64(),  # percent
        "markers": pl.Int64(),  # files created, dependencies added, code written, as recorded
        "metrics": pl.String(),  # figures of the author's own, as a JSON object of numbers
        "service": pl.String(),
        # What `fingerprint` makes of the row; equal texts are the same thing.
        "call": pl.String(),  # hash of tool and arguments; of what a model was given; of a message
        "outcome": pl.String(),  # hash of result or error, volatile parts masked
        "signature": pl.String(),  # what was done or asked, blocks or failed, short and readable
        "response": pl.String(),  # hash of a model's text and of the calls it asks for; `SILENCE`
        # Hash of the response that a model's history ends with. It is null where this response or
        # that one asks for calls.
        "talks_on": pl.String(),
    }
)


# Places of the columns of a turn.
AT = {name: place for place, name in enumerate(TURN_SCHEMA)}

# A parallel call that ends longer after the first of its step stands at its own end, so that a live
# engine never waits for it.
STEP_SPREAD_S = 60
TURN_KEY = ("trace_id", "span_id", "kind", "call_id")

IS_USER = pl.col("kind") == "user"
# What counts as a turn in a report; a switch is there as an attempt already.
IS_STEP = ~pl.col("kind").is_in(["user", "switch"])


# Expressions are made once: live, that takes longer than to sort by them.
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
)


def ordered(turns: pl.DataFrame) -> pl.DataFrame:
    """Sort turns by task and by when they were known; sets `order_ns`.

    That is their end. Calls that one response asked for in parallel stand together at the first of
    their ends, in an order that says nothing: by what they are, not by which was quicker.
    """
    return turns.with_columns(_ORDER_NS).sort(_ORDER)


def placed(turns: Iterable[tuple[Any, ...]]) -> list[tuple[int, tuple[Any, ...]]]:
    """Return some turns of one task in the order of `ordered`, each with its `order_ns`.

    There are two, because a call of Polars takes longer than to sort some turns.
    """
    every = [(*_placed_by(turn), turn) for turn in turns]
    first_ns: dict[tuple[str, str], int] = {}
    for trace_id, step, end_ns, *_ in every:
        if step is not None:
            first_ns[trace_id, step] = min(end_ns, first_ns.get((trace_id, step), end_ns))
    keyed: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []
    for trace_id, step, end_ns, call, outcome, start_ns, span_id, call_id, turn in every:
        order_ns, said = end_ns, ("", "")
        if step is not None and end_ns - first_ns[trace_id, step] <= STEP_SPREAD_S * NS_PER_S:
            order_ns, said = first_ns[trace_id, step], (step, (call or "") + (outcome or ""))
        keyed.append(((order_ns, *said, start_ns, span_id, call_id or ""), turn))
    keyed.sort(key=itemgetter(0))
    return [(key[0], turn) for key, turn in keyed]


_placed_by = itemgetter(
    *(AT[name] for name in ("trace_id", "step", "end_ns", "call", "outcome", "start_ns")),
    *(AT[name] for name in ("span_id", "call_id")),
)


def numbered(turns: pl.DataFrame) -> pl.DataFrame:
    """Order turns (`TURN_SCHEMA`) and number them from 1 within each task.

    A message to an agent is no step of it: it has the number of the turn before it.
    """
    steps = (~IS_USER).cum_sum().cast(pl.UInt32)
    return ordered(turns).with_columns(turn=steps.over("task"))
