"""Thresholds are written into a settings file, and nothing else of it changes."""

import re
from dataclasses import replace

from looptrace.analyzer.detect.ruleset import Override
from looptrace.analyzer.settings.outcomes.sources import OutcomeSources
from looptrace.analyzer.settings.sections import Settings, parsed, with_rules
from looptrace.analyzer.settings.toml_editor import (
    with_model,
    with_outcomes,
    with_override,
    with_thresholds,
)
from looptrace.analyzer.tuning.calibrate import with_threshold
from looptrace.rules.contract import Rung
from looptrace.rules.guards.max_iterations import MaxIterations

COMMENTED = """# Ours since May.
profile = "balanced" # as it comes

# Rounds are cheap here.
[rules.cycle] # the planner
rounds_min = 3 # three
# Ask Mia before this changes.

# The people of operations wait.
[[overrides]]
# They said so.
task_kind = "ops"
[overrides.rules.repeated_call]
attempts_min = 9 # nine
# What follows is for the drafts.
[[overrides]]
phase = "draft"
rules.stutter = { attempts_min = 5 } # five

# A small machine.
[server]
decoders = 3
"""
NAME = "looptrace.toml"


def read(text: str) -> Settings:
    """Read settings from a text."""
    return parsed(text.encode(), NAME)


def raised(settings: Settings, kinds: dict[str, int], **thresholds: int) -> Settings:
    """Return settings with other thresholds, and those of `repeated_call` for kinds of task."""
    rule_set = settings.policy.rule_set
    (call,) = [rule for rule in rule_set.rules if rule.name == "repeated_call"]
    rules = tuple(
        with_threshold(rule, thresholds[rule.name]) if rule.name in thresholds else rule
        for rule in rule_set.rules
    )
    for_kinds = [
        Override({call.name: with_threshold(call, value)}, task_kind=kind)
        for kind, value in kinds.items()
    ]
    others = [override for override in rule_set.overrides if override.task_kind is None]
    return with_rules(settings, replace(rule_set, rules=rules, overrides=(*for_kinds, *others)))


def test_every_comment_stays_where_it_is() -> None:
    """A team's reasons stand in the comments, and a tool that loses them is used once."""
    wanted = raised(read(COMMENTED), {"reading": 7, "ops": 11}, stutter=6, response_repeat=5)
    text = with_thresholds(COMMENTED, NAME, wanted)

    assert text is not None
    assert re.findall("#.*", text) == re.findall("#.*", COMMENTED)
    assert "attempts_min = 11 # nine" in text
    assert "rounds_min = 3 # three" in text
    assert [one.task_kind for one in read(text).policy.rule_set.overrides] == [
        "reading",
        "ops",
        None,
    ]
    assert read(text) == wanted


def test_only_what_differs_is_written() -> None:
    """A short file stays short, however its lines end and its keys are written."""
    text = "rules.repeated_call.attempts_min = 4\r\n"
    wanted = raised(read(text), {}, repeated_call=6)

    assert with_thresholds(text, NAME, wanted) == text.replace("4", "6")
    assert with_thresholds(COMMENTED, NAME, read(COMMENTED)) == COMMENTED


def test_an_override_without_effect_goes() -> None:
    """A kind with the common threshold needs no override, and gets none."""
    text = "[[overrides]]\ntask_kind = 'ops'\nrules.repeated_call.attempts_min = 9\n"

    assert with_thresholds(text, NAME, raised(read(text), {})) == ""


def test_no_comment_is_lost() -> None:
    """What would take a comment away, or move an override, is not written."""
    assert with_thresholds(COMMENTED, NAME, raised(read(COMMENTED), {})) is None
    late = (
        "[[overrides]]\nphase = 'a'\nrules.repeated_call.attempts_min = 8\n"
        "[[overrides]]\ntask_kind = 'ops'\nrules.repeated_call.attempts_min = 9\n"
    )
    assert with_thresholds(late, NAME, raised(read(late), {"ops": 5})) is None
    inline = "overrides = [{ phase = 'a', rules = { stutter = { attempts_min = 8 } } }]\n"
    assert with_thresholds(inline, NAME, raised(read(inline), {"ops": 5})) is None
    kind = "[[overrides]]\ntask_kind = 'ops'\nrules.stutter.attempts_min = 9 # nine\n"
    assert with_thresholds(kind, NAME, raised(read(kind), {"ops": 5})) is None
    why = "[[overrides]]\n# why\ntask_kind = 'ops'\nrules.repeated_call.attempts_min = 9\n"
    assert with_thresholds(why, NAME, raised(read(why), {})) is None


def test_a_kind_gets_an_override_before_others() -> None:
    """A rule that another override switches off stays off."""
    off = "[[overrides]]\nphase = 'a'\nrules.cycle.enabled = false\n"
    for text in ("", off):
        wanted = raised(read(text), {"ops": 5})
        assert read(with_thresholds(text, NAME, wanted) or "") == wanted


def test_a_learned_limit_is_the_last_override() -> None:
    """It replaces the one before for the same turns, switches its rule on, and says its source."""
    gate = Rung(1, "gate", lost_percent=5.0, spared_percent=2)
    limit = MaxIterations(max_iterations=90, ladder=(gate,))
    before = "rules.max_iterations.max_iterations = 5\n"
    text = f"[[overrides]]\nphase = 'a'\n{before}[[overrides]]\nmodel = 'm'\n{before}"
    text += "rules.cycle.rounds_min = 4\n"
    once = with_override(text, NAME, Override({limit.name: limit}, model="m"), "of 90 runs")
    other, kept, learned = read(once).policy.rule_set.overrides
    assert (other.phase, [*kept.rules], learned.rules) == ("a", ["cycle"], {limit.name: limit})
    assert "# of 90 runs" in once

    alone = f"[[overrides]]\nmodel = 'm'\n{before}"
    (learned,) = read(
        with_override(alone, NAME, Override({limit.name: limit}, model="m"), "of 90 runs")
    ).policy.rule_set.overrides
    assert learned.rules == {limit.name: limit}

    off = "[rules.max_iterations]\nenabled = false\n"
    for selectors in ({}, {"model": "m"}):
        on = read(with_override(off, NAME, Override({limit.name: limit}, **selectors), "runs"))
        rules = {rule.name: rule for rule in on.policy.rule_set.rules}
        given = on.policy.rule_set.overrides[0].rules if selectors else rules
        assert given[limit.name] == limit


def test_a_model_and_outcomes_are_named() -> None:
    """The rest of the file stays."""
    lines = with_model(COMMENTED, "a.json").splitlines()
    assert [line for line in lines if line and "a.json" not in line] == [
        line for line in COMMENTED.splitlines() if line
    ]
    sources = OutcomeSources(evaluation="correctness=pass", decisions=True)
    assert read(with_outcomes(COMMENTED, sources)).outcomes == sources
