"""The report for machines, as `docs/json-schema.md` describes it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

from looptrace.analyzer.findings import Analysis

SCHEMA = 1

# What JSON lets through unescaped but a terminal or an editor may act on: C1 controls, zero-width
# and bidirectional characters, line separators; and lone surrogates, which are not UTF-8.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def json_report(analysis: Analysis) -> str:
    """Write the analysis as JSON: the same analysis always gives the same text."""
    summary = analysis.summary
    report = {
        "schema": SCHEMA,
        "sessions": summary.sessions,
        "tasks": summary.tasks,
        "turns": summary.turns,
        "spans": summary.spans,
        "tokens": {"input": summary.input_tokens, "output": summary.output_tokens},
        "unknown": asdict(summary.unknown),
        "skipped": [asdict(skipped) for skipped in analysis.skipped],
        "findings": [asdict(finding) for finding in analysis.findings],
    }
    return json_text(report)


def json_text(report: dict[str, Any]) -> str:
    """Write a report as JSON that neither a terminal nor an editor acts on."""
    text = json.dumps(report, ensure_ascii=False, indent=2)
    return _UNSAFE.sub(_escaped, text) + "\n"


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    is_surrogate = "\ud800" <= character <= "\udfff"
    return "\N{REPLACEMENT CHARACTER}" if is_surrogate else f"\\u{ord(character):04x}"
