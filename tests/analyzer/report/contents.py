"""Findings, turns, events and hostile texts for reports, and a page as its elements."""

from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from typing import Any

import polars as pl
from rich.console import Console

from looptrace.analyzer.detect.findings import Cost, Finding, LoopTurn
from looptrace.analyzer.engine.analysis import Analysis, Summary, Unknown
from looptrace.analyzer.gates.events import EventType, Failure, GateEvent
from looptrace.analyzer.llm_judge import Opinion
from looptrace.analyzer.report.terminal import print_report
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.rules.contract import Action

TRACE = "5f3c1a9e0b7d4c2e8a61f0d39b5c7e12"


REASON = "run_tests(tests/test_cart.py) failed the same way 5 times, turns 2\N{EN DASH}10"


HOSTILE = [
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% include 'x' %}",
    "[bold red]spam[/] [/nothing] [link=https://evil.example]x[/link]",
    "\x1b[31mred\x1b[0m\x1b]8;;https://evil.example\x07x",
    "line\r\nbreak\x00\x9b2J",
    "\u202egnp.exe\u2066 \u200b",
    "\ud800 lone",
    "\N{MATHEMATICAL FRAKTUR CAPITAL U}" * 1_000_000,
]


def finding(
    rule: str = "repeated_call",
    turns: tuple[int, ...] = (2, 4, 6, 8, 10),
    action: Action = "gate",
    *,
    task: str = "fix-cart",
    agent: str = "coder",
    period: int = 1,
    reason: str = REASON,
) -> Finding:
    """Make a finding: the first `period` turns are the first round, the others repeat it."""
    attempts = len(turns) // period
    loop_turns = tuple(
        LoopTurn(TRACE, f"{turn:016x}", turn, "first" if index < period else "repeat")
        for index, turn in enumerate(turns)
    )
    return Finding(
        id=f"{rule}-{turns[0]}",
        rule=rule,
        task=task,
        session="session-1",
        trace_id=TRACE,
        agent=agent,
        turn_first=turns[0],
        turn_last=turns[-1],
        attempts=attempts,
        loop_count=attempts - 1,
        period=period,
        signature="error:AssertionError-test_cart.py",
        reason=reason,
        action=action,
        turns=loop_turns,
        cost=Cost(46.2, 690, 100),
    )


def turn(number: int, kind: str, *, task: str = "fix-cart", **fields: Any) -> dict[str, Any]:
    """Make a row of the turn table; what is not given is unknown."""
    row = dict.fromkeys(TURN_SCHEMA) | {"task": task, "session": "session-1", "trace_id": TRACE}
    return row | {"turn": number, "kind": kind, "agent": "coder", "failed": False} | fields


def pytest_turns(count: int, *, task: str = "fix-cart") -> list[dict[str, Any]]:
    """Make a task in which a model asks for the tests at every odd turn and a tool runs them."""
    call = {"name": "run_tests", "arguments": '{"path":"tests/test_cart.py"}'}
    outcome = {"error": "AssertionError: 107 != 100", "failed": True}
    return [
        turn(number, "tool", task=task, **call, **outcome)
        if number % 2 == 0
        else turn(number, "model", task=task, name="gpt", text="Let me run the tests again.")
        for number in range(1, count + 1)
    ]


def analysis(
    *findings: Finding,
    rows: list[dict[str, Any]] | None = None,
    skipped: tuple[Skipped, ...] = (),
    summary: Summary | None = None,
    events: tuple[GateEvent, ...] = (),
) -> Analysis:
    """Make an analysis of twelve turns, unless others are given."""
    rows = pytest_turns(12) if rows is None else rows
    counts = summary or Summary(1, 3, len(rows), 38, 12_345, 2_100, Unknown(0, 0), 9_000)
    return Analysis(counts, skipped, findings, events, pl.DataFrame(rows, schema=TURN_SCHEMA))


def event(type_: EventType, at: int, **fields: Any) -> GateEvent:
    """Make an event of a loop; a gate event leaves the task paused."""
    is_gate = type_ == "gate_opened"
    known: dict[str, Any] = {
        "id": f"{type_} {at}",
        "task": "fix-cart",
        "at_ns": 1_772_442_000_123_456_789,
        "status": "paused_for_intervention" if is_gate else "active",
        "status_before": "active",
        "trace_id": TRACE,
    }
    if type_ in ("loop_detected", "pivot_issued", "gate_opened"):
        known |= {"rule": "repeated_call", "attempts": 5, "loop_count": 4, "reason": REASON}
    if is_gate:
        known |= {"action": "gate", "gate": f"gate {at}", "why": "LADDER"}
    return GateEvent(type=type_, turn=at, **known | fields)


WARNED = event("loop_detected", 6, action="warn", attempts=3, loop_count=2)


OPENED = event("gate_opened", 10)


RESOLVED = event("gate_resolved", 12, gate="gate 10", reason="person", decision="continue")


RESET = event("counter_reset", 12, reason="person", loop_count=4)


OPINION = Opinion(
    is_regressive=False, no_progress=True, is_external=False, reasoning="It tries the same."
)


def printed(content: Analysis, *, width: int = 80, color: bool = False) -> str:
    """Print to a terminal of this width; without colour also without any escape."""
    file = StringIO()
    print_report(
        content,
        Console(
            file=file,
            width=width,
            force_terminal=color,
            color_system="standard" if color else None,
            _environ={},
        ),
    )
    return file.getvalue()


class Page(HTMLParser):
    """An HTML page as its elements, its text, and the elements left open."""

    VOID = ("meta", "link", "input", "path", "rect", "br", "img")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the element, and that it is open."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last; another one would be a broken page."""
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep what a reader sees."""
        if "style" not in self.open:
            self.text += f"{data} "

    def all(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of every element with this tag."""
        return [attributes for name, attributes in self.elements if name == tag]


def strip_paths(page: Page) -> list[dict[str, str]]:
    """Return the paths of the first drawing: its own, and not those of its legend."""
    drawing = next(i for i, (tag, _) in enumerate(page.elements) if tag == "svg")
    end = next(i for i, (tag, _) in enumerate(page.elements) if tag == "figcaption")
    return [attributes for tag, attributes in page.elements[drawing:end] if tag == "path"]


def hostile_analysis(text: str) -> Analysis:
    """Put a text into every field that a trace or an input can fill.

    Columns hold no lone surrogates, but the name of a file that is not UTF-8 does.
    """
    where, text = text, text.replace("\ud800", "\ufffd")
    failure = Failure(1, 0, text, text, text, None, text, text, text, text)
    told = [
        event("gate_opened", 2, reason=text, agent=text, signature=text, history=(failure,)),
        event("gate_resolved", 5, reason="person", decision=text, note=text),
        event("counter_reset", 1, reason=text, loop_count=2),
        event("loop_detected", 1, action="unblock_authority", blockers=(text,)),
    ]
    # An agent or a session that is named like its task would not be shown.
    base = finding(task=text, agent=f"{text} agent", reason=text)
    hostile = replace(base, id=text, session=f"{text} session", trace_id=text, signature=text)
    other = replace(hostile, rule="response_repeat", action="warn")
    words = {"agent": text, "name": text, "result": text, "text": text, "phase": text}
    rows = [
        turn(number, kind, task=text, arguments=text, **words)
        for number, kind in enumerate(("tool", "model", "handoff", "attempt", "user"), start=1)
    ]
    events = tuple(replace(one, task=text) for one in told)
    return analysis(hostile, other, rows=rows, skipped=(Skipped(where, where),), events=events)
