"""The sentences that describe the sections of `looptrace.toml`, and their examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from looptrace.analyzer.detect.counters import METRICS, Counting
from looptrace.analyzer.fingerprint.similarity import LETTERS, Meaning
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.sections import CONVERGES_ON, UNBLOCK
from looptrace.analyzer.settings.server_limits import Limits
from looptrace.analyzer.settings.webhook import FORMATS
from looptrace.rules.contract import numbers

_ENABLED_DOC = "Whether the rule judges at all."


_LADDER_DOC = "Which action from how many attempts on; attempts rise, and no action gets weaker."


_DIRECTIVES_DOC = "Folder of templates, beside the file, for what agents are told."


_MODEL_DOC = "File by `looptrace train`, beside the file, for the rule likely_loop."


_MASTER_DOC = "The master switch; false lets no rule judge."


_SECTION_DOCS = {
    "recovery": "How a looping task is brought back, and when counts begin anew.",
    "outages": "When one failure that many sessions meet is told once; [more](outages.md).",
    "rules": "Each rule: whether it judges, its thresholds, and its ladder of actions.",
    "overrides": (
        "Rules that judge otherwise where a turn fits. Each starts from what holds for all turns; "
        "of several that fit a turn, the last wins, rule by rule."
    ),
    "phases": (
        "Iterative phases. While the metric gets better, visits to the phase and transitions to "
        "it count from 1 again."
    ),
    "meaning": (
        "How requests to agents, and searches with one result, are compared that are not the same "
        "word by word; without this section, not at all. [More](near_sameness.md)"
    ),
    "tools": "What makes calls of a tool the same.",
    "masks": "Parts of results and errors that do not make them differ.",
    "server": "What `looptrace serve` may take up: bytes, seconds, and how long things are kept.",
    "webhooks": "Receivers that events of gates are sent on to; [more](webhooks.md).",
}


_SELECTOR_DOCS = {
    "phase": "The turn's phase, as declared.",
    "agent": "The name of the turn's agent.",
    "task_kind": "The kind of the turn's task, as declared.",
    "tool": "The name of the tool that the turn calls.",
}


_CONVERGES_DOC = f"What gets better: {', '.join(METRICS)}."


_MEANING_DOCS = {
    "measure": (
        "sentences: embeddings of a language model, which need the extra `semantic`; letters: "
        "three letters in a row, which only sees the same words in another order or form."
    ),
    **{name: about["doc"] for name, (_, about) in numbers(Meaning(LETTERS)).items()},
}


_TOOL_DOCS = {
    "volatile_keys": "Arguments that do not count, by key or path with dots.",
    "same_call": "The only arguments that count, instead of volatile_keys.",
    "polling": "Whether asking again is what the tool is for, so that its calls never repeat.",
}


_MASK_DOCS = {
    "pattern": "A regular expression in the syntax of Rust's regex, which takes linear time.",
    "name": "What stands for the part.",
}


_WEBHOOK_DOCS = {
    "name": "What it is called in lists, metrics and errors.",
    "url": "Where to send: https://..., or env:VARIABLE or file:PATH that holds the address.",
    "format": f"One of {', '.join(FORMATS)}.",
    "secrets": (
        "Where the secrets lie (env:VARIABLE or file:PATH), the newest first; two while one is "
        "replaced by the other. Of pagerduty the integration key."
    ),
    "gate_url": "Link to a gate for people, with {gate} and {task} in it.",
    "allow_private": "Networks within which the receiver may lie though they are not public.",
    "rules": "Only events of these rules.",
    "actions": "Only events that ask for one of these actions.",
    "agents": "Only events of these agents.",
    "services": "Only events of these services (service.name).",
}


_LISTED_DOCS = {
    "overrides": _SELECTOR_DOCS,
    "phases": {CONVERGES_ON: _CONVERGES_DOC},
    "meaning": _MEANING_DOCS,
    "tools": _TOOL_DOCS,
    "masks": _MASK_DOCS,
    "webhooks": _WEBHOOK_DOCS,
}


_EXAMPLES = {
    "overrides": """[[overrides]]
phase = "refine"

[overrides.rules.phase_visits]
max_visits = 20
""",
    "phases": """[phases.refine]
converges_on = "tests_failed"
""",
    "meaning": """[meaning]
measure = "letters"
similar_percent = 85
""",
    "tools": """[tools.get_status]
polling = true

[tools.search]
volatile_keys = ["session_token"]
""",
    "masks": """[[masks]]
pattern = "build-[0-9]+"
name = "<build>"
""",
    "webhooks": """[[webhooks]]
name = "on-call"
url = "https://hooks.example.com/looptrace"
secrets = ["env:LOOPTRACE_WEBHOOK_SECRET"]
actions = ["gate"]
""",
}


_LIMITS = numbers(Limits())


def _bounds(about: Mapping[str, Any]) -> str:
    return f"{about['ge']} to {about['le']}"


def _recovery_rows() -> list[tuple[str, Any, str, str]]:
    """Return name, default, bounds and meaning of everything in the section `recovery`."""
    counts = {**numbers(Recovery()), **numbers(Counting())}
    rows = [(name, value, _bounds(about), about["doc"]) for name, (value, about) in counts.items()]
    (unblock,) = [item for item in fields(Recovery) if item.name == UNBLOCK]
    return [*rows, (UNBLOCK, Recovery().unblock, "true or false", unblock.metadata["doc"])]
