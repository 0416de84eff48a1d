"""The findings table: one row per finding, as a store keeps it, with its cost in columns."""

from typing import get_args

import polars as pl

from looptrace.analyzer.schema.column import Column, schema_of
from looptrace.rules.contract import Action

_TEXT, _INT, _TURN = pl.String(), pl.Int64(), pl.UInt32()
_LOOP_TURN = pl.Struct({"trace_id": _TEXT, "span_id": _TEXT, "turn": _TURN, "role": _TEXT})

FINDING_COLUMNS = (
    Column("id", _TEXT, "id", "the finding; it stays while the loop grows"),
    Column("rule", _TEXT, "name", "rule that found the loop"),
    Column("task", _TEXT, "id", "task that loops"),
    Column("session", _TEXT, "id", "session of the first turn of the loop"),
    Column("trace_id", _TEXT, "id", "trace of the first turn of the loop"),
    Column("agent", _TEXT, "name", 'agent that loops; "" for rules over the whole task'),
    Column("turn_first", _TURN, "turns", "first turn of the loop"),
    Column("turn_last", _TURN, "turns", "last turn of the loop"),
    Column("attempts", _INT, "times", "occurrences of what repeats"),
    Column("loop_count", _INT, "times", "repeats: attempts - 1"),
    Column("period", _INT, "turns", "turns of one round of a cycle; 1 elsewhere"),
    Column("signature", _TEXT, "text", "short form of what repeats"),
    Column("reason", _TEXT, "text", "the loop in words"),
    Column("action", _TEXT, "name", f"what the ladder asks for: {', '.join(get_args(Action))}"),
    Column(
        "turns",
        pl.List(_LOOP_TURN),
        "list",
        "turns of the loop; role `first` is what others repeat",
    ),
    Column("cost_seconds", pl.Float64(), "s", "time from the start of the loop to its end"),
    Column("cost_input_tokens", _INT, "tokens", "tokens that models read meanwhile"),
    Column("cost_output_tokens", _INT, "tokens", "tokens that models wrote meanwhile"),
)
FINDING_SCHEMA = schema_of(FINDING_COLUMNS)

# They are computed when they are read, because they depend on the other findings of the task, and
# on prices.
LOOP_COLUMNS = (
    Column("loop", _TEXT, "id", "loop of the finding: the id of the finding that leads it"),
    Column("leads", pl.Boolean(), "boolean", "whether its loop is counted as this finding"),
    Column("cost_money", pl.Float64(), "currency", "what models cost meanwhile", "no prices"),
)
