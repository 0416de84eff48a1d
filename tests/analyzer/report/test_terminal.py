"""The report on a terminal."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from looptrace.analyzer.detect.findings import Cost
from looptrace.analyzer.engine.analysis import Summary, Unknown
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import NoOpinion
from looptrace.analyzer.normalize.understanding import Understood
from looptrace.analyzer.report.html import html_report
from looptrace.analyzer.report.terminal import print_report
from looptrace.analyzer.report.wording import EVENTS_SHOWN_MAX, cost_text, duration_text
from looptrace.analyzer.schema.span_fields import Shape
from looptrace.analyzer.schema.spans import Skipped
from looptrace.rules.contract import Action
from tests.analyzer.report.contents import (
    HOSTILE,
    OPENED,
    OPINION,
    REASON,
    RESET,
    RESOLVED,
    WARNED,
    Page,
    analysis,
    event,
    finding,
    hostile_analysis,
    printed,
)

ACTION_RED, ACTION_MAGENTA, ACTION_YELLOW = "\x1b[1;31m", "\x1b[1;35m", "\x1b[1;33m"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "under 0.1 s"),
        (0.1, "0.1 s"),
        (9.94, "9.9 s"),
        (46.2, "46 s"),
        (59.7, "1 min"),
        (7_200, "2 h"),
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
        "  gate, found by repeated_call, agent coder\n"
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
    ("action", "escape"), [("gate", ACTION_RED), ("pivot", ACTION_MAGENTA), ("warn", ACTION_YELLOW)]
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
        (event("counter_reset", 3, reason="idle", loop_count=3), "reset after 4 times: the task"),
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
