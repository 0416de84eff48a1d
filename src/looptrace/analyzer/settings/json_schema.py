"""The JSON schema of `looptrace.toml`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from looptrace.analyzer.detect.counters import METRICS, Counting
from looptrace.analyzer.detect.ruleset import SELECTORS
from looptrace.analyzer.engine.outages import OutageSettings
from looptrace.analyzer.fingerprint.equivalence import PATTERN_CHARS_MAX
from looptrace.analyzer.fingerprint.similarity import LETTERS, MEASURES, Meaning
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.section_docs import (
    _CONVERGES_DOC,
    _DIRECTIVES_DOC,
    _ENABLED_DOC,
    _LADDER_DOC,
    _LIMITS,
    _MASK_DOCS,
    _MASTER_DOC,
    _MEANING_DOCS,
    _MODEL_DOC,
    _SECTION_DOCS,
    _SELECTOR_DOCS,
    _TOOL_DOCS,
    _WEBHOOK_DOCS,
    _recovery_rows,
)
from looptrace.analyzer.settings.sections import (
    CONVERGES_ON,
    DEFAULT_PROFILE,
    DIRECTIVES,
    ENABLED,
    FILE_NAME,
    LADDER,
    MASKS_MAX,
    MEANING,
    MEASURE,
    MODEL,
    OVERRIDES_MAX,
    PHASES_MAX,
    PRIVATE_MAX,
    PROFILES,
    TOOL_KEYS_MAX,
    TOOLS_MAX,
    UNBLOCK,
    WEBHOOKS_MAX,
)
from looptrace.analyzer.settings.toml_reader import TEXT_CHARS_MAX
from looptrace.analyzer.settings.webhook import (
    FILTER_MAX,
    FILTERS,
    FORMATS,
    SECRETS_MAX,
    URL_CHARS_MAX,
)
from looptrace.rules.contract import ACTIONS, RUNG_ATTEMPTS_MAX, RUNGS_MAX, Rule, numbers
from looptrace.rules.docs import summary
from looptrace.rules.registry import known_rules


def schema() -> str:
    """Return the JSON schema of the file; that ladders rise is more than it can say."""
    rules = _object({rule.name: _rule_schema(rule) for rule in known_rules()})
    attempts = {"type": "integer", "minimum": 1, "maximum": RUNG_ATTEMPTS_MAX}
    rung = _object({"attempts": attempts, "action": {"enum": list(ACTIONS)}})
    definitions = {
        LADDER: _list(rung | {"required": list(rung["properties"])}, RUNGS_MAX, least=1),
        "rules": rules,
        "text": _text_schema(TEXT_CHARS_MAX),
    }
    profile = {
        "description": " ".join(f"{name}: {about.doc}" for name, about in PROFILES.items()),
        "enum": list(PROFILES),
        "default": DEFAULT_PROFILE,
    }
    sections: dict[str, Any] = {
        ENABLED: {"type": "boolean", "default": True, "description": _MASTER_DOC},
        "profile": profile,
        DIRECTIVES: {**_text_schema(TEXT_CHARS_MAX), "description": _DIRECTIVES_DOC},
        MODEL: {**_text_schema(TEXT_CHARS_MAX), "description": _MODEL_DOC},
        "recovery": _recovery_schema(),
        "outages": _object(
            {name: _number_schema(*one) for name, one in numbers(OutageSettings()).items()}
        ),
        "rules": _ref("rules", "rules"),
        "overrides": _list(_override_schema(), OVERRIDES_MAX),
        "phases": _names(_phase_schema(), PHASES_MAX),
        MEANING: _meaning_schema(),
        "tools": _names(_tool_schema(), TOOLS_MAX),
        "masks": _list(_mask_schema(), MASKS_MAX),
        "webhooks": _list(_webhook_schema(), WEBHOOKS_MAX),
        "server": _object({name: _number_schema(*one) for name, one in _LIMITS.items()}),
    }
    for name, doc in _SECTION_DOCS.items():
        sections[name]["description"] = doc
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:looptrace:settings:1",
        "title": FILE_NAME,
        **_object(sections),
        "$defs": definitions,
    }
    return f"{json.dumps(whole, indent=2, ensure_ascii=False)}\n"


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _list(items: dict[str, Any], most: int, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _names(values: dict[str, Any], most: int) -> dict[str, Any]:
    """Describe a table whose keys are names of somebody's own."""
    names = {"minLength": 1, "maxLength": TEXT_CHARS_MAX}
    about = {"propertyNames": names, "additionalProperties": values, "maxProperties": most}
    return {"type": "object", **about}


def _ref(name: str, doc: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}", "description": doc}


def _text_schema(most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most}


def _number_schema(value: int, about: Mapping[str, Any]) -> dict[str, Any]:
    bounds = {"minimum": about["ge"], "maximum": about["le"]}
    return {"type": "integer", **bounds, "default": value, "description": about["doc"]}


def _recovery_schema() -> dict[str, Any]:
    known = {**numbers(Recovery()), **numbers(Counting())}
    properties = {name: _number_schema(*one) for name, one in known.items()}
    ((_, default, _, doc),) = [row for row in _recovery_rows() if row[0] == UNBLOCK]
    properties[UNBLOCK] = {"type": "boolean", "default": default, "description": doc}
    return _object(properties)


def _override_schema() -> dict[str, Any]:
    selectors = {name: _ref("text", doc) for name, doc in _SELECTOR_DOCS.items()}
    rules = {**_ref("rules", _SECTION_DOCS["rules"]), "minProperties": 1}
    described = _object({**selectors, "rules": rules})
    asked = [{"required": [name]} for name in SELECTORS]
    return {**described, "required": ["rules"], "anyOf": asked}


def _phase_schema() -> dict[str, Any]:
    metric = {"enum": list(METRICS), "description": _CONVERGES_DOC}
    return {**_object({CONVERGES_ON: metric}), "required": [CONVERGES_ON]}


def _meaning_schema() -> dict[str, Any]:
    known = numbers(Meaning(LETTERS))
    properties: dict[str, Any] = {
        MEASURE: {"enum": list(MEASURES), "description": _MEANING_DOCS[MEASURE]},
        **{name: _number_schema(*one) for name, one in known.items()},
    }
    return {**_object(properties), "required": [MEASURE]}


def _tool_schema() -> dict[str, Any]:
    properties: dict[str, Any] = {
        name: {**_list(_ref("text", "A key."), TOOL_KEYS_MAX), "description": doc}
        for name, doc in _TOOL_DOCS.items()
    }
    doc = _TOOL_DOCS["polling"]
    properties["polling"] = {"type": "boolean", "default": False, "description": doc}
    return _object(properties)


def _mask_schema() -> dict[str, Any]:
    lengths = {"pattern": PATTERN_CHARS_MAX, "name": TEXT_CHARS_MAX}
    texts = {
        name: {**_text_schema(most), "description": _MASK_DOCS[name]}
        for name, most in lengths.items()
    }
    return {**_object(texts), "required": list(texts)}


def _webhook_schema() -> dict[str, Any]:
    named: dict[str, Any] = {"actions": list(ACTIONS), "rules": [r.name for r in known_rules()]}
    filters = {
        name: _list({"enum": named[name]} if name in named else _text_schema(TEXT_CHARS_MAX), most)
        for name, most in dict.fromkeys(FILTERS, FILTER_MAX).items()
    }
    properties = {
        "name": _text_schema(TEXT_CHARS_MAX),
        "url": _text_schema(URL_CHARS_MAX),
        "format": {"enum": list(FORMATS), "default": FORMATS[0]},
        "secrets": _list(_text_schema(URL_CHARS_MAX), SECRETS_MAX),
        "gate_url": _text_schema(URL_CHARS_MAX),
        "allow_private": _list(_text_schema(TEXT_CHARS_MAX), PRIVATE_MAX),
        **filters,
    }
    described = {
        name: {**about, "description": _WEBHOOK_DOCS[name]} for name, about in properties.items()
    }
    return {**_object(described), "required": ["name", "url"]}


def _rule_schema(rule: Rule) -> dict[str, Any]:
    """Describe a rule's table; defaults are those of the default profile."""
    properties: dict[str, Any] = {
        ENABLED: {"type": "boolean", "default": rule.on_by_default, "description": _ENABLED_DOC}
    }
    for name, (value, about) in rule.settings().items():
        properties[name] = _number_schema(value, about)
    rungs = [{"attempts": rung.attempts, "action": rung.action} for rung in rule.ladder]
    properties[LADDER] = {**_ref(LADDER, _LADDER_DOC), "default": rungs}
    return {"description": summary(type(rule)), **_object(properties)}
