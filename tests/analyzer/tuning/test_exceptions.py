"""Exceptions name a loop as narrowly as an override can."""

from typing import Any

import pytest

from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.settings.sections import parsed
from looptrace.analyzer.tuning.exceptions import Repeated, exception_lines, exceptions_of

RULES = RuleSet()
CALL, TURNED = "error:Timeout#1", "read#1 \u2192 edit#2"


@pytest.mark.parametrize(
    ("loop", "selectors", "more"),
    [
        (
            Repeated("calls", ["fetch"], CALL, "scout", {"repeated_call"}),
            [{"signature": CALL, "tool": "fetch", "agent": "scout"}],
            {"repeated_failure"},
        ),
        (
            Repeated("cycles", ["edit", "read"], TURNED, "", {"cycle"}),
            [{"signature": "read#1"}, {"signature": "edit#2"}],
            set(),
        ),
        (Repeated("max_runtime", [], "", "scout", {"max_runtime"}), [{"agent": "scout"}], set()),
        (
            Repeated("calls", ["fetch"], "x" * 201, "", {"repeated_call"}),
            [{"tool": "fetch"}],
            set(),
        ),
        (Repeated("max_runtime", [], "", "", {"max_runtime"}), [], set()),
    ],
)
def test_an_exception_is_narrow(loop: Repeated, selectors: list[Any], more: set[str]) -> None:
    """Rules of the family see the same loop; without a signature only its own are off."""
    found = exceptions_of(loop, RULES)
    assert [each.selectors for each in found] == selectors
    assert all({*loop.rules} | more <= each.rules.keys() for each in found)
    assert all(len(each.rules) == 1 for each in found if not each.signature)


def test_lines_are_settings() -> None:
    """Names with quotes and signatures with lines stay texts and comments."""
    loop = Repeated("max_runtime", [], "", 'a "b"', {"max_runtime"})
    found = exceptions_of(loop, RULES)
    lines = exception_lines(found, "x\n[rules.cycle]", ["tried"])
    assert lines.startswith("# No loop: x [rules.cycle]\n# tried\n")
    (override,) = parsed(lines.encode(), "f").policy.rule_set.overrides
    assert (override.agent, override.tool) == ('a "b"', None)
