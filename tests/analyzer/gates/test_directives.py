"""Directives say what to do now, quote nothing, and can be replaced."""

from pathlib import Path

import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.gates.decisions import DECISIONS, Decision
from looptrace.analyzer.gates.directives import DirectiveError, Directives
from looptrace.analyzer.gates.events import EventType, GateEvent, TaskStatus
from looptrace.analyzer.testing.notation import turns_in
from looptrace.rules.contract import ACTIONS

QUOTED = "hunter2"
LOOPS = (
    f'say("{QUOTED}", given={QUOTED}) x9',
    f"attempt(blocked, no key) x4 attempt(done)->{QUOTED} x4",
    f"attempt(done)->{QUOTED} x3",
    f'fetch({QUOTED})->!"429 {QUOTED}" x3',
    f"run({QUOTED})->{QUOTED} x3",
)


def event_at(kind: EventType, decision: Decision, note: str | None = None) -> GateEvent:
    """Return an event with a decision."""
    state: TaskStatus = "active"
    return GateEvent("e", kind, "example", 1, 1, state, state, decision=decision, note=note)


def events_of(*texts: str) -> list[GateEvent]:
    """Return the events of turns in the notation."""
    return [event for text in texts for event in detect(turns_in(text)).events]


@pytest.mark.requirement("E2")
def test_pivot_asks_for_another_approach() -> None:
    """It says how often, what to ignore, how to reason, and what the new plan must be."""
    (pivot, *_) = events_of(LOOPS[0])
    text = Directives().text_of(pivot) or ""

    assert "3 times" in text
    assert "Ignore all previous implementation attempts" in text
    assert "first principles" in text
    for step in ("Read the requirements again", "constraint", "new approach", "structurally"):
        assert step in text


@pytest.mark.requirement("B3")
def test_authority_is_for_this_task_and_these_blockers() -> None:
    """It lists what the agent may do, and names the blockers."""
    (granted, *_) = events_of(LOOPS[1])
    text = Directives().text_of(granted) or ""

    assert "- no key\n" in text
    for may in ("architecture", "skip a dependency", "stub", "work around", "technical debt"):
        assert may in text


@pytest.mark.requirement("E2")
def test_nothing_of_earlier_turns_is_quoted() -> None:
    """Whatever the turns said, no directive says it again; every action has one."""
    events = events_of(*LOOPS)
    texts = [Directives().text_of(event) for event in events]

    assert {event.action for event in events} == set(ACTIONS)
    assert all(texts)
    assert all("ask example" in (text or "") for text in texts)
    assert not any(QUOTED in (text or "") for text in texts)


@pytest.mark.parametrize(
    ("loop", "action", "named"),
    [
        (f"run({QUOTED})->{QUOTED} x3", "warn", "by calling run, with"),
        ("edit(a)->b run(c)->d " * 4, "warn", "by calling edit, then run, with"),
        (f'fetch({QUOTED})->!"429 {QUOTED}" x3', "retry_later", "failures of fetch, such"),
        (f'run({QUOTED})->!"no {QUOTED}" x5', "gate", "calling run."),
        (f'say("{QUOTED}", given={QUOTED}) x9', "pivot", "failure 3 times, and"),
    ],
)
def test_the_tools_that_repeat_are_named(loop: str, action: str, named: str) -> None:
    """An agent with many calls must know which; what it called them with is not quoted."""
    text = next(Directives().text_of(e) or "" for e in events_of(loop) if e.action == action)

    assert named in " ".join(text.split())
    assert QUOTED not in text


@pytest.mark.requirement("A18")
@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_is_a_directive_with_its_note(decision: Decision) -> None:
    """The agent goes on with what the person wrote, and nothing in it acts on a screen."""
    resolved = event_at("gate_resolved", decision, "Use b.\n\x1b[31mThen stop.")
    text = Directives().text_of(resolved) or ""

    assert "task example" in text
    assert text.endswith("They say: Use b.\n\N{REPLACEMENT CHARACTER}[31mThen stop.")
    assert "They say" not in (Directives().text_of(event_at("gate_resolved", decision)) or "")


def test_a_reset_asks_nothing_of_the_agent() -> None:
    """A completion has none."""
    events = events_of("run(a)->b x3 attempt(done) run(c)->d")

    assert [Directives().text_of(event) is None for event in events] == [False, True]


def test_a_team_writes_its_own(tmp_path: Path) -> None:
    """A file of the same name wins; of a rule's name it wins for that rule alone."""
    (tmp_path / "warn.txt.j2").write_text("Stop, {{ task }}: {{ attempts }}.")
    warn, pivot = events_of("run(a)->b x3")[0], events_of(LOOPS[0])[0]
    own = Directives(tmp_path)

    assert own.text_of(warn) == "Stop, example: 3."
    assert own.text_of(pivot) == Directives().text_of(pivot)
    (tmp_path / "repeated_call.txt.j2").write_text("Call something else.")
    assert own.text_of(warn) == "Call something else."


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{ secret }}", "'secret' is undefined"),
        ("{% if %}", "Expected an expression"),
        ("{{ task.__class__.__mro__ }}", "unsafe"),
    ],
)
def test_a_template_that_cannot_be_used_is_named(tmp_path: Path, text: str, why: str) -> None:
    """The error is one line with the file's name, and what is wrong with it."""
    (tmp_path / "warn.txt.j2").write_text(text)

    with pytest.raises(DirectiveError, match=r"warn\.txt\.j2.*" + why):
        Directives(tmp_path).text_of(events_of("run(a)->b x3")[0])


def test_a_folder_is_checked_before_it_is_needed(tmp_path: Path) -> None:
    """At the start a team learns that its folder is not there, or a template is broken."""
    with pytest.raises(DirectiveError, match="is not a folder"):
        Directives(tmp_path / "none").check()
    Directives().check()
    (tmp_path / "gate.txt.j2").write_text("{% for %}")
    with pytest.raises(DirectiveError, match=r"gate\.txt\.j2: cannot be used: [Ee]xpected"):
        Directives(tmp_path).check()
    (tmp_path / "gate.txt.j2").write_text("{{ tools[0] }} {{ task.upper() }}")
    Directives(tmp_path).check()
