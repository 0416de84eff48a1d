"""The detection policy: all that decides which loops are found and what follows from them."""

from dataclasses import dataclass, field

from looptrace.analyzer.detect.budgets.limits import Budgets
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.fields.dialect_table import SHIPPED, DialectTable
from looptrace.analyzer.fingerprint.equivalence import Sameness
from looptrace.analyzer.gates.recovery import Recovery


@dataclass(frozen=True, slots=True)
class DetectionPolicy:
    """The rules in force, the recovery before a person decides, and what counts as the same."""

    rule_set: RuleSet = field(default_factory=RuleSet)
    recovery: Recovery = field(default_factory=Recovery)
    sameness: Sameness = field(default_factory=Sameness)
    dialects: DialectTable = SHIPPED  # by which spans are read
    budgets: Budgets = field(default_factory=Budgets)


DEFAULT = DetectionPolicy()
