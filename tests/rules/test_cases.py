"""The cases of each rule, in `tests/cases/<rule>.txt`, on both drivers.

A case is two lines: its name, and indented below it `turns => verdict`. The verdict is `silent`, or
attempts and turns such as `5 times, 1-5`, several findings with `;` between them.
`[setting=value]` before the turns changes a setting.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.testing.notation import NotationError, parse, tasks_in
from looptrace.rules.contract import Rule
from looptrace.rules.registry import RULES
from tests.drivers import batch, live
from tests.paths import ROOT
from tests.rules.models import ready

CASES = ROOT / "tests" / "cases"
RULE_OF = {rule.name: rule for rule in RULES}
CASE = re.compile(
    r"\s+(?:\[(?P<settings>\w+=\d+(?:, \w+=\d+)*)\] )?(?P<turns>\S.*) => (?P<verdict>\S.*)"
)


class CaseError(ValueError):
    """A file of cases is not written as it should be; the message begins with path and line."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case, and where it is written: `tests/cases/repeated_call.txt:12`."""

    where: str
    name: str
    rule: str
    settings: dict[str, int]
    turns: str
    verdict: str


def cases_in(path: Path, text: str) -> Iterator[Case]:
    """Yield the cases of a file's text.

    Raises:
        CaseError: if no rule has the name of the file, a case has no name or no verdict, a name
            has no case or comes twice, or turns are not in the notation.
    """
    if path.stem not in RULE_OF:
        raise CaseError(f"{path.relative_to(ROOT)}:1: there is no rule {path.stem!r}")
    name, names = "", set[str]()
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path.relative_to(ROOT)}:{number}"
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace() != bool(name):
            raise CaseError(f"{where}: a case is its name, and its turns indented below it")
        if not name:
            name = line.strip()
            continue
        match = CASE.fullmatch(line)
        if match is None:
            raise CaseError(f"{where}: expected `turns => verdict`")
        if name in names:
            raise CaseError(f"{where}: there is another case with the name {name!r}")
        names.add(name)
        try:
            parse(match["turns"])
        except NotationError as error:
            raise CaseError(f"{where}: {error}") from error
        pairs = (part.split("=") for part in (match["settings"] or "").split(", ") if part)
        settings = {key: int(value) for key, value in pairs}
        yield Case(where, name, path.stem, settings, match["turns"], match["verdict"])
        name = ""
    if name:
        raise CaseError(f"{where}: the last name has no case")


ALL = [
    case
    for path in sorted(CASES.glob("*.txt"))
    for case in cases_in(path, path.read_text(encoding="utf-8"))
]


class Verdicts(NamedTuple):
    """What is found in the turns of one case, by each driver."""

    batch: list[Finding]
    one_by_one: list[Finding]
    in_ticks: list[Finding]


def judge(cases: Sequence[Case]) -> dict[str, Verdicts]:
    """Judge cases of one rule and its settings side by side; return the verdicts by `where`.

    Each case is a task of its own, and no other rule is there to look back further than this one.
    """
    changes: dict[str, Any] = dict(cases[0].settings)
    rules = [replace(ready(RULE_OF[cases[0].rule]), **changes)]
    turns = tasks_in({case.where: case.turns for case in cases})
    drivers = (batch(turns, rules), live(turns, rules), live(turns, rules, seed=1))
    return {
        case.where: Verdicts(*([f for f in found if f.task == case.where] for found in drivers))
        for case in cases
    }


def check(case: Case, verdicts: Verdicts) -> None:
    """Hold the verdicts on a case against the written one.

    Raises:
        AssertionError: if one is another.
    """
    found = "; ".join(f"{f.attempts} times, {f.turn_first}-{f.turn_last}" for f in verdicts.batch)

    assert case.verdict == (found or "silent"), f"{case.where}: {case.name}"
    assert verdicts.batch == verdicts.one_by_one, f"{case.where}: {case.name}, turn by turn"
    assert verdicts.batch == verdicts.in_ticks, f"{case.where}: {case.name}, in ticks"


def judged_alike(case: Case) -> str:
    """Return the rule of a case and its settings."""
    return " ".join([case.rule, *(f"{name}={value}" for name, value in case.settings.items())])


@pytest.mark.parametrize("alike", sorted({judged_alike(case) for case in ALL}))
def test_cases(alike: str) -> None:
    """A rule gives the written verdicts in batch, turn by turn, and in any ticks."""
    cases = [case for case in ALL if judged_alike(case) == alike]
    verdicts = judge(cases)
    for case in cases:
        check(case, verdicts[case.where])


@pytest.mark.parametrize("rule", RULES)
def test_rule_has_cases(rule: type[Rule]) -> None:
    """A rule comes with cases of both kinds."""
    silent = {case.verdict == "silent" for case in ALL if case.rule == rule.name}
    assert silent == {True, False}, (
        f"tests/cases/{rule.name}.txt must hold a case that is silent and one that is not."
    )


def test_failing_case_says_where_it_is() -> None:
    """A person must come from a failed test to the line of the case in one step."""
    text = (
        "right verdict\n    ping(a)->1 x2 => silent\nwrong verdict\n    ping(a)->1 x3 => silent\n"
    )
    right, wrong = cases_in(CASES / "repeated_call.txt", text)
    verdicts = judge([right, wrong])
    check(right, verdicts[right.where])

    with pytest.raises(AssertionError, match=r"^tests/cases/repeated_call\.txt:4: wrong verdict"):
        check(wrong, verdicts[wrong.where])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("    ping(a)->1 => silent", "repeated_call.txt:1: a case is its name"),
        ("one\ntwo\n    ping(a)->1 => silent", "repeated_call.txt:2: a case is its name"),
        ("one\n    ping(a)->1 x3", "repeated_call.txt:2: expected `turns => verdict`"),
        ("one\n  a()->1 => silent\none\n  a()->2 => silent", "repeated_call.txt:4: there is"),
        ("one\n", "repeated_call.txt:1: the last name has no case"),
        ("one\n    ping(a => silent", "repeated_call.txt:2: expected a turn"),
    ],
)
def test_malformed_case_says_where_it_is(text: str, says: str) -> None:
    """A case without a name, or a line that is no case, would else be passed over."""
    with pytest.raises(CaseError, match=f"^tests/cases/{re.escape(says)}"):
        list(cases_in(CASES / "repeated_call.txt", text))


def test_cases_of_no_rule_are_refused() -> None:
    """Cases under a misspelt name would each fail, and none would say why."""
    with pytest.raises(CaseError, match=r"^tests/cases/repeated_cal\.txt:1: there is no rule"):
        list(cases_in(CASES / "repeated_cal.txt", "one\n    ping(a)->1 => silent"))
