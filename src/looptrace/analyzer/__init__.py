"""Spans in, findings out: what agents did, which turns repeat which, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from looptrace.lazy_names import lazy_names

if TYPE_CHECKING:
    from looptrace.analyzer.detect.findings import Cost, Finding, LoopTurn
    from looptrace.analyzer.detect.ruleset import Override, RuleSet
    from looptrace.analyzer.engine.analysis import Analysis, Outage, Summary, Unknown
    from looptrace.analyzer.engine.batch import analyse
    from looptrace.analyzer.engine.policy import DetectionPolicy
    from looptrace.analyzer.fingerprint.equivalence import Sameness, TextMask, Tool
    from looptrace.analyzer.gates.events import Failure, GateEvent
    from looptrace.analyzer.gates.recovery import Recovery
    from looptrace.analyzer.schema.spans import SPAN_SCHEMA, Skipped
    from looptrace.analyzer.schema.turns import TURN_SCHEMA
else:  # Without Polars, because an agent's process imports modules below this package.
    _MODULES = {
        "detect.findings": ("Cost", "Finding", "LoopTurn"),
        "detect.ruleset": ("Override", "RuleSet"),
        "engine.analysis": ("Analysis", "Outage", "Summary", "Unknown"),
        "engine.batch": ("analyse",),
        "engine.policy": ("DetectionPolicy",),
        "fingerprint.equivalence": ("Sameness", "TextMask", "Tool"),
        "gates.events": ("Failure", "GateEvent"),
        "gates.recovery": ("Recovery",),
        "schema.spans": ("SPAN_SCHEMA", "Skipped"),
        "schema.turns": ("TURN_SCHEMA",),
    }
    __getattr__, __dir__ = lazy_names(
        __name__,
        {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names},
    )

__all__ = [
    "SPAN_SCHEMA",
    "TURN_SCHEMA",
    "Analysis",
    "Cost",
    "DetectionPolicy",
    "Failure",
    "Finding",
    "GateEvent",
    "LoopTurn",
    "Outage",
    "Override",
    "Recovery",
    "RuleSet",
    "Sameness",
    "Skipped",
    "Summary",
    "TextMask",
    "Tool",
    "Unknown",
    "analyse",
]
