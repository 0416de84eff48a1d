"""A learned limit promises no more than the runs show that did not choose it."""

import json
import random
import tomllib
from math import log
from pathlib import Path

import pytest

from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.settings.sections import default, parsed
from looptrace.analyzer.tuning.certificates import COUNTERS, Peak, Run, RunKind, runs_of
from looptrace.analyzer.tuning.limits import limited, limits
from looptrace.rules.contract import Rule
from tests.analyzer.tuning.test_certificates import solved, turns_of
from tests.collector.server.test_promises import failing
from tests.commands import run
from tests.seeds import seeds

RULES: RuleSet = default().policy.rule_set
KIND = RunKind("sql", "", "")
STEPS = 200
GOES_ON = 0.95  # the chance that one more call of a solved run fails


def counted(name: str, is_solved: bool, kind: RunKind = KIND, **reached: int) -> Run:
    """Return a run of many steps, in which some rules count so far, one step after the other."""
    peaks = {
        rule: tuple(Peak(number, STEPS - number) for number in range(1, most + 1))
        for rule, most in reached.items()
    }
    return Run(name, kind, name, name, is_solved, STEPS, 0, peaks)


def runs(solved_runs: int, others: int, seed: int) -> list[Run]:
    """Return runs that were solved, in which rules count by chance, and others that loop."""
    chance = random.Random(seed)
    made = []
    for number in range(solved_runs):
        reached = {rule: int(chance.expovariate(-log(GOES_ON))) for rule in COUNTERS}
        made.append(counted(f"{seed}-s{number}", True, KIND, **reached))
    loops = dict.fromkeys(COUNTERS, 150)
    return [*made, *(counted(f"{seed}-o{n}", False, KIND, **loops) for n in range(others))]


def test_promises_hold_for_runs_to_come() -> None:
    """Of the limits no more than one in 20 loses more than it said, but for chance.

    On the half that chose one of five rules a fifth of the promises would be broken.
    """
    chosen = seeds(60)
    made = [limit for seed in chosen for limit in limits(runs(240, 10, seed), RULES, 0.1)]
    # A run goes beyond a limit with this chance.
    broken = sum(GOES_ON ** (each.most + 1) > each.together.at_most for each in made)
    assert len(made) == len(chosen)
    assert broken <= 0.05 * len(chosen) + 2 * (0.05 * 0.95 * len(chosen)) ** 0.5


def test_too_few_runs_promise_nothing() -> None:
    """Twenty solved runs choose nothing, and a hundred do not promise one in a hundred."""
    assert limits(runs(20, 50, 1), RULES, 0.01) == []
    (limit,) = limits(runs(100, 50, 1), RULES, 0.01)
    assert not limit.is_kept(0.01)
    assert limit.together.needed is None or limit.together.needed > limit.together.losable


def test_a_limit_that_saves_nothing_is_none() -> None:
    """Where solved runs fail as often as others, no limit helps."""
    alike = [counted(f"{n}", n % 2 == 0, no_news=12) for n in range(400)]
    assert limits(alike, RULES, 0.05) == []


def test_each_kind_has_its_own() -> None:
    """A limit for one kind of work says nothing of another."""
    other = RunKind("web", "", "")
    patient = [
        counted(f"w{n}", n < 300, other, consecutive_errors=120 if n < 300 else 160)
        for n in range(500)
    ]
    found = {each.kind: each.most for each in limits([*runs(400, 200, 3), *patient], RULES, 0.05)}
    assert found[other] >= 120 > found[KIND]


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.name)
def test_a_rule_with_a_limit_gates_beyond_it(rule: Rule) -> None:
    """Whatever rule is limited, its settings are valid, or it is not limited."""
    made = limited(rule, 5)
    assert made is None or made.ladder[-1].action == "gate"


def test_what_is_counted_is_what_the_rule_counts() -> None:
    """A peak is the first turn at which a rule would fire with that limit."""
    turns = turns_of("t", 'say("a") (run({n})->!"boom {n}") x4 read(x)->ok (run({n})->!"b {n}") x2')
    (made,) = runs_of(turns, default(), solved("t"))
    assert made.peaks["consecutive_errors"] == (Peak(1, 6), Peak(2, 5), Peak(3, 4), Peak(4, 3))


def test_the_command_writes_what_keeps_its_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file says from what a limit was learned, and the next run is judged with it."""
    monkeypatch.chdir(tmp_path)
    solved_runs = [number % 3 > 0 for number in range(300)]
    outcomes = [
        {"session": f"s{n}", "solved": is_solved} for n, is_solved in enumerate(solved_runs)
    ]
    sent = [failing(n, 3 if is_solved else 8) for n, is_solved in enumerate(solved_runs)]
    Path("runs.jsonl").write_text("\n".join(json.dumps(each.request()) for each in sent))
    Path("outcomes.jsonl").write_text("\n".join(map(json.dumps, outcomes)))
    command = ["calibrate", "runs.jsonl", "--outcomes", "outcomes.jsonl", "--lost", "5%"]
    told = run(*command, "--write")
    assert told.exit_code == 0, told.output
    text = Path("looptrace.toml").read_text()
    assert "learned from" in text
    (override,) = tomllib.loads(text)["overrides"]
    assert override["task_kind"] == "sql"
    assert len(parsed(text.encode(), "looptrace.toml").policy.rule_set.overrides) == 1
    assert "100 of 100" in run(*command).stdout
