"""The backtest: which gates two settings open in the same turns, and what comes after them."""

import json
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.detect.prices import Price, Prices
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.analyzer.settings.sections import Settings, default, parsed
from looptrace.analyzer.testing.notation import turns_in
from looptrace.analyzer.tuning.backtest import Backtest, Opened, Spent, Total, backtest
from looptrace.collector.files.reader import read_spans
from looptrace.rules.calls.repeated_failure import RepeatedFailure
from looptrace.rules.contract import Rung
from tests.collector.store.stored import spans_of
from tests.otlp import Trace, tool_call
from tests.paths import TRACES

PRICES = Prices("EUR", (Price("small-*", 1_000, 10_000),))
BOOM = 'test()->!"boom"'


def only(attempts: int) -> Settings:
    """Open a gate at so many equal failures, and at nothing else."""
    ladder = (Rung(attempts, "gate"),)
    rule = RepeatedFailure(attempts_min=attempts, ladder=ladder)
    return Settings("", DetectionPolicy(RuleSet((rule,))))


def run(text: str, a: Settings, b: Settings) -> Backtest:
    """Compare over turns in the notation."""
    return backtest([turns_in(text)], a, b)


def places(found: Backtest) -> list[tuple[int | None, int | None]]:
    """Name the turns of the gates of each row."""
    return [(row.a.turn if row.a else None, row.b.turn if row.b else None) for row in found.rows]


def after(opened: Opened | None) -> Spent:
    """Return what came after a gate that is there."""
    assert opened
    return opened.after


def test_gates_stand_side_by_side() -> None:
    """Each side opens its gate at its own turn, and only the turns behind it come after."""
    found = run(f"{BOOM} x6 done()->ok x2", only(3), only(5))

    assert places(found) == [(3, 5)]
    (row,) = found.rows
    assert (after(row.a).turns, after(row.b).turns) == (5, 3)
    assert (found.a.after.turns, found.b.after.turns) == (5, 3)
    assert (row.task, found.tasks, found.turns, found.without_gate) == ("example", 1, 8, 0)


def test_a_side_without_a_gate_has_none() -> None:
    """Six failures are no loop of seven."""
    found = run(f"{BOOM} x6", only(7), only(3))

    assert places(found) == [(None, 3)]
    assert (found.a.after, found.a.findings, found.a.actions) == (Spent(), 0, {})
    assert (found.b.findings, found.b.actions) == (1, {"gate": 1})


def test_turns_after_a_person_stepped_in_are_not_saved() -> None:
    """The person resolves the gate, so that what follows is new work, with a gate of its own."""
    found = run(f'{BOOM} x5 user("Go on.") done({{n}})->ok x9 {BOOM} x4', only(3), only(4))

    assert places(found) == [(3, 4), (17, 18)]
    assert [after(row.a).turns for row in found.rows] == [2, 1]
    assert [after(row.b).turns for row in found.rows] == [1, 0]
    assert found.a.after.turns == 3


def test_a_prompt_that_comes_again_resolves_nothing() -> None:
    """An orchestrator's prompt is no person: what comes of it comes after the gate, too."""
    found = run(f'prompt("Mend it.") {BOOM} x5 prompt("Mend it.") {BOOM} x4', only(3), only(3))

    assert places(found) == [(3, 3)]
    assert (found.a.after.turns, found.b.after.turns) == (6, 6)


def test_gates_between_other_messages_are_other_rows() -> None:
    """A side that was silent at first is not paired with the other's first gate."""
    found = run(f'{BOOM} x3 user("Go on.") {BOOM} x5', only(3), only(5))

    assert places(found) == [(3, None), (6, 8)]


def turns_of_trace(made: Trace) -> pl.DataFrame:
    """Read a trace as the command does."""
    return turns_of(spans_of(made))[0]


def rounds(count: int, model: str | None = "small-1", *, tokens: bool = True) -> pl.DataFrame:
    """Return a task of rounds, a second each: a response of 100 + 10 tokens, a failing call."""
    made = Trace("stuck")
    answer = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Again."}]}])
    used = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 10}
    asked = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": answer}
    named = {"gen_ai.request.model": model} if model else {}
    called = tool_call("read", "{}", error="ValueError")
    for _ in range(count):
        made.span("chat", None, {**asked, **named, **(used if tokens else {})})
        made.span("execute_tool read", None, called, status="error", message="no file")
    return turns_of_trace(made)


def test_what_came_after_is_added_up() -> None:
    """Of five rounds the gate opens at the end of the third: two are left."""
    found = backtest([rounds(5)], only(3), only(9), PRICES)

    (row,) = found.rows
    assert row.a is not None
    assert (row.a.turn, row.a.rule, row.a.why) == (6, "repeated_failure", "LADDER")
    spent = row.a.after
    assert (spent.turns, spent.seconds) == (4, 4.0)
    assert (spent.input_tokens, spent.output_tokens) == (200, 20)
    # 200 tokens at 1,000 a million, and 20 at 10,000.
    assert spent.money == pytest.approx(0.4)
    assert (found.currency, spent.unpriced, spent.untold) == ("EUR", {}, 0)


@pytest.mark.parametrize(("model", "named"), [("huge-1", "huge-1"), (None, "chat"), ("", "chat")])
def test_a_model_without_a_price_is_counted_and_named(model: str | None, named: str) -> None:
    """It is not free: the report counts its responses beside the sum."""
    found = backtest([rounds(5, model)], only(3), only(9), PRICES)

    assert found.a.after.money == 0
    assert found.a.after.unpriced == {named: 2}


def test_responses_without_tokens_are_counted() -> None:
    """What they cost is unknown, which is not nothing."""
    found = backtest([rounds(5, tokens=False)], only(3), only(9), PRICES)

    assert (found.a.after.untold, found.a.after.money) == (2, 0)


def test_without_prices_no_model_is_missed() -> None:
    """Without a table the report has no money."""
    found = backtest([rounds(5)], only(3), only(9))

    assert (found.currency, found.a.after.money, found.a.after.unpriced) == (None, 0, {})


def test_totals_add_up_over_parts() -> None:
    """A store is read part by part, and a part more adds what is in it."""
    part = rounds(5)
    other = part.with_columns(task=pl.lit("another"))
    one = backtest([part], only(3), only(2), PRICES)
    both = backtest([part, other], only(3), only(2), PRICES)

    assert (both.tasks, both.turns) == (2, 2 * one.turns)
    assert [row.task for row in both.rows] == ["another", "stuck"]
    spent = both.a.after
    assert (spent.turns, spent.seconds, spent.untold) == (8, 8.0, 0)
    assert (spent.input_tokens, spent.output_tokens) == (400, 40)
    assert spent.money == pytest.approx(0.8)
    assert (both.a.findings, both.a.actions) == (2, {"gate": 2})


def test_the_order_of_parts_says_nothing() -> None:
    """Sums of money are not exact, and yet the same in whatever order the tasks come."""
    parts = [rounds(3 + count).with_columns(task=pl.lit(f"task {count}")) for count in range(1, 7)]
    prices = Prices("EUR", (Price("*", 3, 3),))
    found = backtest(parts, only(3), only(9), prices)

    assert backtest(parts[::-1], only(3), only(9), prices) == found
    assert found.a.after.money != sum(
        (after(row.a).money for row in reversed(found.rows)), start=0.0
    )


def test_attempts_at_other_tasks_are_no_turns_of_the_session() -> None:
    """They stand in the session too, as what an agent goes to and fro between."""
    made = Trace("session")
    called = tool_call("read", "{}")
    for _ in range(4):
        made.span("execute_tool read", None, called, status="error", message="no file")
    for task in ("one", "two"):
        made.span(
            "attempt", None, {"looptrace.task.id": task, "looptrace.task.status": "in_progress"}
        )
    found = backtest([turns_of_trace(made)], only(3), only(9))

    assert [row.task for row in found.rows] == ["session"]
    assert (found.a.after.turns, found.turns) == (1, 6)


def test_nothing_is_compared() -> None:
    """No turns at all are no error."""
    nothing = Backtest(0, 0, None, "", Total(), Total(), ())

    assert backtest([], default(), default()) == nothing
    assert backtest([pl.DataFrame(schema=TURN_SCHEMA)], default(), default()) == nothing


@pytest.mark.parametrize("path", sorted(TRACES.iterdir()), ids=lambda path: path.name)
def test_both_sides_are_judged_as_an_analysis_judges(path: Path) -> None:
    """The same settings give the same twice, and the gates that analyze would show."""
    turns = turns_of(read_spans([str(path)]).spans)[0]
    judged = detect(turns)
    gates = {(e.task, e.turn, e.reason) for e in judged.events if e.type == "gate_opened"}
    found = backtest([turns], default(), default())

    assert found.a == found.b
    assert found.a.findings == len(judged.findings)
    assert all(row.a == row.b for row in found.rows)
    assert {(row.task, row.a.turn, row.a.reason) for row in found.rows if row.a} == gates


def test_recovery_is_part_of_the_settings() -> None:
    """Where unblocking is off, the gate opens where authority would have been granted."""
    text = "attempt(blocked, key) x6"
    off = parsed(b"[recovery]\nunblock = false\n", "b.toml")
    found = run(text, default(), off)

    assert places(found) == [(4, 3)]
    assert [row.b and row.b.why for row in found.rows] == ["UNBLOCKING_OFF"]
    assert found.a.actions["unblock_authority"] == 1


def test_each_side_compares_by_its_own_masks() -> None:
    """Stored turns were compared by other settings, and are compared again."""
    masks = b'[[masks]]\npattern = "draft [a-z]+"\nname = "<draft>"\n'
    text = " ".join(f'write(notes)->"draft {letter} is too long"' for letter in "abcdef")
    found = run(text, default(), parsed(masks, "b.toml"))

    assert found.a.findings == 0
    assert found.b.actions["gate"] == 1
