from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from looptrace.analyzer.detect.findings import Cost, Finding, LoopTurn
from looptrace.analyzer.detect.loops import CountedLoop, loops_in
from looptrace.analyzer.detect.prices import Price, Prices
from looptrace.analyzer.engine.analysis import Analysis, Summary, Unknown
from looptrace.analyzer.gates.events import EventType, Failure, GateEvent
from looptrace.analyzer.llm_judge import NoOpinion, Opinion
from looptrace.analyzer.normalize.understanding import Understood
from looptrace.analyzer.report.ci import baseline_of, loops_of
from looptrace.analyzer.report.html import html_report
from looptrace.analyzer.report.json import json_report
from looptrace.analyzer.report.terminal import print_report
from looptrace.analyzer.report.wording import (
    EVENTS_SHOWN_MAX,
    GROUPS_SHOWN_MAX,
    WHY_TEXTS,
    cost_text,
    duration_text,
    shown_of,
)
from looptrace.analyzer.schema.span_fields import Shape
from looptrace.analyzer.schema.spans import Skipped
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.tuning.loop_money import loop_money
from looptrace.rules.contract import ACTIONS, Action
from tests.paths import ROOT
from tests.schemas import conflicts, undescribed

DOCS = ROOT / "docs"
SCHEMA = "findings.schema.json"
TRACE = "5f3c1a9e0b7d4c2e8a61f0d39b5c7e12"
REASON = "run_tests(tests/test_cart.py) failed the same way 5 times, turns 2\N{EN DASH}10"
ACTION_RED, ACTION_MAGENTA, ACTION_YELLOW = "\x1b[1;31m", "\x1b[1;35m", "\x1b[1;33m"

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


# ---- Which findings are one loop


def test_rules_that_see_the_same_loop_are_one_block() -> None:
    """The model turns that ask and the tool turns that fail are one loop, though none is shared."""
    call = finding()
    signature = finding("signature_repeat", action="warn")
    response = finding("response_repeat", (1, 3, 5, 7, 9), "pivot")

    shown = loops_in([signature, response, call])

    assert shown == [CountedLoop(call, (response, signature))]
    assert shown[0].also == "response_repeat, signature_repeat"


@pytest.mark.parametrize(
    ("turns", "count"), [((5, 6, 7, 8), 1), ((8, 9), 1), ((9, 10, 11, 12), 2), ((20, 21), 2)]
)
def test_half_of_the_smaller_stretch_makes_one_loop(turns: tuple[int, ...], count: int) -> None:
    """Two loops that follow one another may touch, and stay two."""
    lead = finding(turns=(1, 2, 3, 4, 5, 6, 7, 8, 9))
    if turns == (8, 9):
        lead = finding(turns=(1, 2, 3, 4, 5, 6, 7, 8))

    assert len(loops_in([lead, finding("cycle", turns, "warn")])) == count


def test_agents_side_by_side_are_two_loops() -> None:
    """Two sub-agents that loop at the same time need two people to look, or one to look twice."""
    other = finding(turns=(3, 5, 7, 9), agent="reviewer")

    assert len(loops_in([finding(), other])) == 2


def test_counters_of_the_whole_task_join_the_agent_that_shares_their_turns() -> None:
    """A rule whose lane is the task may name no agent, and still sees the same turns."""
    assert len(loops_in([finding(), finding("signature_repeat", agent="")])) == 1


def test_tasks_are_never_one_loop() -> None:
    """Turn numbers start again in every task."""
    assert len(loops_in([finding(), finding(task="other")])) == 2


def test_strongest_loop_comes_first() -> None:
    """Action counts before attempts, and attempts before the name of the rule."""
    warn = finding("a", (1, 2, 3, 4, 5, 6), "warn", task="a")
    gate = finding("c", (1, 2, 3), "gate", task="b")
    more = finding("d", (1, 2, 3, 4), "gate", task="c")
    named = finding("b", (1, 2, 3), "gate", task="d")

    shown = loops_in([warn, gate, more, named])

    assert [group.lead for group in shown] == [more, named, gate, warn]


def test_loops_beyond_the_bound_are_counted_and_told() -> None:
    """A page of ten thousand loops is useless, but no loop may vanish in silence."""
    many = [finding(task=f"task-{number}") for number in range(GROUPS_SHOWN_MAX + 3)]

    groups = loops_in(many)
    shown, left_over = shown_of(groups)
    assert len(groups) == len(many)

    assert (len(shown), left_over) == (GROUPS_SHOWN_MAX, 3)
    assert "and 3 more loops: all are in --format json" in printed(analysis(*many))
    assert "and 3 more loops: all are in --format json" in html_report(analysis(*many))


# ---- The words


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "under 0.1 s"),
        (0.1, "0.1 s"),
        (9.94, "9.9 s"),
        (46.2, "46 s"),
        (59.7, "1 min 0 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations_read_well(seconds: float, expected: str) -> None:
    """A reader wants the size of the waste, not its microseconds."""
    assert duration_text(seconds) == expected


def test_tokens_that_nobody_recorded_are_not_called_none() -> None:
    """A trace without token counts did not run for free."""
    assert cost_text(Cost(46.2, 0, 0)) == "46 s"
    assert cost_text(Cost(46.2, 1_690, 0)) == "46 s, 1,690 input + 0 output tokens"


# ---- The terminal


def test_terminal_report_of_a_loop() -> None:
    """All that a person sees on the screen."""
    content = analysis(
        finding(),
        finding("signature_repeat", action="warn"),
        skipped=(Skipped("night.jsonl:3", "not JSON"),),
        summary=Summary(1, 3, 12, 38, 12_345, 2_100, Unknown(12, 1), 9_000, 0, 400),
    )

    assert printed(content) == (
        "1 session, 3 tasks, 12 turns, 38 spans, 12,345 input (9,000 cached) + 2,100\n"
        "output (400 reasoning) tokens\n"
        "1 loop in 1 of 3 tasks.\n"
        "\n"
        "task fix-cart\n"
        "session session-1\n"
        "\n"
        f"  {REASON}\n"
        "  gate by repeated_call, agent coder\n"
        "  also: signature_repeat\n"
        "  in the loop: 46 s, 690 input + 100 output tokens\n"
        "\n"
        "  loop     A a a a a\n"
        "  turns   │█│█│█│█│█│█\n"
        "  failed   ✗ ✗ ✗ ✗ ✗ ✗\n"
        "          █ call, │ response, a repeats A\n"
        "\n"
        "How much was understood was not looked at, because the store is remote.\n"
        "12 tool turns carry no arguments: no rule could compare their calls.\n"
        "1 tool turn carries no results: no rule could compare their outcomes.\n"
        "\n"
        "To look closer: looptrace explain PATH --task ID\n"
    )


def test_narrow_terminal_wraps_without_spaces_at_the_ends() -> None:
    """Spaces at the ends of lines show up wherever the report is pasted."""
    lines = printed(analysis(finding()), width=40).splitlines()

    assert "  run_tests(tests/test_cart.py) failed" in lines
    assert "  the same way 5 times, turns 2\N{EN DASH}10" in lines
    assert lines == [line.rstrip() for line in lines]


def test_names_that_repeat_the_task_are_left_out() -> None:
    """Without a session or agent of its own a task is named once, not three times."""
    alone = replace(finding(agent="fix-cart"), session="fix-cart")

    text = printed(analysis(alone))

    assert "session fix-cart" not in text
    assert "agent" not in text


@pytest.mark.parametrize(
    ("action", "escape"),
    [("gate", ACTION_RED), ("pivot", ACTION_MAGENTA), ("warn", ACTION_YELLOW)],
)
def test_action_has_its_colour(action: Action, escape: str) -> None:
    """What must stop is seen before it is read."""
    assert f"{escape}{action}" in printed(analysis(finding(action=action)), color=True)


def test_terminal_report_shows_what_was_decided() -> None:
    """The events by turn, and the reason why a person must decide now."""
    text = printed(analysis(finding(), events=(WARNED, OPENED)))

    assert "1 loop in 1 of 3 tasks; 1 gate open.\n" in text
    assert (
        "\n"
        "  events:\n"
        "  turn 6: warn by repeated_call, at the 3rd time\n"
        "  turn 10: gate by repeated_call, at the 5th time: the rule's limit is reached\n"
        "  The gate is open: a person must decide how the task goes on.\n"
    ) in text
    assert text.endswith("For a report on a gate: looptrace escalation PATH --task ID\n")


def test_gate_that_is_resolved_waits_for_nobody() -> None:
    """The report must not call a person to what a person has decided already."""
    text = printed(analysis(finding(), events=(OPENED, RESOLVED, RESET)))

    assert "  turn 12: gate resolved by a person: continue\n" in text
    assert "  turn 12: counter reset after 5 times: a person spoke\n" in text
    assert "open" not in text
    assert "escalation" not in text


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (
            event("loop_detected", 3, action="retry_later", retry_after_s=120),
            "retry_later by repeated_call, at the 5th time: after 120 s",
        ),
        (
            event("pivot_issued", 3, action="pivot", pivots=2),
            "pivot by repeated_call, at the 5th time: change of course 2",
        ),
        (
            event("counter_reset", 3, reason="idle", loop_count=3),
            "reset after 4 times: the task",
        ),
        (event("gate_opened", 3, why="MAX_PIVOTS_EXCEEDED"), "no pivot is left"),
    ],
)
def test_each_event_says_what_it_is_about(told: GateEvent, line: str) -> None:
    """A wait without its length, or a pivot without its number, would leave a reader guessing."""
    content = analysis(finding(), events=(told,))

    assert line in printed(content, width=120)
    assert line in " ".join(Page(html_report(content)).text.split())


def test_long_list_of_decisions_shows_its_start_and_its_end() -> None:
    """A task of many resets must not push the others off the screen; the gate is at the end."""
    many = tuple(event("counter_reset", at, reason="idle", loop_count=2) for at in range(1, 60))
    content = analysis(finding(), events=(*many, OPENED))

    for text in (printed(content), " ".join(Page(html_report(content)).text.split())):
        assert f"… {60 - EVENTS_SHOWN_MAX} more events: all are in --format json" in text
        assert "gate by repeated_call" in text
    assert printed(content).count("counter reset") == EVENTS_SHOWN_MAX - 1


@pytest.mark.requirement("A13")
def test_opinion_stands_beside_its_gate() -> None:
    """What a judge thinks, or why it thinks nothing, is read where the gate is."""
    content = analysis(finding(), events=(OPENED,))
    said = "judge: regressive: no, no progress: yes, external: no. It tries the same."

    for given, line in (
        (OPINION, said),
        (NoOpinion("it is away"), "judge: no opinion: it is away"),
    ):
        asked = {"gate 10": given}
        console = Console(file=StringIO(), width=120, _environ={})
        print_report(content, console, asked)
        assert line in console.file.getvalue()  # type: ignore[attr-defined]
        assert line in " ".join(Page(html_report(content, asked)).text.split())
    assert "judge" not in printed(content)


def test_silence_is_said() -> None:
    """An empty report could be a broken one."""
    text = printed(analysis())

    assert "No loops found.\n" in text
    assert "carry" not in text


@pytest.mark.parametrize(
    ("spans", "why"),
    [
        (4, "of 4 spans none is a turn of an agent in a dialect that looptrace knows"),
        (0, "no span was read; a.json: an empty list."),
    ],
)
def test_input_without_turns_is_no_clean_bill(spans: int, why: str) -> None:
    """No loop in no turns says nothing about the agent, and the reader must know."""
    content = replace(
        analysis(rows=[], summary=Summary(0, 0, 0, spans, 0, 0, Unknown(0, 0))),
        understood=Understood(
            unread=4,
            shapes=(
                (Shape("http", "GET /users", ("url",), known=False), 3),
                (Shape(None, "boot", (), known=False), 1),
            ),
        ),
        empty=(Skipped("a.json", "an empty list"),),
    )

    text = printed(content, width=400)

    assert text.splitlines()[0].startswith(f"Nothing was checked: {why}")
    kinds = (
        "There are: GET /users (scope http, 3 spans; attributes url); "
        "boot (no scope, 1 span; no attributes)."
    )
    assert (kinds in text) == bool(spans)
    assert "0 sessions" not in text
    assert "looptrace explain" not in text
    assert why in Page(html_report(content)).text


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_terminal_report_obeys_no_trace(hostile: str, width: int) -> None:
    """Text of a trace can carry markup and escapes, and must do nothing but be shown."""
    text = printed(hostile_analysis(hostile), width=width)

    lines = text.splitlines()
    assert all(line.isprintable() for line in lines)
    assert all(len(line) <= width for line in lines)
    assert len(text) < 10_000
    if hostile.startswith("[bold"):
        assert "[bold red]spam[/]" in text


# ---- HTML


def test_html_report_shows_the_loop() -> None:
    """The page answers what repeats, where, how often, and at what cost."""
    content = analysis(finding(), finding("response_repeat", (1, 3, 5, 7, 9), "pivot"))

    page = Page(html_report(content))

    assert page.open == []
    assert "1 loop in 1 of 3 tasks." in page.text
    assert page.text.count(REASON) == 3
    for shown in (
        "gate",
        "repeated_call, also response_repeat",
        "fix-cart",
        TRACE,
        "12,345",
        "9,000 cached",
    ):
        assert shown in page.text
    assert page.text.count("run_tests(tests/test_cart.py)") == 6 + 3
    assert page.text.count("✗ AssertionError: 107 != 100") == 6
    roles = [row.get("class", "") for row in page.all("tr") if "is-" in row.get("class", "")]
    assert roles == ["is-first"] * 2 + ["is-repeat"] * 8


def test_html_report_marks_what_was_decided_on_the_timeline() -> None:
    """A reader sees at which turn the agent was warned, and where it had to stop."""
    rows = [*pytest_turns(12), turn(12, "user", text="Try the other file.")]
    events = (WARNED, OPENED, RESOLVED, RESET)
    page = Page(html_report(analysis(finding(), rows=rows, events=events)))

    drawn = {path["class"]: path["d"] for path in strip_paths(page)}
    columns = {
        kind: float(drawn[f"mark {kind}"][1:].split(" ")[0]) // 22
        for kind in ("warn", "gate", "person")
    }
    assert columns == {kind: at - 1 for kind, at in (("warn", 6), ("gate", 10), ("person", 12))}
    text = " ".join(page.text.split())
    assert "turn 10 gate by repeated_call, at the 5th time: the rule's limit is reached" in text
    assert "Try the other file. gate resolved by a person: continue counter reset" in text
    assert text.count("gate resolved") == 2


def test_decisions_of_a_task_are_listed_once() -> None:
    """Two loops of one task have one list; a loop of another task has none of it."""
    other = finding("cycle", (20, 21, 22, 23), "warn", agent="tester", period=2)
    page = Page(
        html_report(analysis(finding(), other, finding(task="b", action="warn"), events=(OPENED,)))
    )

    assert len([section for section in page.all("section") if "id" in section]) == 3
    assert page.text.count("What was decided") == 1
    assert page.text.count("The gate is open") == 1


def test_strongest_decision_marks_a_crowded_cell() -> None:
    """Of a warning and a gate in one cell the gate is what must be seen."""
    events = (event("gate_opened", 9), event("loop_detected", 10, action="warn"))
    page = Page(html_report(analysis(finding(), rows=pytest_turns(4000), events=events)))

    marks = {path["class"] for path in strip_paths(page) if path["class"].startswith("mark")}
    assert marks == {"mark gate"}


def test_turns_of_a_cycle_are_named_by_their_place() -> None:
    """In a round of two tools a reader must see which turn is which."""
    cycle = finding("cycle", (2, 3, 4, 5), period=2)

    text = " ".join(Page(html_report(analysis(cycle))).text.split())

    assert re.findall(r"[AB] (?:first|repeat)", text) == [
        "A first",
        "B first",
        "A repeat",
        "B repeat",
    ]


def test_strongest_finding_says_what_is_first() -> None:
    """A weaker finding that starts later sees a first turn where the loop is long under way."""
    late = finding("signature_repeat", (6, 8, 10), "warn")

    page = Page(html_report(analysis(finding(), late)))

    roles = [row["class"] for row in page.all("tr") if "is-" in row.get("class", "")]
    assert roles == ["is-first"] + ["is-repeat"] * 4


def test_unknown_outcome_is_not_shown_as_empty() -> None:
    """A reader must not take what was not recorded for what did not come."""
    rows = [turn(2, "tool", name="run"), turn(4, "tool", name="run", result="")]

    text = Page(html_report(analysis(finding(turns=(2, 4)), rows=rows))).text

    assert text.count("run(?)") == 2
    assert text.count("unknown") == 1


def test_message_of_a_person_is_shown_and_is_in_no_loop() -> None:
    """A message has the number of the turn before it, which must not make it a repeat."""
    rows = [*pytest_turns(10), turn(10, "user", text="Please stop.")]

    page = Page(html_report(analysis(finding(), rows=rows)))

    assert "Please stop." in page.text
    assert page.all("svg")[0]["aria-label"].startswith("10 turns of the task, 5 failed.")
    assert len([row for row in page.all("tr") if "is-" in row.get("class", "")]) == 5


def test_long_loop_shows_its_start_and_its_end() -> None:
    """A loop of a thousand turns is shown by sixty, and the page says so."""
    content = analysis(finding(turns=tuple(range(100, 1100, 2))), rows=pytest_turns(1200))

    page = Page(html_report(content))

    assert "… 945 turns not shown" in page.text
    assert page.text.count("run_tests(tests/test_cart.py)") == 30 + 2
    assert "\n 97 \n" in page.text
    assert "\n 96 \n" not in page.text
    assert "\n 1101 \n" in page.text
    assert "\n 1102 \n" not in page.text


def test_strip_is_at_the_top_of_a_finding() -> None:
    """A reader who scrolls sees the shape of a loop before its details."""
    text = html_report(analysis(finding(), rows=pytest_turns(12)))

    section = text.partition('id="loop-1"')[2]
    assert section.index('class="strip"') < section.index('class="facts"')
    classes = {path["class"] for path in strip_paths(Page(text))}
    assert {"arc", "axis", "cross", "bar tool", "bar tool aside", "bar model aside"} == classes


def priced(content: Analysis, prices: Prices) -> Analysis:
    """Return an analysis with the money of its loops."""
    return replace(content, money=loop_money(content.findings, content.turns, prices))


def test_costs_are_what_people_read() -> None:
    """The costs are shown as money, as time, and as a share of the task."""
    rows = pytest_turns(12)
    for row in rows:
        if row["kind"] == "model":
            row |= {"input_tokens": 400, "output_tokens": 20}
    content = analysis(finding(), finding("cycle", (2, 3, 4, 5), period=2), rows=rows)
    prices = Prices("EUR", (Price("g*", 1_000, 5_000),))

    page = Page(html_report(priced(content, prices))).text
    # Of six responses four are within turns 2 to 10, and 790 of 2,520 tokens are the loop's.
    assert "790 tokens, EUR 2.00, 46 s in the loop, 31 % of the task" in page
    assert "EUR" not in Page(html_report(content)).text
    unpriced = Page(html_report(priced(content, Prices("EUR", ())))).text
    assert "models without a price" in unpriced
    assert "in the loop: 46 s, 690 input + 100 output tokens, EUR 2.00\n" in printed(
        priced(content, prices)
    )
    report = json.loads(json_report(priced(content, prices)))
    assert (report["currency"], report["findings"][0]["cost"]["money"]) == ("EUR", 2.0)
    report = json.loads(json_report(content))
    assert (report["currency"], report["findings"][0]["cost"]["money"]) == (None, None)
    assert "Loops by rule and agent" in page


def test_a_share_without_tokens_is_one_of_time() -> None:
    """Logs of sessions without tokens still say how much of the task a loop was."""
    free = replace(finding(), cost=Cost(6.0, 0, 0))
    rows = [row | {"start_ns": 0, "end_ns": row["turn"] * 10**9} for row in pytest_turns(12)]

    page = Page(html_report(analysis(free, rows=rows))).text
    assert "6.0 s in the loop, 50 % of the task" in page


def test_finding_without_its_turns_is_still_shown() -> None:
    """A report over stored findings may have lost the turns, and not the findings."""
    page = Page(html_report(analysis(finding(), rows=[])))

    assert REASON in page.text
    assert page.all("svg") == []


@pytest.mark.parametrize("hostile", HOSTILE)
def test_html_report_is_inert(hostile: str) -> None:
    """Whatever a trace says, the page runs nothing, loads nothing, and links only to itself."""
    html = html_report(hostile_analysis(hostile))

    page = Page(html)
    tags = {tag for tag, _ in page.elements}
    assert page.open == []
    assert tags.isdisjoint({"script", "img", "iframe", "object", "embed", "link", "base", "form"})
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert attributes.get("href", "#").startswith("#")
        assert not {"src", "srcset", "action", "data", "xlink:href"} & attributes.keys()
    assert "url(" not in html
    assert "@import" not in html
    assert len(html) < 60_000
    html.encode()
    assert not set(html) & set("\x00\x1b\x9b\u202e\u2066\u200b")


def test_html_report_forbids_what_it_does_not_use() -> None:
    """The policy holds even where an escape should ever be forgotten."""
    policies = [
        meta["content"]
        for meta in Page(html_report(analysis())).all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]

    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_links_of_the_table_lead_to_the_loops() -> None:
    """A link that leads nowhere is worse than none."""
    page = Page(html_report(analysis(finding(), finding(task="other"))))

    targets = [link["href"].removeprefix("#") for link in page.all("a")]

    assert targets == [section["id"] for section in page.all("section") if "id" in section]
    assert len(targets) == 2


# ---- JSON


def full_report() -> Any:
    """Write and read back a report in which no list is empty."""
    skipped = (Skipped("night.jsonl:3", "not JSON"),)
    failed = Failure(9, 0, "coder", "run_tests()", "s", "other", "E", "secret", TRACE, "f" * 16)
    gate = replace(OPENED, history=(failed,), blockers=("no key",))
    content = analysis(finding(), skipped=skipped, events=(WARNED, gate, RESOLVED, RESET))
    return json.loads(json_report(content, {"gate 10": OPINION}))


def test_json_report_keeps_to_the_documented_schema() -> None:
    """Programs are written against the schema, so the output has its fields and no others."""
    assert conflicts(full_report(), SCHEMA) == []


def test_schema_check_sees_each_kind_of_conflict() -> None:
    """A check that finds nothing must be one that can find something."""
    report = full_report()
    report["spans"] = "38"
    report["turns"] = -1
    report["schema"] = 2
    report["findings"][0]["action"] = "stop"
    report["findings"][0]["turns"][0]["extra"] = 1
    report["events"][0]["why"] = "BECAUSE"
    report["events"][1]["history"][0]["error"] = "secret"
    report["events"][1]["opinion"]["no_progress"] = "yes"
    del report["skipped"][0]["why"]

    assert set(conflicts(report, SCHEMA)) == {
        "$.spans: '38' is not of type 'integer'",
        "$.turns: -1 is less than the minimum of 0",
        "$.schema: 1 was expected",
        f"$.findings[0].action: 'stop' is not one of {list(ACTIONS)}",
        "$.findings[0].turns[0]: Additional properties are not allowed ('extra' was unexpected)",
        f"$.events[0].why: 'BECAUSE' is not one of {[*WHY_TEXTS, None]}",
        "$.events[1].history[0]: Additional properties are not allowed ('error' was unexpected)",
        "$.events[1].opinion.no_progress: 'yes' is not of type 'boolean', 'null'",
        "$.skipped[0]: 'why' is a required property",
    }


def test_documented_example_keeps_to_the_schema() -> None:
    """People copy the example before they read the table."""
    text = (DOCS / "json-schema.md").read_text("utf-8")
    example = re.search(r"```json\n(.*?)```", text, re.DOTALL)

    assert example is not None
    assert conflicts(json.loads(example[1]), SCHEMA) == []


def test_schema_describes_every_field() -> None:
    """The schema is the only list of the fields, so each has a sentence in it."""
    assert undescribed(SCHEMA) == []


def test_json_report_says_what_was_found() -> None:
    """Each value is where the schema puts it, and not only of the right type."""
    report = full_report()

    assert [report[key] for key in ("sessions", "tasks", "turns", "spans")] == [1, 3, 12, 38]
    assert report["tokens"] == {
        "input": 12_345,
        "output": 2_100,
        "cached": 9_000,
        "cache_write": 0,
        "reasoning": 0,
    }
    assert report["unknown"] == {"arguments": 0, "results": 0, "calls": 0}
    assert report["skipped"] == [{"where": "night.jsonl:3", "why": "not JSON"}]
    (found,) = report["findings"]
    assert found["reason"] == REASON
    cost = {"seconds": 46.2, "input_tokens": 690, "output_tokens": 100, "money": None}
    assert found["cost"] == cost
    assert [(turn["turn"], turn["role"]) for turn in found["turns"]][:2] == [
        (2, "first"),
        (4, "repeat"),
    ]


@pytest.mark.requirement("A14")
def test_json_report_has_every_event_with_its_directive() -> None:
    """Log shippers read from here what came about, with task, agent, time, reason and history."""
    warned, gate, resolved, reset = full_report()["events"]

    types = [one["type"] for one in (warned, gate, resolved, reset)]
    assert types == ["loop_detected", "gate_opened", "gate_resolved", "counter_reset"]
    assert {one["at"] for one in (warned, gate)} == {"2026-03-02T09:00:00.123456Z"}
    assert warned["directive"].endswith("do something else.")
    assert resolved["directive"].endswith("than before.")  # No note is quoted.
    assert reset["directive"] is None
    assert (gate["why"], gate["loop_count"], gate["history"][0]["turn"]) == ("LADDER", 4, 9)
    assert gate["opinion"] == asdict(OPINION) | {"no_opinion": None}
    assert (reset["reason"], reset["loop_count"]) == ("person", 4)


def test_json_report_keeps_what_was_said_to_itself() -> None:
    """A report that goes to a log must not carry a person's words or the text of an error."""
    talkative = replace(RESOLVED, note="secret")
    text = json_report(analysis(finding(), events=(talkative,)))

    assert "secret" not in text
    assert "secret" not in json.dumps(full_report())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_json_report_is_utf8_and_loses_nothing(hostile: str) -> None:
    """JSON is read by programs and printed on terminals; only a lone surrogate cannot be kept."""
    text = json_report(hostile_analysis(hostile))

    report = json.loads(text.encode())
    kept = hostile.replace("\ud800", "\ufffd")
    assert report["skipped"] == [{"where": kept, "why": kept}]
    assert report["findings"][0]["task"] == kept
    assert all(line.isprintable() for line in text.splitlines())


def test_reports_are_the_same_every_time() -> None:
    """The same input gives the same bytes, so that reports can be compared."""
    content = analysis(finding(), finding("cycle", (1, 2, 3, 4), period=2), finding(task="b"))
    shuffled = replace(content, turns=content.turns.reverse())

    assert json_report(content) == json_report(shuffled)
    assert html_report(content) == html_report(shuffled)


def test_the_loop_that_a_guard_stopped_leads() -> None:
    """That a task took too many turns says nothing about why."""
    guard = finding("max_iterations", turns=(1, 2, 3, 4, 5, 6), action="gate")
    loop = finding("repeated_call", turns=(2, 3, 4), action="warn")

    (group,) = loops_in([guard, loop])

    assert (group.lead, group.others) == (loop, (guard,))
    assert [group.lead for group in loops_in([guard])] == [guard]


def test_a_loop_without_a_signature_is_known_in_its_task_alone(tmp_path: Path) -> None:
    """Else one of them in a baseline would let all others of its rule pass."""
    blank = replace(finding(), signature="")
    baseline = tmp_path / "known.json"
    for task, count in (("fix-cart", 0), ("another", 1)):
        baseline.write_text(json_report(analysis(replace(blank, task=task))))
        assert len(loops_of(analysis(blank), baseline_of(baseline)).new) == count
