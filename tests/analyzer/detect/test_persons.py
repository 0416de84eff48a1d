"""Counts begin anew with a person, and not with an orchestrator that sends its prompt again."""

import json
from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest
from rich.console import Console

from looptrace.analyzer.detect.counters import Counting
from looptrace.analyzer.detect.persons import Persons
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.batch import analyse, detect
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.live_task import HORIZON_S
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.report.explanation import print_explanation
from looptrace.analyzer.testing.notation import turns_in
from looptrace.analyzer.tuning.explain import explain
from tests.collector.store.stored import spans_of
from tests.otlp import Trace, tool_call

requirement = pytest.mark.requirement

LOOP = 'run_tests()->!"expected 42, got 41"'


def policy(**settings: object) -> DetectionPolicy:
    """Return the default policy with other settings of who is a person."""
    persons = replace(Persons(), **settings)  # type: ignore[arg-type] # As the test gives them.
    return DetectionPolicy(RuleSet(counting=Counting(persons=persons)))


def gates(turns: pl.DataFrame, how: DetectionPolicy) -> list[tuple[str, int]]:
    """Return the events of gates and their turns, the same in batch and live."""
    engine = LiveEngine(how)
    live = [event for row in range(turns.height) for event in engine.feed(turns[row]).events]
    events = list(detect(turns, how).events)
    assert events == live
    return [(e.type, e.turn) for e in events if e.type in ("gate_opened", "gate_resolved")]


@requirement("A5")
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        # An orchestrator sends its prompt again: nothing begins anew.
        (f'(prompt("Make the tests pass.") {LOOP}) x3', [("gate_opened", 3)]),
        # It counts its rounds, names a time or draws an id.
        (f'(prompt("Round {{n}} of 9: make the tests pass.") {LOOP}) x3', [("gate_opened", 3)]),
        (f'(prompt("2026-03-0{{n}}T10:00:00Z  Make  it PASS") {LOOP}) x3', [("gate_opened", 3)]),
        # Its prompt resolves no gate either.
        (f'(prompt("Make the tests pass.") {LOOP}) x5', [("gate_opened", 3)]),
        # Two prompts in turn are known both.
        (f'(prompt("Plan.") {LOOP} prompt("Do it.") {LOOP}) x2', [("gate_opened", 4)]),
        # A person asks in other words each time.
        (
            f'prompt("Make the tests pass.") {LOOP} prompt("Look at the cart.") {LOOP} '
            f'prompt("And the login?") {LOOP}',
            [],
        ),
        # A person's words resolve the gate, where they are new.
        (
            f'prompt("Fix it.") {LOOP} x3 prompt("Fix it.") prompt("Use the other branch.")',
            [("gate_opened", 3), ("gate_resolved", 3)],
        ),
        # Who steps in is a person, whatever the words.
        (f'(user("Go on.") {LOOP}) x5', []),
        # A trace whose author records attempts is started by a program.
        (
            f'prompt("Begin.") {LOOP} attempt(blocked) prompt("It failed: 41.") {LOOP} '
            f'attempt(blocked) prompt("Still red.") {LOOP}',
            [("gate_opened", 5)],
        ),
        # Of what is unknown nobody can say that it was there before.
        (f"(prompt() {LOOP}) x4", []),
    ],
)
def test_who_is_a_person(written: str, expected: list[tuple[str, int]]) -> None:
    """New words are a person's; the same words, counters aside, and attempts are a program's."""
    assert gates(turns_in(written), policy()) == expected


@requirement("A5")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [("gate_opened", 3), ("gate_resolved", 3)]),
        ({"messages": "all"}, []),
        ({"messages": "none"}, [("gate_opened", 3)]),
        ({"resolved_by": "decision"}, [("gate_opened", 3)]),
    ],
)
def test_settings(settings: dict[str, object], expected: list[tuple[str, int]]) -> None:
    """The section `persons` says whose messages count, and whether they resolve a gate."""
    turns = turns_in(f'(prompt("Fix it.") {LOOP}) x3 prompt("Try another branch.")')
    assert gates(turns, policy(**settings)) == expected


def test_a_message_resets_where_only_decisions_resolve() -> None:
    """A message in new words lets counts begin anew, also where it cannot resolve a gate."""
    turns = turns_in(f'{LOOP} x2 prompt("Try another branch.") {LOOP} x2')
    assert gates(turns, policy(resolved_by="decision")) == []


@pytest.mark.parametrize("pause_s", [1, 2 * HORIZON_S])
def test_words_are_remembered_in_a_bounded_memory(pause_s: int) -> None:
    """As many texts are compared as the setting says, in batch as live, settled or not."""
    # The pause lies within each iteration: after it, the same prompt would begin a new run.
    work = f"{LOOP} ~{pause_s} read(a)->ok"
    other = "".join(f'prompt("Do {word}.") {work} ' for word in ("this", "that"))
    turns = turns_in(f'prompt("Fix it.") {work} {other} prompt("Fix it.") {LOOP} x2')
    assert gates(turns, policy(messages_kept=3)) == [("gate_opened", 8)]
    assert gates(turns, policy(messages_kept=2)) == []


def trace_of(prompt: str, at: str, *, status: str | None = None) -> Trace:
    """Return an iteration: an agent is given a prompt, runs the tests, which fail, and answers."""
    trace = Trace(name=at, at=f"2026-03-02T09:{at}:00+00:00")
    declared = {"looptrace.task.status": status} if status else {}
    root = trace.span("iteration", attributes={"looptrace.task.id": "t", **declared})
    asked = {"role": "user", "parts": [{"type": "text", "content": prompt}]}
    call = {"type": "tool_call", "id": f"c{at}", "name": "run_tests", "arguments": {}}
    trace.span("chat m", root, model([asked], [call]))
    trace.span(
        "execute_tool run_tests",
        root,
        tool_call("run_tests", call_id=f"c{at}"),
        status="error",
        message="expected 42, got 41",
    )
    return trace


def model(given: Sequence[object], answer: Sequence[object]) -> dict[str, str]:
    """Return the attributes of a response."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": answer}]),
    }


def said(role: str, text: str) -> dict[str, object]:
    """Return a message of a text."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


@requirement("A4", "A5")
def test_an_orchestrators_traces_are_iterations() -> None:
    """Three traces with one prompt are one task, whose third equal failure opens a gate."""
    traces = [trace_of(f"Tick {i}: make the tests pass.", f"1{i}") for i in range(3)]
    spans = spans_of(*traces)
    opened = [event for event in analyse(spans).events if event.type == "gate_opened"]
    assert [event.rule for event in opened] == ["repeated_failure"]


@requirement("A5")
def test_a_message_after_the_final_answer_is_a_person() -> None:
    """Within one trace, who writes after an answer without calls is taken for a person."""
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {}}
    result = {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c1", "response": "nothing"}],
    }
    asked = {"role": "assistant", "parts": [call]}
    history = [said("user", "Where is my parcel?"), asked, result]
    answer = [{"type": "text", "content": "It is on its way."}]
    trace = Trace()
    trace.span("chat m", None, model(history[:1], [call]))
    trace.span("chat m", None, model(history, answer))
    history += [said("assistant", "It is on its way.")]
    trace.span("chat m", None, model([*history, said("user", "And when?")], answer))
    # A framework that repeats what an agent said is no person.
    copy = [*history, said("user", "And when?"), said("assistant", "It is."), history[-1]]
    copy[-1] = said("user", "It is on its way.")
    trace.span("chat m", None, model(copy, answer))
    turns, _ = turns_of(spans_of(trace))
    assert turns.filter(kind="user")["text"].to_list() == ["Where is my parcel?", "And when?"]


def test_observations_put_into_words_are_no_messages() -> None:
    """An agent that never calls by messages is given results as a user's; they are none."""
    trace = Trace()
    history = [said("user", "Fix the bug.")]
    for n in range(3):
        trace.span("chat m", None, model(history, [{"type": "text", "content": f"ls {n}"}]))
        history = [*history, said("assistant", f"ls {n}"), said("user", f"file {n}")]
    turns, _ = turns_of(spans_of(trace))
    assert turns.filter(kind="user")["text"].to_list() == ["Fix the bug."]


def rounds_of(message: str, answer: str, count: int) -> Trace:
    """Return a trace without calls, in which a message comes again after each answer."""
    trace, history = Trace(), [said("user", "Fix the bug.")]
    for n in range(count + 1):
        text = answer.format(n=n)
        trace.span("chat m", None, model(history, [{"type": "text", "content": text}]))
        history = [*history, said("assistant", text), said("user", message.format(n=n))]
    return trace


def test_a_message_that_is_put_into_each_round_is_no_person() -> None:
    """A hook that counts its rounds is heard and not heeded; the first time it may be a person."""
    spans = spans_of(rounds_of("Stop hook: no test was run, attempt {n}", "All done, {n}.", 5))
    turns, _ = turns_of(spans)

    assert turns.filter(kind="user").height == 1 + 4
    found = analyse(spans).findings
    assert [(one.rule, one.attempts) for one in found] == [("unheeded_message", 4)]
    speakers = explain(turns).speakers
    assert [each for each in speakers if each] == ["message", *["same_words"] * 4]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        # A framework puts results into words, and the agent its commands.
        ("Your command ran and did not print any output.", "sed -i s/{n}/x/ a.py"),
        ("Your command ran and did not print any output.", "Edit it.\n```\nsed -i s/{n}/x/ a\n```"),
        # A person asks for one page after the other.
        ("Please tell me what is on page {n}.", "It is a table of {n} rows."),
        # A text is written in parts.
        ("Please write the next part of the story.", "It was night, and it rained. {n} " * 20),
    ],
)
def test_other_messages_of_a_talk_are_no_rounds(message: str, answer: str) -> None:
    """They bring something, or are not only heard."""
    found = analyse(spans_of(rounds_of(message, answer, 9))).findings
    assert "unheeded_message" not in {one.rule for one in found}


def test_explain_names_persons() -> None:
    """The explanation names for each message whether it was a person's, why, and its words."""
    turns = turns_in(f'prompt("Fix it.") {LOOP} prompt("Fix it.") user("Stop.")')
    explanation = explain(turns)
    speakers = ("message", None, "same_words", "intervention")
    assert explanation.speakers == speakers
    console = Console(width=200, record=True)
    print_explanation("t", turns, explanation, console)
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert "person Fix it. a person, in new words" in lines
    assert "prompt Fix it. not a person: words that came before" in lines
    assert "person Stop. a person stepped in" in lines
