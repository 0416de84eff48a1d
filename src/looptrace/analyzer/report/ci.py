"""The report for pipelines: JUnit, SARIF 2.1.0, GitHub's annotations and Markdown."""

from __future__ import annotations

import json  # people read SARIF, too
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import looptrace
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.loops import CountedLoop, loops_in
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.report.templating import template
from looptrace.analyzer.report.verdict import nothing_text, verdict, warning_text
from looptrace.analyzer.report.wording import (
    NAME_LENGTH_MAX,
    SENTENCE_LENGTH_MAX,
    cost_text,
    counted,
    loop_money_text,
)
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.display import plain
from looptrace.errors import InputError
from looptrace.rules.docs import summary
from looptrace.rules.registry import RULES
from looptrace.typed_json import decoded

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SARIF_VERSION = "2.1.0"
_SARIF_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
# The identity of a loop across runs; GitHub reads the second name.
_FINGERPRINTS = ("looptraceLoop/v1", "primaryLocationLineHash")
# GitHub accepts at most so many results of a file, and so many annotations of a step.
_RESULTS_MAX = 5_000
_ANNOTATIONS_MAX = 10
# A job summary, a comment or the failure of a test is read by a person.
_ROWS_MAX = 100
_LINES_MAX = 20

# A loop is the same in the next run by its rule and signature, or without one by its task.
LoopKey = tuple[str, str]


class _KnownFinding(msgspec.Struct):
    rule: str
    signature: str
    task: str


class _Baseline(msgspec.Struct):
    findings: list[_KnownFinding]


@dataclass(frozen=True)  # Without slots: the loops are counted once, where they are asked for.
class Loops:
    """The loops of an analysis that no outage explains, and which of them are in a baseline."""

    analysis: Analysis
    known: frozenset[LoopKey] | None = None  # None where there is no baseline

    @cached_property
    def groups(self) -> tuple[CountedLoop, ...]:
        """The loops, the strongest first."""
        return tuple(loops_in(self.analysis.own))

    def is_known(self, group: CountedLoop) -> bool:
        """Return whether the baseline has this loop."""
        return self.known is not None and _key(group.lead) in self.known

    @property
    def new(self) -> tuple[CountedLoop, ...]:
        """The loops that the baseline does not have."""
        return tuple(group for group in self.groups if not self.is_known(group))

    @property
    def new_gates(self) -> int:
        """The number of opened gates, except those of known loops."""
        known = {
            finding.id
            for group in self.groups
            if self.is_known(group)
            for finding in group.findings
        }
        events = self.analysis.events
        return sum(e.type == "gate_opened" and e.finding not in known for e in events)


def baseline_of(file: Path) -> frozenset[LoopKey]:
    """Return the loops of a report that `--format json` wrote.

    Raises:
        InputError: if the file cannot be read, or is not such a report.
    """
    try:
        report = decoded(file.read_bytes(), _Baseline)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}; check the path.") from error
    except msgspec.DecodeError as error:
        raise InputError(
            f"{file} is not a baseline ({error}); write one with --format json --output {file}."
        ) from error
    return frozenset(map(_key, report.findings))


def junit_report(loops: Loops) -> str:
    """Write a test case for each task; it fails where the task has a new loop."""
    # The other forms are no XML.
    from xml.etree.ElementTree import Element, SubElement, indent, tostring  # noqa: PLC0415

    def case_of(name: str) -> Element:
        name = plain(name, NAME_LENGTH_MAX)
        return SubElement(suite, "testcase", classname="looptrace", name=name)

    of_task: dict[str, list[CountedLoop]] = {}
    for group in loops.new:
        of_task.setdefault(group.lead.task, []).append(group)
    tasks = loops.analysis.tasks
    skipped = problems_of(loops.analysis)
    counts = {"tests": len(tasks) + len(skipped), "failures": len(of_task), "errors": len(skipped)}
    suites = Element("testsuites", {name: str(count) for name, count in counts.items()})
    suite = SubElement(suites, "testsuite", {"name": "looptrace", **suites.attrib})
    for task in tasks:
        case = case_of(task)
        if groups := of_task.get(task):
            failure = SubElement(case, "failure", type=groups[0].lead.rule)
            failure.set("message", _message(groups[0].lead))
            failure.text = "\n".join(_sentence(group, loops.analysis) for group in groups)
    for part in skipped:
        error = SubElement(case_of(part.where), "error", type="skipped")
        error.set("message", plain(part.why, SENTENCE_LENGTH_MAX))
    indent(suites)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{head}{tostring(suites, encoding='unicode')}\n"


def sarif_report(loops: Loops, source: str) -> str:
    """Write the loops as results of a SARIF run; `source` is the path that was analysed."""
    shown = loops.groups[:_RESULTS_MAX]
    names = sorted({group.lead.rule for group in shown})
    texts = {rule.name: summary(rule) for rule in RULES}
    rules = [_rule(name, texts.get(name, f"The rule {name} of a plug-in.")) for name in names]
    notes = [
        {"level": "error", "message": {"text": _line(part.where, part.why)}}
        for part in problems_of(loops.analysis)
    ]
    run = {
        "tool": {"driver": {"name": "looptrace", "version": looptrace.__version__, "rules": rules}},
        "invocations": [{"executionSuccessful": not notes, "toolExecutionNotifications": notes}],
        "results": [_result(group, loops, names, source) for group in shown],
    }
    log = {"$schema": _SARIF_SCHEMA, "version": SARIF_VERSION, "runs": [run]}
    return f"{json.dumps(log, indent=2)}\n"


def _rule(name: str, text: str) -> dict[str, Any]:
    about = {"text": text}
    how = {"text": f"`looptrace rule {name}` shows its settings, and what it ignores."}
    return {"id": name, "shortDescription": about, "fullDescription": about, "help": how}


def _result(group: CountedLoop, loops: Loops, names: Sequence[str], source: str) -> dict[str, Any]:
    lead, known = group.lead, loops.is_known(group)
    place: dict[str, Any] = {
        # GitHub accepts no result without a line, and the spans of a task are on many lines.
        "physicalLocation": {"artifactLocation": {"uri": source}, "region": {"startLine": 1}},
        "logicalLocations": [{"name": plain(lead.task, NAME_LENGTH_MAX), "kind": "task"}],
    }
    result: dict[str, Any] = {
        "ruleId": lead.rule,
        "ruleIndex": names.index(lead.rule),
        "level": _level(group),
        "message": {"text": _sentence(group, loops.analysis)},
        "locations": [place],
        "partialFingerprints": dict.fromkeys(_FINGERPRINTS, digest(" ".join(_key(lead)))),
    }
    if loops.known is not None:
        result["baselineState"] = "unchanged" if known else "new"
    return result


def github_report(loops: Loops) -> str:
    """Write GitHub's workflow commands: an annotation for each loop, and the verdict."""
    new_first = sorted(loops.groups, key=loops.is_known)
    lines = []
    for group in new_first[:_ANNOTATIONS_MAX]:
        level = "notice" if loops.is_known(group) else _level(group)
        title = _escaped(f"looptrace: {group.lead.rule}").replace(",", "%2C").replace(":", "%3A")
        lines.append(f"::{level} title={title}::{_escaped(_sentence(group, loops.analysis))}")
    skipped = problems_of(loops.analysis)[:_ANNOTATIONS_MAX]
    lines += [f"::error title=looptrace::{_escaped(_line(p.where, p.why))}" for p in skipped]
    lines.append(_verdict(loops))
    return "".join(f"{line}\n" for line in lines)


def markdown_report(loops: Loops) -> str:
    """Write the loops as Markdown, for a comment or the summary of a job."""
    new_first = sorted(loops.groups, key=loops.is_known)
    return template("findings.md.j2").render(
        verdict=_verdict(loops),
        rows=[(group.lead, loops.is_known(group)) for group in new_first[:_ROWS_MAX]],
        left_out=max(0, len(new_first) - _ROWS_MAX),
        skipped=loops.analysis.skipped[:_LINES_MAX],
        more_skipped=max(0, len(loops.analysis.skipped) - _LINES_MAX),
    )


def failure_text(loops: Loops) -> str:
    """Write the verdict and a line for each new loop, for the failure of a test."""
    lines = [_verdict(loops), *known_text(loops)]
    lines += [f"  {_sentence(group, loops.analysis)}" for group in loops.new[:_LINES_MAX]]
    if len(loops.new) > _LINES_MAX:
        lines.append(f"  and {counted(len(loops.new) - _LINES_MAX, 'more loop')}")
    return "\n".join(lines)


def problems_of(analysis: Analysis) -> Sequence[Skipped]:
    """Return the parts that were not read; else, where no turn was, what the input is instead."""
    nothing = nothing_text(analysis)
    return analysis.skipped or ([Skipped("input", nothing)] if nothing else [])


def check_something_was_read(analysis: Analysis) -> None:
    """Refuse to pass where there was nothing to check.

    Raises:
        InputError: if there is no turn.
    """
    if nothing := nothing_text(analysis):
        raise InputError(f"{nothing} Is the agent instrumented, and does it end its spans?")


def _verdict(loops: Loops) -> str:
    """Write the verdict, after what makes it worth little."""
    warning = warning_text(loops.analysis)
    return " ".join(filter(None, [warning, verdict(loops.analysis, loops.groups)]))


def _key(finding: Finding | _KnownFinding) -> LoopKey:
    return finding.rule, finding.signature or f"task {finding.task}"


def _level(group: CountedLoop) -> str:
    gated = any(finding.action == "gate" for finding in group.findings)
    return "error" if gated else "warning"


def _message(finding: Finding) -> str:
    return plain(finding.reason, SENTENCE_LENGTH_MAX)


def _sentence(group: CountedLoop, analysis: Analysis) -> str:
    lead = group.lead
    task = plain(lead.task, NAME_LENGTH_MAX)
    cost = cost_text(lead.cost, loop_money_text(analysis, lead))
    about = "; ".join(filter(None, (f"{lead.action}, found by {lead.rule}", cost)))
    return f"task {task}: {_message(lead)} ({about})"


def _line(*parts: str) -> str:
    return ": ".join(plain(part, SENTENCE_LENGTH_MAX) for part in parts)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def known_text(loops: Loops) -> Iterable[str]:
    """Yield the sentence about loops that are in the baseline, if there are any."""
    if loops.known and (count := len(loops.groups) - len(loops.new)):
        known = f"{count:,} of {len(loops.groups):,} loops"
        yield f"{known} are in the baseline, and do not count as failures."
