"""The report for machines, as `docs/findings.schema.json` describes it.

Who writes events raises `DirectiveError` where a template of the directives cannot be used.
"""

import json  # texts may hold half surrogate pairs, which msgspec refuses
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.loops import loops_in
from looptrace.analyzer.engine.analysis import Analysis, Money, Outage
from looptrace.analyzer.gates.directives import OWN, Directives
from looptrace.analyzer.gates.event_names import CONTENT, NAMES_BEFORE
from looptrace.analyzer.gates.events import Failure, GateEvent
from looptrace.analyzer.llm_judge import NOBODY_ASKED, NoOpinion, Opinion, Opinions
from looptrace.analyzer.normalize.understanding import COUNTS, Understood
from looptrace.analyzer.schema.turns import TOKEN_COLUMNS
from looptrace.analyzer.text.times import known_us, utc_ms
from looptrace.analyzer.tuning.explain import Explanation, Progress

SCHEMA = 1
MONEY_DECIMALS = 6

# Fields that identify a turn, without content.
_TURN = ("turn", "kind", "agent", "trace_id", "span_id")

_UNASKED = dict.fromkeys(("is_regressive", "no_progress", "is_external", "reasoning", "no_opinion"))

# Characters that JSON leaves unescaped but terminals or editors may act on: C1 controls, zero-width
# and bidirectional characters, line separators; and lone surrogates, which are not UTF-8.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_DELETE = b"\x7f"  # The only unsafe ASCII character.

# Objects written at once: more would take more memory, fewer more time.
OBJECTS_AT_ONCE = 1_000
SHAPES_WRITTEN_MAX = 100

# No record says whether a finding is exact.
_FINDING = [field.name for field in fields(Finding) if field.name != "exact"]
# A report has the names that are known by now, each loop has its turns, and spans have versions.
_LEFT_OUT = {*CONTENT, *NAMES_BEFORE, "at_ns", "tools", "service_version"}
_EVENT = [field.name for field in fields(GateEvent) if field.name not in _LEFT_OUT]
_finding_values, _event_values = attrgetter(*_FINDING), attrgetter(*_EVENT)


def json_report(
    analysis: Analysis, opinions: Opinions = NOBODY_ASKED, directives: Directives = OWN
) -> str:
    """Write the analysis as JSON: the same analysis always gives the same text."""
    return "".join(json_report_parts(analysis, opinions, directives))


def json_report_parts(
    analysis: Analysis, opinions: Opinions = NOBODY_ASKED, directives: Directives = OWN
) -> Iterator[str]:
    """Write the same in parts, so that a large report is never whole in memory."""
    summary = analysis.summary
    head = {
        "schema": SCHEMA,
        "sessions": summary.sessions,
        "tasks": summary.tasks,
        "turns": summary.turns,
        "spans": summary.spans,
        "tokens": {name.removesuffix("_tokens"): getattr(summary, name) for name in TOKEN_COLUMNS},
        "currency": analysis.money.currency if analysis.money else None,
        "prices": (analysis.money.source or None) if analysis.money else None,
        "unknown": asdict(summary.unknown),
        "understood": understood_object(analysis.understood),
        "skipped": [asdict(skipped) for skipped in analysis.skipped],
    }
    loops = {
        finding.id: loop.lead.id
        for loop in loops_in(analysis.findings)
        for finding in loop.findings
    }
    events = (
        event_object(event, opinions.get(event.gate), directives) for event in analysis.events
    )
    lists = {
        "findings": (
            _finding_object(each, loops[each.id], analysis.money) for each in analysis.findings
        ),
        "events": events,
        "outages": map(outage_object, analysis.outages),
    }
    yield json_text(head).removesuffix("\n}\n")
    for name, objects in lists.items():
        yield f',\n  "{name}": ['
        yield from _list_parts(objects)
        yield "]"
    yield "\n}\n"


def understood_object(understood: Understood) -> dict[str, Any]:
    """Return how much was understood, and the shapes of spans that were not."""
    shapes = [
        {"scope": shape.scope, "name": shape.name, "attributes": shape.keys, "spans": spans}
        for shape, spans in understood.shapes[:SHAPES_WRITTEN_MAX]
    ]
    share = None if understood.share is None else round(understood.share, 4)
    counts = {name: getattr(understood, name) for name in COUNTS}
    return counts | {
        "incomplete": understood.incomplete,
        "differing_tokens": understood.differing_tokens,
        "share": share,
        "not_understood": shapes,
    }


def _list_parts(objects: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Write the objects of a list in the form of a report, some at a time."""
    every = iter(objects)
    between, end = "\n", ""
    while chunk := list(islice(every, OBJECTS_AT_ONCE)):
        _, _, lines = json_text({"": chunk}).partition("[\n")
        yield between + lines.removesuffix("\n  ]\n}\n")
        between, end = ",\n", "\n  "
    yield end


def _finding_object(finding: Finding, loop: str, money: Money | None) -> dict[str, Any]:
    cost = _fields(finding.cost)
    # Python's form of a number; the library writes small ones differently.
    cost["seconds"] = msgspec.Raw(repr(finding.cost.seconds).encode())
    cost["money"] = round(money.spent[finding.id], MONEY_DECIMALS) if money else None
    return dict(zip(_FINDING, _finding_values(finding), strict=True)) | {"cost": cost, "loop": loop}


def outage_object(outage: Outage) -> dict[str, Any]:
    """Return an outage, its times as text."""
    record = asdict(outage)
    times = {name: known_us(record.pop(f"{name}_ns")) for name in ("first", "last", "known")}
    return record | times


def event_object(
    event: GateEvent, opinion: Opinion | NoOpinion | None, directives: Directives
) -> dict[str, Any]:
    """Return an event in the form of every JSON of looptrace; a gate has the judge's opinion."""
    is_gate = event.type == "gate_opened"
    record = dict(zip(_EVENT, _event_values(event), strict=True)) | {
        "at": known_us(event.at_ns),
        "directive": directives.text_of(event if event.note is None else replace(event, note=None)),
        "opinion": opinion_object(opinion) if is_gate else None,
    }
    record["history"] = [_without_content(_fields(failure)) for failure in event.history]
    return record


def failure_object(failure: Failure) -> dict[str, Any]:
    """Return a failure with its text."""
    return _without_content(_fields(failure)) | {"error": failure.error}


def opinion_object(opinion: Opinion | NoOpinion | None) -> dict[str, Any] | None:
    """Return an opinion, or the reason for none in `no_opinion`; None if no judge was asked."""
    if opinion is None:
        return None
    if isinstance(opinion, NoOpinion):
        return _UNASKED | {"no_opinion": opinion.why}
    return _UNASKED | asdict(opinion)


def explanation_json(
    task: str, turns: pl.DataFrame, explanation: Explanation, directives: Directives = OWN
) -> str:
    """Write why a task (numbered turns) was flagged or not."""
    report = {
        "schema": SCHEMA,
        "task": task,
        "waits_since": utc_ms(explanation.waits[0]) if explanation.waits else None,
        "turns": [
            {name: row[name] for name in _TURN}
            | {"speaker": explanation.speakers[i]}
            | {"reached": [_reached(rule, i) for rule in explanation.rules if rule.reached[i]]}
            for i, row in enumerate(turns.select(_TURN).iter_rows(named=True))
        ],
        "rules": [
            _furthest(rule, turns)
            | {"changes": [asdict(change) for change in explanation.changes.get(rule.rule, ())]}
            for rule in explanation.rules
        ],
        "events": [event_object(event, None, directives) for event in explanation.events],
        "gates": [
            {
                "gate": gate.event.gate,
                "moves": [asdict(move.change) | {"turn": move.turn} for move in gate.moves],
                "without_rule": _rule_and_turn(gate.without_rule),
            }
            for gate in explanation.gates
        ],
    }
    return json_text(report)


def _reached(rule: Progress, index: int) -> dict[str, Any]:
    return {"rule": rule.rule, "attempts": rule.reached[index], "needed": rule.needed[index]}


def _furthest(rule: Progress, turns: pl.DataFrame) -> dict[str, Any]:
    """Return how far a rule got, and at which turn; nulls if it evaluates no turn."""
    place = rule.furthest
    got = {"rule": rule.rule, "fired": rule.fired}
    if place is None:
        return got | dict.fromkeys(("attempts", "needed", "turn"))
    return got | _reached(rule, place) | {"turn": turns["turn"][place]}


def _rule_and_turn(gate: GateEvent | None) -> dict[str, Any] | None:
    return {"rule": gate.rule, "turn": gate.turn} if gate else None


def json_text(report: Mapping[str, Any]) -> str:
    """Write JSON that is safe to print."""
    try:
        data = msgspec.json.encode(report, enc_hook=_fields)
    except UnicodeEncodeError:  # Half of a surrogate pair is not UTF-8.
        text = json.dumps(report, ensure_ascii=False, default=_jsonable)
        return msgspec.json.format(_UNSAFE.sub(_escaped, text), indent=2) + "\n"
    data = msgspec.json.format(data, indent=2)
    text = data.decode() + "\n"
    return text if data.isascii() and _DELETE not in data else _UNSAFE.sub(_escaped, text)


def _jsonable(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else _fields(value)


def _fields(record: Any) -> dict[str, Any]:
    """Return the fields of a data class without copying them."""
    return {name: getattr(record, name) for name in record.__slots__}


def _without_content(record: dict[str, Any]) -> dict[str, Any]:
    """Remove texts of people and tools, and write the time as text."""
    kept = {name: value for name, value in record.items() if name not in CONTENT}
    return kept | {"at": known_us(kept.pop("at_ns"))}


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    is_surrogate = "\ud800" <= character <= "\udfff"
    return "\N{REPLACEMENT CHARACTER}" if is_surrogate else f"\\u{ord(character):04x}"
