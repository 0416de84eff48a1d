"""Detection on labelled runs is as good as docs/quality.json says.

The runs are no part of the project; without them beside it these tests are skipped. Where a change
makes figures better, `python -m benchmarks.quality` writes them anew.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from benchmarks.cases import Result, cases, result_of
from benchmarks.labelled import (
    Flags,
    Label,
    Loop,
    MissingError,
    Runs,
    Score,
    Target,
    distinct,
    labelled_runs,
    score,
)
from benchmarks.quality import ALL, OURS, alarms_of, measured, ours
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.policy import DEFAULT as DEFAULT_POLICY
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.settings.given import settings_of
from looptrace.analyzer.testing.notation import turns_in
from looptrace.collector.files.reader import read_spans
from tests.paths import ROOT, SHARED
from tests.seeds import seeds

RECORDED = ROOT / "docs" / "quality.json"
LABELLED = SHARED / "labelled"
HEALTHY = SHARED / "frameworks"
CASES = SHARED / "cases"
# Figures are rounded where they are recorded.
TOLERANCE = 0.0001

beside = pytest.mark.skipif(
    not LABELLED.is_dir(), reason="the labelled runs are not there: no folder ../shared/labelled"
)


@pytest.fixture(scope="module")
def recorded() -> Any:
    """Return the figures that were recorded."""
    return json.loads(RECORDED.read_text(encoding="utf-8"))


@beside
def test_no_rule_is_worse_than_recorded(recorded: Any) -> None:
    """Precision and recall of the defaults, and of rules alone, are no lower.

    Files that came after the figures were recorded are left out, because they have none.
    """
    files = {score["file"] for score in recorded["scores"]}
    runs = [each for each in labelled_runs(LABELLED) if each.name in files]
    # Each rule alone takes as long as all together, so that each day has its share of the rules.
    detectors = list(ours().items())
    some = dict(detectors[number] for number in {0, *seeds(len(detectors))})
    lines, alarms = measured(runs, some)
    now = {(line.target, line.detector): line.score for line in lines if line.file == ALL}
    flagged = {(one.source, one.detector): len(one.flagged) for one in alarms}
    checked = 0
    for then in recorded["scores"]:
        one = now.get((then["target"], then["detector"]))
        if then["file"] == ALL and one is not None:
            checked += 1
            assert (one.precision or 0) >= then["precision"] - TOLERANCE, then
            assert (one.recall or 0) >= then["recall"] - TOLERANCE, then
    for alarm in recorded["false_alarms"]:
        count = flagged.get((alarm["source"], alarm["detector"]), 0)
        assert count <= len(alarm["flagged"]), alarm
    assert checked >= len({line.target for line in lines})


@pytest.mark.skipif(not HEALTHY.is_dir(), reason="no folder ../shared/frameworks")
def test_no_healthy_trace_is_flagged() -> None:
    """The healthy traces of frameworks are silent with the defaults."""
    (alarms,) = alarms_of(HEALTHY, {OURS: ours()[OURS]})
    assert alarms.healthy
    assert not alarms.flagged


@pytest.fixture(scope="module")
def results() -> list[Result]:
    """Return what is found in each public case."""
    return [result_of(case) for case in cases(CASES)]


@beside
@pytest.mark.skipif(not (HEALTHY.is_dir() and CASES.is_dir()), reason="no folder ../shared")
def test_no_run_spends_more_than_the_defaults_allow(results: list[Result]) -> None:
    """No budget fires by its defaults, but in the public case of a run that costs too much."""
    labelled = [runs.turns for runs in labelled_runs(LABELLED)]
    short = [turns_of(read_spans([str(path)]).spans)[0] for path in sorted(HEALTHY.glob("*.jsonl"))]

    def fired(policy: DetectionPolicy, turns: list[pl.DataFrame]) -> set[str]:
        budgets = tuple(rule for rule in policy.rule_set.rules if "budget" in rule.name)
        alone = replace(policy, rule_set=replace(policy.rule_set, rules=budgets))
        return {finding.rule for each in turns for finding in detect(each, alone).findings}

    healthy = [text for result in results if not result.case.is_loop for text in result.found]
    assert [text for text in healthy if "budget" in text.partition(": ")[0]] == []
    assert fired(DEFAULT_POLICY, labelled + short) == set()
    small = {"rules": {"token_budget": {"task": 1_000}}, "budgets": {"session_tokens": 1_000}}
    found = fired(settings_of(small).policy, short)
    assert found == {"token_budget", "session_tokens_budget"}


@pytest.mark.skipif(not CASES.is_dir(), reason="no folder ../shared/cases")
def test_no_case_is_worse_than_recorded(results: list[Result]) -> None:
    """What is right in the list of public cases stays right, and the page has their number."""
    rows = json.loads((ROOT / "docs/quality_cases.json").read_text(encoding="utf-8"))
    then = {row["case"]: row["outcome"] for row in rows}
    right = sum(outcome == "right" for outcome in then.values())
    page = (ROOT / "docs/quality.md").read_text(encoding="utf-8")
    assert f"{right} of {len(rows)} are right" in page
    now = {result.case.name: result.outcome for result in results}

    assert now.keys() == then.keys()
    assert [name for name in now if then[name] == "right" != now[name]] == []


LABELS = [
    Label("a", 1, "action", "Repetition"),
    Label("a", 2, "action", "Follow-up"),
    Label("a", 3, "action", "Repetition"),
    Label("b", 1, "action", "Follow-up"),
    Label("b", 4, "action", "Repetition"),
]
FLAGS: Flags = {"a": [Loop([0, 1]), Loop([1, 3])], "b": [Loop([0, 1, 2], period=2)]}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        # Steps 1 and 3 of a repeat something; step 2 of b is in the round that ends with 4.
        (Target("", "action", "Repetition", "turn"), Score(3, 0, 0, 2)),
        # A loop whose steps are apart, or whose rounds have several, says nothing of a pair.
        (Target("", "action", "Repetition", "pair"), Score(1, 0, 2, 2)),
        (Target("", "action", "Repetition", "session"), Score(2, 0, 0, 0)),
        (Target("", "action", "Repetition", "session", 2), Score(1, 1, 0, 0)),
        (Target("", "other", "Repetition", "session"), None),
    ],
)
def test_flags_are_held_against_labels(target: Target, expected: Score | None) -> None:
    """Turns, pairs and sessions are counted as their label means it."""
    assert score(target, LABELS, FLAGS) == expected


def _run(session: str, notation: str) -> pl.DataFrame:
    named = {name: pl.lit(session) for name in ("session", "task", "trace_id")}
    return turns_in(notation).with_columns(**named)


def test_a_run_that_a_log_shows_again_counts_once() -> None:
    """The same turns with the same labels are one run, whatever its ids; another end is not."""
    shown = {"a": "look(a)->1 say(done)", "b": "look(a)->1 say(done)", "c": "look(a)->2 say(done)"}
    turns = pl.concat([_run(session, notation) for session, notation in shown.items()])
    solved = [Label(session, None, "solved", value=True) for session in shown]
    kept = distinct(Runs("", turns, {}, tuple(solved)))
    assert sorted(kept.turns["session"].unique()) == ["a", "c"]
    assert [label.session for label in kept.labels] == ["a", "c"]
    failed = replace(solved[1], value=False)
    assert len(distinct(Runs("", turns, {}, (solved[0], failed, solved[2]))).labels) == 3


def test_folder_without_labels_is_refused(tmp_path: Path) -> None:
    """The message says what the folder must hold."""
    with pytest.raises(MissingError, match=r"\*\.labels\.jsonl"):
        labelled_runs(tmp_path)
    (tmp_path / "one.labels.jsonl").write_text("")
    with pytest.raises(MissingError, match=r"add one\.otlp\.jsonl\.gz"):
        labelled_runs(tmp_path)
