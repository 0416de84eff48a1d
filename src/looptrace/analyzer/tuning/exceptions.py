"""Exceptions: overrides after which a loop that is none opens no gate, and what else they end."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl
import tomlkit

from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.gates.incidents import BETWEEN_TURNS, families
from looptrace.analyzer.settings.sections import Settings, with_rules
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.names import NAME_CHARS_MAX
from looptrace.analyzer.tuning.backtest import PartBacktest, backtest_part, joined

_COMMENT_CHARS_MAX = 90


@dataclass(frozen=True, slots=True)
class Repeated:
    """The loop of an incident: what its gates share, and the rules that opened them."""

    family: str
    tools: Sequence[str]
    signature: str
    agent: str
    rules: Collection[str]


def exceptions_of(loop: Repeated, rule_set: RuleSet) -> list[Override]:
    """Return overrides that turn rules off for the turns of a loop; none where none can name it.

    There is one for each turn of a round, with all rules of the family, which see the same loop. Of
    a loop without a signature, as that of a limit, or with one that is no name, all calls of its
    tools and its agent are excepted, from the rules of its gates alone.
    """
    rules = set(loop.rules)
    by_agent = {"agent": loop.agent} if loop.agent else {}
    signatures = list(dict.fromkeys(loop.signature.split(BETWEEN_TURNS)))
    if all(0 < len(each) <= NAME_CHARS_MAX for each in signatures):
        is_one_tool = len(loop.tools) == 1 == len(signatures)
        more = by_agent | ({"tool": loop.tools[0]} if is_one_tool else {})
        selectors = [{"signature": each, **more} for each in signatures]
        of_family = (rule.name for rule in rule_set.rules)
        rules |= {rule for rule in of_family if families().get(rule) == loop.family}
    else:
        selectors = [{"tool": tool, **by_agent} for tool in loop.tools] or [by_agent]
    off = dict.fromkeys(sorted(rules))
    return [Override(off, **each) for each in selectors if each]


def exception_lines(exceptions: Iterable[Override], signature: str, remarks: Sequence[str]) -> str:
    """Return overrides as lines for a settings file, with the loop and remarks as comments."""
    document = tomlkit.document()
    for remark in (f"No loop: {plain(signature, _COMMENT_CHARS_MAX)}", *remarks):
        document.add(tomlkit.comment(remark))
    overrides = tomlkit.aot()
    for each in exceptions:
        table = tomlkit.item(each.selectors)
        table["rules"] = tomlkit.inline_table()
        for rule in each.rules:
            table["rules"][rule] = {"enabled": False}
        overrides.append(table)
    document.add("overrides", overrides)
    return tomlkit.dumps(document)


@dataclass(frozen=True, slots=True)
class Trial:
    """What exceptions would have done to the gates of some days.

    Gates are those of the settings in force, by evaluation: `own` of the loop, `others` of others.
    """

    tasks: int
    own: int
    own_ended: int
    others: int
    others_ended: tuple[str, ...]  # their tasks


@dataclass(frozen=True, slots=True)
class TrialPart:
    """A trial of exceptions on the turns of whole tasks, of those that went on after a moment."""

    settings: Settings
    exceptions: tuple[Override, ...]
    since_ns: int

    def __call__(self, turns: pl.DataFrame) -> PartBacktest:
        """Evaluate the settings without and with the exceptions."""
        recent = turns.filter(pl.col("end_ns").max().over("task") >= self.since_ns)
        rule_set = self.settings.policy.rule_set
        overrides = (*rule_set.overrides, *self.exceptions)
        excepting = with_rules(self.settings, replace(rule_set, overrides=overrides))
        return backtest_part(recent, self.settings, excepting)


def trial_of(parts: Iterable[PartBacktest], own: Collection[tuple[str, str]]) -> Trial:
    """Return the trial of its parts; `own` are tasks and rules of the gates of the loop."""
    tested = joined(parts)
    before = [(row, row.a) for row in tested.rows if row.a]
    of_loop = [row for row, gate in before if (row.task, gate.rule) in own]
    others = [row for row, gate in before if (row.task, gate.rule) not in own]
    return Trial(
        tested.tasks,
        len(of_loop),
        sum(row.b is None for row in of_loop),
        len(others),
        tuple(row.task for row in others if row.b is None),
    )
