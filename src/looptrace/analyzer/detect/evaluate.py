"""Counted turns to stretches: rules applied to columns, and their evaluations joined to loops.

Batch and live both use this module, batch with whole tasks and live with the ends of tasks that
changed. A stretch is a maximal run of firing turns of one lane, with all turns that belong to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from looptrace.analyzer.detect.columns import columns
from looptrace.analyzer.detect.loop_rows import SIGN, TableReader, TurnReader
from looptrace.analyzer.detect.rule_plugins import asked
from looptrace.analyzer.detect.ruleset import OFF, LeftOut, Override, RuleForms, RuleSet
from looptrace.analyzer.detect.stretches import (
    LaneEvaluation,
    Stretch,
    StretchRows,
    read_stretches,
    stretch_rows,
)
from looptrace.analyzer.plugins import PluginError
from looptrace.rules.contract import Evaluation, Rule, constant
from looptrace.rules.registry import RULES
from looptrace.rules.turns import KINDS, Codes, Flags, Lane, LaneSpec, Turns

# The model of a counted turn; a response without a name ends that of its agent's earlier ones.
_MODEL = (
    pl.when(pl.col("kind") == "model")
    .then(pl.col("name").fill_null(""))
    .forward_fill()
    .over("task", "resets_seen", "agent")
)
# The columns of an evaluation.
_MIXED = ("reached", "needed", "period", "length", "what")


def find_stretches(
    table: pl.DataFrame, rule_set: RuleSet, asked: Collection[int] | None = None
) -> list[Stretch]:
    """Apply the rules to counted turns, or those of them at these places of `forms()`."""
    every = [
        forms for place, forms in enumerate(rule_set.forms()) if asked is None or place in asked
    ]
    seen = columns_seen(table, rule_set, every)
    return stretches_in(seen, every, TableReader(table), [None])[0]


def stretches_in(
    seen: Seen, every: Sequence[RuleForms], reader: TurnReader, fresh: Sequence[Flags | None]
) -> list[list[Stretch]]:
    """Apply the rules to what they see of turns; `find_stretches` does this for a table."""
    stretches: list[list[StretchRows]] = [[] for _ in fresh]
    for lane_evaluation in evaluations_of(seen, every, fresh):
        fires = lane_evaluation.evaluation.fires.nonzero()[0]
        if not len(fires):
            continue
        for rows, so_far in zip(fresh, stretches, strict=True):
            chosen = fires if rows is None else fires[rows[lane_evaluation.lane.rows[fires]]]
            so_far.extend(stretch_rows(lane_evaluation, chosen))
    every_loop = (read_stretches(seen.turns, reader, members) for members in stretches)
    return [[*_with_words(loops, seen.left_out)] for loops in every_loop]


class Seen(NamedTuple):
    """What rules see of turns, and the turns that each override is for."""

    turns: Turns
    fits: list[Flags]
    left_out: LeftOut | None


def evaluate_rules(table: pl.DataFrame, rule_set: RuleSet) -> Iterator[LaneEvaluation]:
    """Apply each rule to counted turns."""
    every = rule_set.forms()
    return evaluations_of(columns_seen(table, rule_set, every), every)


def columns_seen(table: pl.DataFrame, rule_set: RuleSet, every: Sequence[RuleForms]) -> Seen:
    """Return what these rules see of a table of counted turns."""
    texts, times = kinds_read(every), reads_times(every)
    turns = columns(table, texts=texts, meaning=rule_set.meaning, times=times)
    fits = [_fits(table, override) for override in rule_set.overrides]
    return Seen(turns, fits, rule_set.left_out)


def evaluations_of(
    seen: Seen, every: Sequence[RuleForms], fresh: Sequence[Flags | None] = (None,)
) -> Iterator[LaneEvaluation]:
    """Apply each rule to what it sees of counted turns, if its lane has any of `fresh`."""
    turns = seen.turns
    lanes = _lanes_of(turns, {forms.lane for forms in every}, fresh)
    for forms in every:
        lane = lanes.get(forms.lane)
        if lane is None or forms.name in (seen.left_out or ()):
            continue
        held = constant(forms.base, len(lane.rows))
        if forms.overridden:
            held = held.copy()
        for override, form in forms.overridden:
            held[seen.fits[override][lane.rows]] = form
        try:
            evaluation = _evaluation(forms, lane, held)
        except PluginError as error:
            if seen.left_out is None:
                raise
            seen.left_out.note(forms.name, error)
            continue
        yield LaneEvaluation(forms.rules, lane, evaluation, held)


def _lanes_of(
    turns: Turns, specs: Iterable[LaneSpec], fresh: Sequence[Flags | None]
) -> dict[LaneSpec, Lane]:
    """Return the lanes in which a rule may fire at a fresh turn."""
    chosen = [rows for rows in fresh if rows is not None]
    if len(chosen) < len(fresh):
        return {spec: turns.lane(spec) for spec in specs}
    rows = np.logical_or.reduce(chosen)
    kinds = {KINDS[kind] for kind in np.bincount(turns.kind[rows]).nonzero()[0].tolist()}
    return {
        spec: turns.lane(spec)
        for spec in specs
        if not kinds.isdisjoint(spec.kinds) and (turns.among(spec) & rows).any()
    }


def kinds_read(every: Sequence[RuleForms]) -> set[str]:
    """Return the kinds of turn with texts that the rules read."""
    reading = [forms.lane for forms in every if any(rule.reads_texts for rule in forms.rules)]
    return {kind for lane in reading for kind in lane.kinds}


def reads_times(every: Iterable[RuleForms]) -> bool:
    """Return whether any of the rules reads how long turns took."""
    return any(rule.reads_times for forms in every for rule in forms.rules)


def _fits(table: pl.DataFrame, override: Override) -> Flags:
    """Mark the counted turns that an override is for; an unknown value of a turn fits none."""
    wanted = [
        pl.col(name) == value
        for name, value in override.selectors.items()
        if name not in ("model", "tool", "signature")
    ]
    if override.model is not None:
        wanted.append(_MODEL.eq(override.model))
    if override.tool is not None:
        wanted += [pl.col("kind") == "tool", pl.col("name") == override.tool]
    if override.signature is not None:
        wanted.append(SIGN.eq(override.signature))
    fits = table.select(pl.all_horizontal(wanted).fill_null(value=False))
    return fits.to_series().to_numpy()


def _evaluation(forms: RuleForms, lane: Lane, held: Codes) -> Evaluation:
    """Let each form evaluate the lane, and take for each turn the result of the form in force.

    Earlier turns count whatever form was in force at them. Where the rule is off, it never fires.
    """
    first = _evaluated(forms.rules[0], lane)
    if not forms.overridden:
        return first
    mixed: dict[str, Any] = {
        name: np.array(np.broadcast_to(getattr(first, name), held.shape)) for name in _MIXED
    }
    for form, rule in enumerate(forms.rules[1:], 1):
        here = held == form
        if here.any():
            evaluation = _evaluated(rule, lane)
            for name, column in mixed.items():
                np.copyto(column, getattr(evaluation, name), where=here)
    mixed["reached"][held == OFF] = 0
    return replace(first, **mixed)


def _evaluated(rule: Rule, lane: Lane) -> Evaluation:
    def evaluate(lane: Lane) -> Evaluation:
        evaluation = rule.evaluate(lane)
        if evaluation.reached.shape != lane.rows.shape:
            raise ValueError("its columns do not have one element for each turn")
        return evaluation

    return asked(rule, evaluate, lane)


def _with_words(loops: Iterable[Stretch], left_out: LeftOut | None) -> Iterator[Stretch]:
    """Return the loops that their rules can describe."""
    if left_out is None:
        yield from loops
        return
    for loop in loops:
        try:
            if type(loop.rule) not in RULES:
                loop.reason_at(loop.fired[-1])
        except PluginError as error:
            left_out.note(loop.rule.name, error)
        else:
            yield loop
