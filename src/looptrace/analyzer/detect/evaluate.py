"""Turns to stretches: rules applied to columns, and their verdicts joined to loops.

Batch and live both come through here, batch with whole tasks and live with the ends of those that
changed. A stretch is a maximal run of firing turns of one lane, with all turns that belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from looptrace.analyzer.detect.columns import columns
from looptrace.analyzer.detect.ruleset import OFF, Override, RuleForms, RuleSet
from looptrace.analyzer.detect.stretches import (
    LaneEvaluation,
    Stretch,
    StretchRows,
    read_stretches,
    stretch_rows,
)
from looptrace.rules.contract import Evaluation
from looptrace.rules.turns import Codes, Flags, Lane

# What a verdict says of each turn.
_MIXED = ("reached", "needed", "period", "length", "what")


def find_stretches(
    table: pl.DataFrame, judging: RuleSet, fresh: Sequence[Flags | None] = (None,)
) -> list[list[Stretch]]:
    """Apply the rules to turns that are ordered, coded and counted.

    Each of `fresh` says which rows count as judged, None all; the others only serve to look back
    on. Returned are the stretches for each of them.
    """
    found: list[list[StretchRows]] = [[] for _ in fresh]
    for one in evaluate_rules(table, judging):
        fires = np.flatnonzero(one.verdict.fires)
        for rows, so_far in zip(fresh, found, strict=True):
            chosen = fires if rows is None else fires[rows[one.lane.rows[fires]]]
            so_far.extend(stretch_rows(one, chosen))
    return [read_stretches(table, members) for members in found]


def evaluate_rules(table: pl.DataFrame, judging: RuleSet) -> Iterator[LaneEvaluation]:
    """Apply each rule to turns that are ordered, coded and counted."""
    every = judging.forms()
    turns = columns(table, texts=_read_by(every), meaning=judging.meaning)
    lanes = {spec: turns.lane(spec) for spec in {forms.lane for forms in every}}
    fits = [_fits(table, override) for override in judging.overrides]
    for forms in every:
        lane = lanes[forms.lane]
        held = np.broadcast_to(np.int64(forms.base), len(lane.rows))
        if forms.overridden:
            held = held.copy()
        for override, form in forms.overridden:
            held[fits[override][lane.rows]] = form
        yield LaneEvaluation(forms.rules, lane, _verdict(forms, lane, held), held)


def _read_by(every: Sequence[RuleForms]) -> set[str]:
    """Return the kinds of turn whose texts the rules read."""
    reading = [forms.lane for forms in every if any(rule.reads_texts for rule in forms.rules)]
    return {kind for lane in reading for kind in lane.kinds}


def _fits(table: pl.DataFrame, override: Override) -> Flags:
    """Say which turns an override is for; what a turn does not say fits none."""
    given = [pl.col(name) == value for name, value in override.selectors.items() if name != "tool"]
    if override.tool is not None:
        given += [pl.col("kind") == "tool", pl.col("name") == override.tool]
    fits = table.select(pl.all_horizontal(given).fill_null(value=False))
    return fits.to_series().to_numpy()


def _verdict(forms: RuleForms, lane: Lane, held: Codes) -> Evaluation:
    """Let each form judge the lane, and take of each turn what the form says that holds there.

    Earlier turns count whatever held at them. Where the rule is off it gets nowhere.
    """
    first = forms.rules[0].judge(lane)
    if not forms.overridden:
        return first
    mixed: dict[str, Any] = {
        name: np.array(np.broadcast_to(getattr(first, name), held.shape)) for name in _MIXED
    }
    for form, rule in enumerate(forms.rules[1:], 1):
        here = held == form
        if here.any():
            verdict = rule.judge(lane)
            for name, column in mixed.items():
                np.copyto(column, getattr(verdict, name), where=here)
    mixed["reached"][held == OFF] = 0
    return replace(first, **mixed)
