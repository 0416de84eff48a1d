"""A model for the examples of the rule that needs one; it was not learned from anything."""

from collections.abc import Mapping

from looptrace.rules.contract import Rule
from looptrace.rules.prediction.likely_failure import SIGNS, LikelyFailure, Model

_NONE, _ONE = (0.0,) * len(SIGNS), (1.0,) * len(SIGNS)


def model(weights: Mapping[str, float], intercept: float) -> Model:
    """Return a model of six turns, with weights by sign."""
    return Model(6, _NONE, _ONE, tuple(weights.get(sign, 0.0) for sign in SIGNS), intercept)


EXAMPLE = model({"again": 6.9, "same_answer": 6.9, "failed": -20.0}, -2.4)


def ready(rule: type[Rule]) -> Rule:
    """Return a rule as it ships; one that needs a model has that of the examples."""
    return LikelyFailure(model=EXAMPLE) if rule is LikelyFailure else rule()
