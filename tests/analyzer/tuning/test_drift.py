"""A promise is tested on the runs that its limit spares, and withdrawn where they break it."""

import json
import random
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.detect.spared_tasks import is_spared
from looptrace.analyzer.settings.sections import parsed
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.testing.notation import tasks_in
from looptrace.analyzer.tuning.certificates import Run, RunKind
from looptrace.analyzer.tuning.drift import EVIDENCE_MAX, evidence_of, promise_tests
from looptrace.analyzer.tuning.limits import limited
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.contract import Rule, Rung, SettingError
from looptrace.rules.guards.consecutive_errors import ConsecutiveErrors
from tests.collector.server.test_promises import failing
from tests.commands import run
from tests.drivers import batch, live

SHARE, SEEDS, DRAWS = 0.05, 400, 600
SQL = RunKind("sql", "", "m")


def evidence(share: float, seed: int, draws: int = DRAWS) -> float:
    """Return the greatest evidence where runs are lost with this chance."""
    chance = random.Random(seed)
    return evidence_of((chance.random() < share for _ in range(draws)), SHARE)


def test_a_promise_that_is_kept_is_hardly_ever_withdrawn() -> None:
    """At most one in 20, although it is looked at after each of 600 runs."""
    withdrawn = sum(evidence(SHARE, seed) >= EVIDENCE_MAX for seed in range(SEEDS))
    assert withdrawn <= 0.05 * SEEDS
    # The bound is not empty: half as much evidence comes more often.
    assert sum(evidence(SHARE, seed) >= EVIDENCE_MAX / 4 for seed in range(SEEDS)) > withdrawn


@pytest.mark.parametrize(("times", "runs"), [(2, 500), (4, 100), (8, 40)])
def test_a_broken_promise_is_withdrawn_soon(times: int, runs: int) -> None:
    """Nine of ten within so many solved runs."""
    found = [evidence(SHARE * times, seed, runs) >= EVIDENCE_MAX for seed in range(100)]
    assert sum(found) >= 90


def guard(spared: int) -> Rule:
    """Return a guard with a learned limit."""
    made = limited(ConsecutiveErrors(), 4, SHARE, spared)
    assert made is not None
    return made


def test_some_tasks_are_spared_and_the_same_ones_live() -> None:
    """A gate is a warning there, in batch and live; the share is that of the settings."""
    names = [f"task-{number}" for number in range(200)]
    turns = tasks_in(dict.fromkeys(names, '(run({n})->!"unlike {n}") x8'))
    rule = guard(20)
    actions = {finding.task: finding.action for finding in batch(turns, [rule])}
    assert actions == {finding.task: finding.action for finding in live(turns, [rule], seed=1)}
    spared = [name for name, action in actions.items() if action == "warn"]
    assert spared == [name for name in actions if is_spared(name, rule)]
    assert 20 <= len(spared) <= 60
    assert {finding.action for finding in batch(turns, [guard(0)])} == {"gate"}


def solved_run(number: int, gate_rule: str = "", kind: RunKind = SQL) -> Run:
    """Return a solved run, which the limit would have stopped if that rule has a gate."""
    name = f"run-{number}"
    return Run(name, kind, name, name, True, 9, 3 if gate_rule else 0, {}, gate_rule, number)


def test_only_spared_runs_of_the_kind_are_draws() -> None:
    """Where the gate opens nobody knows how the run would have ended."""
    rule = guard(50)
    rules = RuleSet(overrides=(Override({rule.name: rule}, task_kind="sql"),))
    runs = [solved_run(n, rule.name if n % 2 else "") for n in range(100)]
    others = [solved_run(n, rule.name, RunKind("web", "", "m")) for n in range(100, 200)]
    (test,) = promise_tests([*runs, *others], rules)
    spared = [each for each in runs if is_spared(each.task, rule)]
    assert (test.solved, test.beyond) == (len(spared), sum(each.later > 0 for each in spared))
    assert test.is_withdrawn
    (warning,) = test.warning().rules.values()
    assert warning is not None
    assert [rung.action for rung in warning.ladder] == ["warn"]
    assert [
        *promise_tests(runs, RuleSet(overrides=(Override({rule.name: guard(0)}, agent="a"),)))
    ] == []


@pytest.mark.parametrize(
    ("rung", "why"),
    [
        (Rung(5, "gate", 60.0), "has lost_percent 60.0; it must be between 0 and 50"),
        (Rung(5, "gate", 5.0, 90), "has spared_percent 90; it must be between 0 and 50"),
        (Rung(5, "warn", 5.0), "has lost_percent, which is for gates"),
        (Rung(5, "gate", 0.0, 5), "has spared_percent without lost_percent"),
    ],
)
def test_a_promise_is_one_of_a_gate(rung: Rung, why: str) -> None:
    """A typing error must not spare tasks."""
    with pytest.raises(SettingError, match=why):
        replace(ConsecutiveErrors(), ladder=(rung,))


def test_no_other_gate_spares_a_task() -> None:
    """A loop that is proven is stopped in every task."""
    with pytest.raises(SettingError, match="has lost_percent, which is for gates at limits"):
        replace(RepeatedCall(), ladder=(Rung(4, "gate", 5.0, 5),))
    ladder = '[{ attempts = 4, action = "gate", spared_percent = 5 }]'
    with pytest.raises(SettingsError, match=r"x.toml:2: .*spared_percent without lost_percent"):
        parsed(f"[rules.repeated_call]\nladder = {ladder}".encode(), "x.toml")


def test_the_command_withdraws_a_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit is learned; a new model fails more often and is solved all the same."""
    monkeypatch.chdir(tmp_path)
    outcomes = [{"session": f"s{n}", "solved": n % 3 > 0} for n in range(300)]
    sent = [failing(n, 3 if outcomes[n]["solved"] else 8) for n in range(300)]
    texts = [json.dumps(each.request()) for each in sent]
    Path("runs.jsonl").write_text("\n".join(texts))
    Path("outcomes.jsonl").write_text("\n".join(map(json.dumps, outcomes)))
    command = ["calibrate", "runs.jsonl", "--outcomes", "outcomes.jsonl", "--lost", "5%"]
    learned = run(*command, "--write", "--spared", "30")
    assert learned.exit_code == 0, learned.output
    (override,) = tomllib.loads(Path("looptrace.toml").read_text())["overrides"]
    (ladder,) = (rule["ladder"] for rule in override["rules"].values())
    assert (ladder[-1]["lost_percent"], ladder[-1]["spared_percent"]) == (5.0, 30)
    kept = run(*command)
    assert "spared, 0 had gone beyond it; it promised 5 %" in kept.stdout
    assert "100 of 100" in kept.stdout

    Path("runs.jsonl").write_text(
        "\n".join(json.dumps(failing(n, 8).request()) for n in range(300))
    )
    withdrawn = run(*command, "--write")
    assert "the promise is withdrawn" in withdrawn.stdout
    (override,) = tomllib.loads(Path("looptrace.toml").read_text())["overrides"]
    (ladder,) = (rule["ladder"] for rule in override["rules"].values())
    assert {rung["action"] for rung in ladder} == {"warn"}
    assert "it only warns" in Path("looptrace.toml").read_text()
