"""The cases of each rule, in `tests/cases/<rule>.txt`, on both drivers.

A case is a line `turns => verdict`: `silent`, or attempts and turns such as `5 times, 1-5`, several
findings with `;` between them. `[setting=value]` before the turns changes a setting.
"""

from __future__ import annotations

import re

import pytest

from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.contract import Rule
from looptrace.rules.registry import RULES
from tests.drivers import batch, live
from tests.paths import ROOT

CASES = ROOT / "tests" / "cases"
RULE_OF = {rule.name: rule for rule in RULES}
SETTINGS = re.compile(r"^\[(?P<settings>\w+=\d+(?:, \w+=\d+)*)\] ")


def cases() -> list[tuple[str, str, str]]:
    """Read every case: rule, turns, verdict."""
    found = []
    for path in sorted(CASES.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.startswith("#"):
                turns, _, verdict = line.rpartition(" => ")
                found.append((path.stem, turns.strip(), verdict.strip()))
    return found


@pytest.mark.parametrize(("rule", "text", "verdict"), cases())
def test_case(rule: str, text: str, verdict: str) -> None:
    """A rule gives the written verdict in batch, turn by turn, and in any ticks."""
    match = SETTINGS.match(text)
    settings = dict(part.split("=") for part in match["settings"].split(", ")) if match else {}
    rules = [RULE_OF[rule](**{name: int(value) for name, value in settings.items()})]
    turns = turns_in(text[match.end() :] if match else text)
    found = batch(turns, rules)

    said = "; ".join(f"{f.attempts} times, {f.turn_first}-{f.turn_last}" for f in found)
    assert verdict == (said or "silent")
    assert found == live(turns, rules)
    assert found == live(turns, rules, seed=1)


@pytest.mark.parametrize("rule", RULES)
def test_rule_has_cases(rule: type[Rule]) -> None:
    """A rule comes with cases of both kinds."""
    verdicts = [verdict for name, _, verdict in cases() if name == rule.name]
    assert "silent" in verdicts
    assert set(verdicts) != {"silent"}
