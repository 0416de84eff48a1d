"""An escalation as Markdown and as JSON.

In the Markdown every text of a trace is in code, inline or fenced, with a fence longer than any run
of backticks in it. Each such text is on one line, so none can end the code early.
"""

from collections.abc import Iterator
from dataclasses import asdict

from looptrace.analyzer.gates.directives import OWN, Directives
from looptrace.analyzer.gates.events import Failure
from looptrace.analyzer.llm_judge import NoOpinion
from looptrace.analyzer.report.escalation import Escalation, Iteration
from looptrace.analyzer.report.json import event_object, failure_object, json_text
from looptrace.analyzer.report.templating import template
from looptrace.analyzer.report.wording import WHY_TEXTS, counted, opinion_text, told_text
from looptrace.analyzer.text.times import NO_TIME, known_us

SCHEMA = 1


def escalation_json(escalation: Escalation, directives: Directives = OWN) -> str:
    """Write an escalation as JSON; the same escalation always gives the same text."""
    report = asdict(escalation) | {
        "gate": event_object(escalation.gate, escalation.opinion, directives),
        "failures": [failure_object(failure) for failure in escalation.gate.history],
        "before": [event_object(event, None, directives) for event in escalation.before],
    }
    del report["opinion"]  # The gate has it.
    return json_text({"schema": SCHEMA} | report)


def escalation_markdown(escalation: Escalation) -> str:
    """Write an escalation as one Markdown page that needs no other context."""
    turns = escalation.iterations
    return template("escalation.md.j2").render(
        escalation=escalation,
        gate=escalation.gate,
        why=WHY_TEXTS[escalation.gate.why] if escalation.gate.why else None,
        iterations=[line for turn in turns for line in _iteration_lines(turn)],
        failures=[line for each in escalation.gate.history for line in _failure_lines(each)],
        before=[(event.turn, told_text(event)) for event in escalation.before],
        opinion=None if escalation.opinion is None else opinion_text(escalation.opinion),
        has_answer=not isinstance(escalation.opinion, NoOpinion),
    )


def _iteration_lines(turn: Iteration) -> Iterator[str]:
    if turn.left_out:
        yield f"... {counted(turn.left_out, 'turn')} left out ..."
    number = "-" if turn.turn is None else str(turn.turn)
    role = "" if turn.role == "between" else turn.role
    who = "a message" if turn.kind == "user" else turn.agent
    yield f"{number:>5}  {role:6}  {_by(who)}{turn.label}"
    if turn.failed or turn.outcome is not None:
        yield f"{'':15}  {'failed' if turn.failed else '->'} {turn.outcome or ''}".rstrip()


def _failure_lines(failure: Failure) -> Iterator[str]:
    kind = ", ".join(text for text in (failure.error_type, failure.error_kind) if text)
    at = known_us(failure.at_ns) or NO_TIME
    yield f"{failure.turn:>5}  {at}  {_by(failure.agent)}{failure.label}"
    yield f"{'':7}{kind or 'unknown kind'}: {failure.error or '?'}"
    if failure.signature:
        yield f"{'':7}signature {failure.signature}"


def _by(who: str) -> str:
    return f"{who}: " if who else ""
