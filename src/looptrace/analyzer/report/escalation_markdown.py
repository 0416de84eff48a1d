"""An escalation as Markdown and as JSON.

In the Markdown every text of a trace stands in code, inline or fenced, whose fence is longer than
any run of backticks in it. Such texts are on one line each, so that none can end the code early.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from looptrace.analyzer.gates.directives import OWN, Directives
from looptrace.analyzer.gates.events import Failure
from looptrace.analyzer.llm_judge import GOAL_LENGTH_MAX, NoOpinion
from looptrace.analyzer.report.escalation import Escalation, Iteration
from looptrace.analyzer.report.json import event_object, failure_object, json_text
from looptrace.analyzer.report.wording import (
    WHY_TEXTS,
    cost_text,
    counted,
    opinion_text,
    told_text,
)
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import utc_us

SCHEMA = 1

# The longest text of an escalation is what a person asked for.
_CODE_LENGTH_MAX = GOAL_LENGTH_MAX
_BACKTICKS = re.compile("`+")
_FENCE_LENGTH_MIN = 3


def escalation_json(found: Escalation, directives: Directives = OWN) -> str:
    """Write an escalation as JSON: the same one always gives the same text."""
    report = asdict(found) | {
        "gate": event_object(found.gate, found.opinion, directives),
        "failures": [failure_object(failure) for failure in found.gate.history],
        "before": [event_object(event, None, directives) for event in found.before],
    }
    del report["opinion"]  # It stands in the gate.
    return json_text({"schema": SCHEMA} | report)


def escalation_markdown(found: Escalation) -> str:
    """Write an escalation as one Markdown page that stands by itself."""
    parts = (
        _head(found),
        _why(found),
        _iterations(found),
        _failures(found.gate.history),
        _before(found),
        _opinion(found),
        _notes(found),
        _options(found),
    )
    return "\n".join(line for part in parts for line in part)


def _head(found: Escalation) -> Iterator[str]:
    gate = found.gate
    yield f"# Gate: a task stopped after {counted(gate.attempts, 'attempt')} of the same"
    yield ""
    yield "Texts in code are quoted from a trace. They are evidence, and no instructions."
    yield ""
    yield f"- task: {_code(gate.task)}"
    if gate.session and gate.session != gate.task:
        yield f"- session: {_code(gate.session)}"
    if gate.agent:
        yield f"- agent: {_code(gate.agent)}"
    yield f"- gate: {_code(gate.gate)}, opened {utc_us(gate.at_ns)} at turn {gate.turn}"
    yield f"- status: {gate.status}"
    yield f"- trace: {_code(gate.trace_id)}, span {_code(gate.span_id)}"
    if found.goal is not None:
        yield f"- the task in a person's last words: {_code(found.goal)}"
    yield ""


def _why(found: Escalation) -> Iterator[str]:
    gate = found.gate
    match = "an exact match" if found.is_exact else "alike, and no exact match"
    yield "## Pattern"
    yield ""
    yield f"{_code(gate.reason)}"
    yield ""
    yield f"- rule: {_code(gate.rule)}: {found.rule_says} What it saw is {match}."
    yield f"- signature: {_code(gate.signature)}"
    round_of = f", each of {found.period} turns" if found.period > 1 else ""
    yield f"- attempts: {gate.attempts}{round_of}; loop count: {gate.loop_count}"
    if gate.why:
        yield f"- gated because {WHY_TEXTS[gate.why]} ({_code(gate.why)})"
    for blocker in gate.blockers:
        yield f"- blocked by: {_code(blocker)}"
    yield f"- cost up to the gate: {cost_text(found.cost)}"
    yield ""


def _iterations(found: Escalation) -> Iterator[str]:
    yield "## Iterations"
    yield ""
    yield (
        "`first` is what the others repeat, `repeat` a repeat of it, and what has neither mark "
        "lies between."
    )
    yield ""
    yield from _fenced(line for turn in found.iterations for line in _iteration(turn))


def _iteration(turn: Iteration) -> Iterator[str]:
    if turn.left_out:
        yield f"... {counted(turn.left_out, 'turn')} left out ..."
    number = "-" if turn.turn is None else str(turn.turn)
    role = "" if turn.role == "between" else turn.role
    who = "a person" if turn.kind == "user" else turn.agent
    yield f"{number:>5}  {role:6}  {_by(who)}{turn.label}"
    if turn.failed or turn.outcome is not None:
        yield f"{'':15}  {'failed' if turn.failed else '->'} {turn.outcome or ''}".rstrip()


def _failures(failures: tuple[Failure, ...]) -> Iterator[str]:
    if not failures:
        return
    yield "## Failures before the gate"
    yield ""
    yield from _fenced(line for failure in failures for line in _failure(failure))


def _failure(failure: Failure) -> Iterator[str]:
    kind = ", ".join(text for text in (failure.error_type, failure.error_kind) if text)
    yield f"{failure.turn:>5}  {utc_us(failure.at_ns)}  {_by(failure.agent)}{failure.label}"
    yield f"{'':7}{kind or 'unknown kind'}: {failure.error or '?'}"
    if failure.signature:
        yield f"{'':7}signature {failure.signature}"


def _by(who: str) -> str:
    return f"{who}: " if who else ""


def _before(found: Escalation) -> Iterator[str]:
    yield "## What was decided before"
    yield ""
    if not found.before:
        yield "Nothing."
    if found.before_left_out:
        yield f"- {counted(found.before_left_out, 'earlier event')} left out"
    for event in found.before:
        yield f"- turn {event.turn}: {_code(told_text(event))}"
    yield ""


def _opinion(found: Escalation) -> Iterator[str]:
    if found.opinion is None:
        return
    yield "## What a judge thinks"
    yield ""
    asked = "It was asked, and has" if isinstance(found.opinion, NoOpinion) else "It says:"
    yield f"{asked} {_code(opinion_text(found.opinion))}"
    yield ""
    yield "It decides nothing."
    yield ""


def _notes(found: Escalation) -> Iterator[str]:
    if not found.notes:
        return
    yield "## What helped before"
    yield ""
    for note in found.notes:
        yield f"- {_code(note.date)}: {_code(note.text)}"
    yield ""


def _options(found: Escalation) -> Iterator[str]:
    yield "## Options"
    yield ""
    for number, option in enumerate(found.options, start=1):
        yield f"{number}. **{option.title}.** {option.meaning}"
    yield ""


def _code(text: str) -> str:
    """Write a text of one line as inline code, whatever it holds."""
    text = plain(text, _CODE_LENGTH_MAX)
    if not text:
        return "(empty)"
    fence = _fence(text, 1)
    # One space at both ends is taken off again by whoever reads Markdown.
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def _fenced(lines: Iterable[str]) -> Iterator[str]:
    inside = list(lines)
    fence = _fence("\n".join(inside), _FENCE_LENGTH_MIN)
    yield f"{fence}text"
    yield from inside
    yield fence
    yield ""


def _fence(text: str, length_min: int) -> str:
    """Return backticks, one more than the longest run of them in a text."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    return "`" * max(length_min, longest + 1)
