"""The report on one gate: what it says, that it is bounded, and that no trace can break it."""

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.engine.batch import analysis_of
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.llm_judge import NoOpinion, Opinion
from looptrace.analyzer.report.escalation import (
    BEFORE_MAX,
    DONE_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    Escalation,
    PastNote,
    escalation_of,
)
from looptrace.analyzer.report.escalation_markdown import escalation_json, escalation_markdown
from looptrace.analyzer.testing.notation import turns_in
from tests.schemas import conflicts

requirement = pytest.mark.requirement

LOOP = (
    'user("Mend the cart.") look(cart.py)->code '
    '(run_tests(cart.py)->!"expected 42, got 41" say("I try again.")) x4'
)
TEXTS = ("task", "session", "agent", "name", "arguments", "result", "error", "error_type", "text")

HOSTILE = [
    "`` ` ``` ```` ~~~",
    "```\n# Heading\n```",
    "x | y \\| z",
    "<script>alert(1)</script> <!-- x",
    "[link](https://evil.example) ![i](https://evil.example/x.png) <https://evil.example>",
    "line\r\n\r\n# Heading\n\n- item\n1. one",
    "\n---\n",
    "&lt;b&gt; &#96;",
    "$(rm -rf) {{ 7 * 7 }} \x1b[31m\u202e\u2028",
    "`",
    "",
    " ".join(map(str, range(20_000))),
]


def analysed(turns: pl.DataFrame) -> Analysis:
    """Judge turns with the defaults."""
    return analysis_of(turns, turns.height)


def escalated(text: str | pl.DataFrame, place: int = 0, **more: Any) -> Escalation:
    """Report on a gate of turns in the notation."""
    found = analysed(turns_in(text) if isinstance(text, str) else text)
    gate = [event for event in found.events if event.type == "gate_opened"][place]
    finding = next(finding for finding in found.findings if finding.id == gate.finding)
    return escalation_of(gate, finding, found.turns, found.events, **more)


def blocks(markdown: str) -> list[Token]:
    """Parse as GitHub would, tables included."""
    return MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown)


def inline(markdown: str) -> list[Token]:
    """Return the texts within paragraphs, headings and items."""
    return [child for token in blocks(markdown) for child in token.children or ()]


@requirement("C6")
@requirement("A17")
def test_report_says_what_a_person_needs() -> None:
    """Pattern, signature, turns with the repeats marked, failures, cost and three options."""
    found = escalated(LOOP)

    assert found.gate.reason == (
        "the failure of run_tests(cart.py) came 3 times in the task, turns 2–6"
    )
    assert found.gate.signature.startswith("error:Error-expected")
    assert found.goal == "Mend the cart."
    assert [(turn.turn, turn.role) for turn in found.iterations] == [
        (2, "first"),
        (3, "between"),
        (4, "repeat"),
        (5, "between"),
        (6, "repeat"),
    ]
    assert [failure.turn for failure in found.gate.history] == [2, 4, 6]
    assert [option.name for option in found.options] == ["different_approach", "review", "cancel"]
    assert (found.rule_says[:11], found.is_exact, found.opinion) == ("One failure", True, None)
    text = escalation_markdown(found)
    for said in (
        "    2  first   run_tests(cart.py)\n                 failed expected 42, got 41\n",
        "    3          I try again.\n",
        "expected 42, got 41",
        "1. **Continue with a different approach.**",
        "2. **Review and debug.**",
        "3. **Cancel.**",
        "gated because the rule's limit is reached (`LADDER`)",
    ):
        assert said in text


@requirement("C6")
def test_what_was_told_before_is_in_the_report() -> None:
    """A person must not order what was already tried; later events are not known yet."""
    found = escalated('say("No way.", given=error) x12 user("Go.") run(a)->same x6')

    told = [(event.action, event.turn) for event in found.before]
    assert told == [("pivot", 3), ("pivot", 6), ("warn", 8)]
    assert "- turn 6: `pivot by response_repeat, at the 6th time: change of course 2`" in (
        escalation_markdown(found)
    )
    later = escalated('say("No way.", given=error) x12 user("Go.") run(a)->same x6', 1)
    assert [event.type for event in later.before][-2:] == ["counter_reset", "loop_detected"]


def test_rounds_of_a_cycle_are_marked() -> None:
    """The first round is what the others repeat."""
    found = escalated("(make()->x drop()->y) x4")

    assert found.period == 2
    assert [turn.role for turn in found.iterations] == ["first"] * 2 + ["repeat"] * 6
    assert "attempts: 4, each of 2 turns\n" in escalation_markdown(found)


@requirement("C6")
def test_report_does_not_know_what_came_after_the_gate() -> None:
    """Live and in batch, at once or the day after, it is the same report."""
    at_gate = escalated("go()->1 run(a)->same x5")
    for later in ('user("Stop.")', 'run(a)->same x4 user("Stop.") go()->2'):
        after = escalated(f"go()->1 run(a)->same x5 {later}")
        assert escalation_markdown(at_gate) == escalation_markdown(after)
        assert escalation_json(at_gate) == escalation_json(after)


def test_cost_is_that_of_the_loop() -> None:
    """From the first turn of the loop to the gate, as the finding counts it."""
    turns = turns_in('go()->1 (run(a)->same say("I try {n}.")) x4')
    turns = turns.with_columns(input_tokens=pl.lit(100), output_tokens=pl.lit(10))
    found = analysed(turns.head(8))
    (finding,) = [one for one in found.findings if one.rule == "repeated_call"]

    assert escalated(turns.head(8)).cost == finding.cost


def test_long_loop_is_told_by_its_start_its_end_and_some_between() -> None:
    """Nobody reads an endless report; it says what it leaves out."""
    talk = escalated('(test()->!"boom" (say("Part {n}.") x30)) x3')
    shown = [turn.turn for turn in talk.iterations]
    assert shown[:12] == list(range(1, 13))
    assert shown[-12:] == list(range(52, 64))
    assert 32 in shown
    assert sum(turn.left_out for turn in talk.iterations) + len(shown) == 63
    assert "turns left out ..." in escalation_markdown(talk)


def test_long_history_of_events_is_bounded() -> None:
    """A task that was reset a hundred times shows the last, and how many there were."""
    found = escalated('(run(a)->same x3 user("Go on.")) x40 run(a)->same x5')

    assert len(found.before) == BEFORE_MAX
    assert f"- {found.before_left_out} earlier events left out" in escalation_markdown(found)


def hostile_turns(text: str) -> pl.DataFrame:
    """Put a text into every field of a loop that a trace can fill, and keep the loop one."""
    turns = turns_in(LOOP)
    tool, user = pl.col("kind") == "tool", pl.col("kind") == "user"
    filled: dict[str, pl.Expr] = {
        name: pl.when(pl.col(name).is_not_null()).then(pl.lit(text)) for name in TEXTS
    }
    filled["agent"] = pl.lit(text or "x")  # Without an agent the page has a line less.
    filled["result"] = pl.when(tool).then(pl.lit(text))
    filled["text"] = pl.when(user | (pl.col("kind") == "model")).then(pl.lit(text))
    filled["signature"] = pl.when(pl.col("signature").is_not_null()).then(pl.lit(f"s {text}"))
    return turns.with_columns(**filled)


@requirement("A17")
@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_trace_breaks_out_of_the_markdown(hostile: str) -> None:
    """The page of a hostile trace has the shape of any other; its texts are in code alone."""
    opinion = NoOpinion(hostile[:100].replace("\n", " "))
    notes = [PastNote(hostile, hostile)]
    text = escalation_markdown(escalated(hostile_turns(hostile), opinion=opinion, notes=notes))
    usual = escalation_markdown(
        escalated(hostile_turns("x"), opinion=NoOpinion("x"), notes=[PastNote("x", "x")])
    )

    def shape(markdown: str) -> list[str]:
        return [token.type for token in blocks(markdown)]

    assert shape(text) == shape(usual)
    kinds = {"text", "code_inline", "strong_open", "strong_close", "softbreak"}
    assert {token.type for token in inline(text)} <= kinds
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text) < 40_000
    if word := hostile.strip()[:5]:
        said = "".join(token.content for token in inline(text) if token.type == "text")
        assert word == "`" or word.split("\n")[0] not in said


@pytest.mark.parametrize("hostile", HOSTILE)
def test_json_of_a_hostile_trace_is_json(hostile: str) -> None:
    """It keeps to the schema, on printable lines, with texts of bounded length."""
    text = escalation_json(escalated(hostile_turns(hostile), notes=[PastNote(hostile, "today")]))
    report = json.loads(text.encode())

    assert conflicts(report, "escalation.schema.json") == []
    assert all(line.isprintable() for line in text.splitlines())
    longest = max(TEXT_LENGTH_MAX, DONE_LENGTH_MAX)
    assert all(len(turn["outcome"] or "") <= longest for turn in report["iterations"])


@requirement("A17")
@requirement("C6")
def test_json_says_the_same() -> None:
    """A program finds the pattern, the marked turns, the texts of errors, and the options."""
    opinion = Opinion(is_regressive=True, no_progress=True, is_external=False, reasoning="So.")
    notes = [PastNote("Pin the version.", "2026-03-14", "type")]
    report = json.loads(escalation_json(escalated(LOOP, opinion=opinion, notes=notes)))

    assert conflicts(report, "escalation.schema.json") == []
    assert [turn["role"] for turn in report["iterations"]].count("repeat") == 2
    assert report["failures"][0]["error"] == "expected 42, got 41"
    assert report["gate"]["opinion"]["reasoning"] == "So."
    assert report["notes"] == [
        {"text": "Pin the version.", "date": "2026-03-14", "likeness": "type", "distance": None}
    ]
    del report["options"][0]["meaning"]
    report["failures"][0]["turn"] = "2"
    assert set(conflicts(report, "escalation.schema.json")) == {
        "$.options[0]: 'meaning' is a required property",
        "$.failures[0].turn: '2' is not of type 'integer'",
    }


@requirement("A17")
@requirement("A13")
def test_opinion_and_notes_are_shown_where_there_are_some() -> None:
    """An opinion is marked as one, and what helped before has its day."""
    plain = escalation_markdown(escalated(LOOP))
    text = escalation_markdown(
        escalated(LOOP, opinion=NoOpinion("it is away"), notes=[PastNote("Pin `x`.", "2026-03-14")])
    )

    assert "judge" not in plain
    assert "helped" not in plain
    assert (
        "The judge was asked, and has `no opinion: it is away`\n\nThe opinion decides nothing."
        in text
    )
    assert "- `2026-03-14`: `` Pin `x`. ``" in text


def test_gate_of_another_task_is_left_out() -> None:
    """Turns and events of a whole store may be given."""
    one = turns_in(LOOP)
    other = one.with_columns(
        task=pl.lit("other"), trace_id=pl.lit("other"), error=pl.lit("elsewhere")
    )
    both = pl.concat([one, other])
    found = analysed(both)
    gates = [event for event in found.events if event.type == "gate_opened"]
    assert [gate.task for gate in gates] == ["example", "other"]

    (finding,) = [f for f in found.findings if f.id == gates[0].finding]
    report = escalation_of(gates[0], finding, both, found.events)
    assert report == escalated(LOOP)
    assert "elsewhere" not in escalation_markdown(report)


def test_gate_of_a_rule_that_is_gone_is_still_reported() -> None:
    """A gate may wait for a person longer than a rule lives."""
    found = analysed(turns_in(LOOP))
    gate: GateEvent = next(event for event in found.events if event.type == "gate_opened")
    finding = next(finding for finding in found.findings if finding.id == gate.finding)
    report = escalation_of(replace(gate, rule="gone"), finding, found.turns)

    assert report.rule_says == ""
    assert "- rule: `gone`" in escalation_markdown(report)
