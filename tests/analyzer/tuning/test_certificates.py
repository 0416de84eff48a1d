"""A certificate says what gates would have cost in solved runs, and never more than they show."""

import json
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.settings.outcomes.sources import Solved, solved_where
from looptrace.analyzer.settings.sections import default
from looptrace.analyzer.testing.notation import turns_in
from looptrace.analyzer.tuning.certificates import (
    Certificate,
    Outcome,
    OutcomesError,
    Run,
    certificates,
    needed_for,
    read_outcomes,
    runs_of,
    share_max,
)
from looptrace.analyzer.tuning.outcomes import outcomes_in
from tests.commands import printed, run
from tests.otlp import Trace, tool_call

BRIEF = 'say("{n}") look({name})->found edit({name})->ok say("done")'
LOOP = '(say("go {n}") run(tests)->!boom) x8 say("done")'


@pytest.mark.parametrize(
    ("lost", "of", "share"),
    [(0, 299, 0.01), (0, 149, 0.02), (0, 59, 0.05), (0, 88, 0.0335), (3, 710, 0.0109)],
)
def test_the_bound_is_that_of_the_tables(lost: int, of: int, share: float) -> None:
    """With none lost 299 runs promise 1 %; the last row was computed by another program."""
    assert share_max(lost, of) == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_what_is_all_lost_or_nothing_promises_nothing(count: int) -> None:
    """No run, or none that was kept, says nothing good."""
    assert share_max(count, count) == 1.0


@pytest.mark.parametrize(
    ("lost", "share", "runs"), [(0, 0.01, 299), (0, 0.05, 59), (3, 0.01, 774), (0, 1e-9, None)]
)
def test_how_many_runs_promise_a_share(lost: int, share: float, runs: int | None) -> None:
    """A person learns how long to collect, or that it has no end."""
    assert needed_for(lost, share) == runs


def turns_of(task: str, notation: str, kind: str = "code", model: str = "m") -> pl.DataFrame:
    """Return the turns of a run."""
    named = {name: pl.lit(task) for name in ("task", "session", "trace_id")}
    name = pl.when(kind="model").then(pl.lit(model)).otherwise("name")
    return turns_in(notation).with_columns(name=name, task_kind=pl.lit(kind), **named)


def made(runs: dict[str, str], outcomes: list[Outcome], **how: str) -> list[Certificate]:
    """Return the certificates of runs by task."""
    turns = pl.concat([turns_of(task, notation, **how) for task, notation in runs.items()])
    return certificates(runs_of(turns, default(), outcomes), 0.01)


def solved(*tasks: str, problem: str | None = None) -> list[Outcome]:
    """Return the outcomes of solved tasks."""
    return [Outcome(solved=True, task=task, problem=problem) for task in tasks]


def brief(name: str) -> str:
    """Return a run without a loop that is like no other."""
    return BRIEF.replace("{name}", name)


def test_a_solved_run_is_lost_where_a_gate_comes_before_its_end() -> None:
    """Of three solved runs one has a gate; the other run is stopped after four of its steps."""
    runs = {"a": brief("a"), "b": brief("b"), "lost": LOOP, "failed": f"{LOOP} say(again)"}
    (found,) = made(runs, [*solved("a", "b", "lost"), Outcome(solved=False, session="failed")])
    assert (found.solved, found.losable, found.lost) == (3, 3, 1)
    assert (found.others, found.stopped) == (1, 1)
    assert 0.3 < found.saved < 0.8
    assert found.kind == ("code", "", "m")


def test_runs_that_show_the_same_are_one_and_so_are_tries_of_a_problem() -> None:
    """Logs repeat runs, and a benchmark tries a task again; neither makes a promise stronger."""
    (copies,) = made({"a": brief("x"), "b": brief("x"), "c": brief("y")}, solved("a", "b", "c"))
    assert copies.solved == 2
    (tries,) = made({"a": brief("x"), "b": LOOP}, solved("a", "b", problem="one"))
    assert (tries.solved, tries.lost) == (1, 1)


def test_a_run_of_one_step_cannot_be_lost() -> None:
    """It counts as solved, and promises nothing."""
    (found,) = made({"a": "say(yes)", "b": brief("b")}, solved("a", "b"))
    assert (found.solved, found.losable) == (2, 1)


def test_another_model_has_a_certificate_of_its_own() -> None:
    """What one model promises holds for no other."""
    turns = pl.concat([turns_of("a", brief("a")), turns_of("b", brief("b"), model="n")])
    found = certificates(runs_of(turns, default(), solved("a", "b")), 0.01)
    assert [(each.kind.model, each.solved) for each in found] == [("m", 1), ("n", 1)]


def test_a_run_without_an_outcome_does_not_count() -> None:
    """Nobody knows whether it was solved."""
    turns = pl.concat([turns_of("a", brief("a")), turns_of("b", brief("b"))])
    runs = runs_of(turns, default(), solved("b"))
    assert [type(each) for each in runs] == [Run]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no outcome"),
        ("{", ":1: "),
        ('\n{"task": "a"}', ":2: .*`solved`"),
        ('{"task": "a", "solved": 1}', "bool"),
        ('{"solved": true}', "names nothing; it must name one of task, session and trace_id"),
        ('{"task": "a", "session": "b", "solved": true}', "names session and task; it must"),
        ('{"tsk": "a", "solved": true}', "tsk"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, why: str) -> None:
    """The message says which line of which file, and what a line looks like."""
    path = tmp_path / "outcomes.jsonl"
    path.write_text(text)
    with pytest.raises(OutcomesError, match=why):
        read_outcomes(path)


def test_the_command_says_what_is_promised(tmp_path: Path) -> None:
    """From files to a sentence: none of two runs is lost, which promises next to nothing."""
    outcomes = tmp_path / "outcomes.jsonl"
    for name in ("one", "two"):
        trace = Trace(name)
        root = trace.span("agent", attributes={"gen_ai.operation.name": "invoke_agent"})
        for tool in ("read", f"write-{name}"):
            call = tool_call(tool)
            trace.span(tool, root, call)
        (tmp_path / f"{name}.jsonl").write_text(trace.lines())
        with outcomes.open("a") as file:
            file.write(json.dumps({"session": name, "solved": True}) + "\n")
    paths = [str(path) for path in tmp_path.glob("???.jsonl")]
    result = printed("calibrate", *paths, "--outcomes", outcomes)
    assert "of 2 solved runs that can be lost, gates would have stopped 0" in result
    assert "1.0% needs 299 solved runs" in result
    refused = run("calibrate", *paths, "--outcomes", outcomes, "--lost", "200%")
    assert "200% is not a share" in refused.stderr


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("correctness=pass", Solved("correctness", label="pass")),
        ("task solved = yes, all", Solved("task solved", label="yes, all")),
        ("correctness>=0.8", Solved("correctness", value_min=0.8)),
    ],
)
def test_an_evaluation_is_written_as_a_condition(text: str, found: Solved) -> None:
    """A name may have blanks, and a label commas."""
    assert solved_where(text) == found


@pytest.mark.parametrize("text", ["", "correctness", "=pass", "correctness>=high", "a=="])
def test_other_texts_are_no_evaluation(text: str) -> None:
    """A half condition would take every run for failed."""
    with pytest.raises(ValueError, match=r"is not a condition|could not convert"):
        solved_where(text)


def _spans(
    trace_id: str, *evaluations: dict[str, object], **attributes: object
) -> dict[str, object]:
    events = [
        {"name": "gen_ai.evaluation.result", "time_ns": n, "attributes": evaluation}
        for n, evaluation in enumerate(evaluations)
    ]
    other = {"name": "exception", "time_ns": 9, "attributes": {"x": "gen_ai.evaluation.result"}}
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    texts = {"events": json.dumps([other, *events]), "attributes": json.dumps(named)}
    return {"trace_id": trace_id, "end_ns": len(named), **texts}


def test_evaluations_in_spans_are_outcomes() -> None:
    """Only the named evaluation counts, only with such a score, and the last of a trace."""

    def scored(score: str, value: object, name: str = "correctness") -> dict[str, object]:
        return {"gen_ai.evaluation.name": name, f"gen_ai.evaluation.score.{score}": value}

    spans = pl.DataFrame(
        [
            _spans("a", scored("label", "pass"), scored("label", "fail", "tone")),
            _spans("b", scored("label", "pass"), scored("label", "fail")),
            _spans("c", scored("value", 0.9)),
            _spans("d"),
        ]
    )
    by_label = outcomes_in(spans, Solved("correctness", label="pass"))
    assert {each.trace_id: each.solved for each in by_label} == {"a": True, "b": False}
    by_value = outcomes_in(spans, Solved("correctness", value_min=0.8))
    assert [(each.trace_id, each.solved) for each in by_value] == [("c", True)]


def test_attributes_of_spans_are_outcomes() -> None:
    """The last span of a trace with the attribute decides, by a word, a number or a truth."""
    spans = pl.DataFrame(
        [
            _spans("a", acme__result="ok"),
            _spans("a", other=1, acme__result="bad"),
            _spans("b", acme__result="0.9"),
            _spans("c", acme__result=True),
            _spans("d", acme__results="ok"),
        ]
    )

    def found(text: str) -> dict[str | None, bool]:
        made = outcomes_in(spans, attribute=solved_where(text))
        return {each.trace_id: each.solved for each in made}

    assert found("acme.result=ok") == {"a": False, "b": False, "c": False}
    assert found("acme.result=true")["c"]
    assert found("acme.result>=0.8") == {"b": True}


def test_decisions_are_outcomes_where_nothing_else_is_known() -> None:
    """Not a loop means that the run was well; a person who lets it go on knows no outcome."""
    turns = pl.concat([turns_of(task, LOOP) for task in ("well", "ended", "goes on", "known")])
    words = {"well": "not_a_loop", "ended": "cancel", "goes on": "continue", "known": "cancel"}
    said = pl.concat(
        turns.filter(task=task)
        .tail(1)
        .with_columns(
            kind=pl.lit("user", turns.schema["kind"]), name=pl.lit(word), turn=pl.col("turn") + 1
        )
        for task, word in words.items()
    )
    turns = pl.concat([turns, said])
    runs = runs_of(turns, default(), solved("known"), with_decisions=True)
    assert {each.problem: each.solved for each in runs} == {
        "well": True,
        "ended": False,
        "known": True,
    }
    assert len(runs_of(turns, default(), solved("known"))) == 1
