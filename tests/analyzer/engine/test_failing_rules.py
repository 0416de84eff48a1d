"""Rules of other distributions that fail: live they are left out, in files they are an error."""

from typing import cast

import pytest

from looptrace.analyzer.plugins import PluginError
from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.contract import Evaluation, Loop, Rule
from looptrace.rules.turns import Lane
from tests.drivers import batch, live


class Broken(RepeatedCall):
    """A rule of another distribution that fails in some way."""

    name = "broken"

    def evaluate(self, lane: Lane) -> Evaluation:
        """Look for a column that is not there."""
        return cast("Evaluation", lane.no_such_column)  # type: ignore[attr-defined]


class Short(RepeatedCall):
    """A rule that answers for too few turns."""

    name = "short"

    def evaluate(self, lane: Lane) -> Evaluation:
        """Answer for no turn."""
        none = lane.rows[:0]
        return Evaluation(none, 1, none, none, none)


class Wordless(RepeatedCall):
    """A rule that finds a loop, and has no sentence for it."""

    name = "wordless"

    def say(self, loop: Loop) -> str:
        """Name a label that is not there."""
        return loop.labels[9]


@pytest.mark.parametrize("rule", [Broken(), Short(), Wordless()], ids=lambda rule: rule.name)
def test_live_a_rule_that_fails_is_left_out_alone(
    rule: Rule, caplog: pytest.LogCaptureFixture
) -> None:
    """One bad plug-in must not end the detection of all rules; its author learns of it, once."""
    table = turns_in("read(a)->text x8")

    found = live(table, [rule, RepeatedCall()])

    assert [finding.rule for finding in found] == ["repeated_call"]
    (line,) = caplog.messages
    assert line.startswith(f"the rule '{rule.name}' of {__name__} failed (")
    assert line.endswith("Until this process starts again, the rule is left out.")
    with pytest.raises(PluginError, match=f"the rule '{rule.name}' of"):
        batch(table, [rule, RepeatedCall()])
