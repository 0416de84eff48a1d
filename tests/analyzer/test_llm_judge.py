import json
from dataclasses import dataclass, field, fields, replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.llm_judge import (
    ANSWER_LENGTH_MAX,
    ANSWER_SCHEMA,
    DONE_LENGTH_MAX,
    GOAL_LENGTH_MAX,
    HISTORY_TURNS_MAX,
    NAME_LENGTH_MAX,
    REASONING_LENGTH_MAX,
    RESULT_LENGTH_MAX,
    WHY_LENGTH_MAX,
    Judge,
    NoOpinion,
    Opinion,
    Question,
    ask,
    opinion_of,
    question_of,
)
from looptrace.analyzer.testing.notation import TASK, turns_in
from looptrace.rules.calls.repeated_call import RepeatedCall
from tests.drivers import batch

requirement = pytest.mark.requirement

TALK = '@coder say("I would look at part {n}.", given="Go on.") x8'
ANSWER = {
    "is_regressive": False,
    "no_progress": True,
    "is_external": False,
    "reasoning": "It only announces.",
}
OPINION = Opinion(
    is_regressive=False, no_progress=True, is_external=False, reasoning="It only announces."
)

NO_BOOLEAN: tuple[Any, ...] = (False, True, "no", "So.")
NO_REASON: tuple[Any, ...] = (False, True, False, None)


@dataclass
class Scripted:
    """A judge that answers by a script, or raises, and remembers its questions."""

    answer: object
    asked: list[Question] = field(default_factory=list)

    def opinion(self, question: Question) -> Opinion | NoOpinion:
        """Answer whatever was scripted."""
        self.asked.append(question)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


def found(text: str, rule: str) -> tuple[Finding, pl.DataFrame]:
    """Return what a rule finds in turns in the notation, and the turns."""
    turns = turns_in(text)
    (finding,) = (finding for finding in batch(turns) if finding.rule == rule)
    return finding, turns


@requirement("A13")
def test_exact_matches_never_ask() -> None:
    """A call that was repeated with the same result needs no opinion."""
    finding, turns = found('test()->!"boom" x3', "repeated_call")
    judge = Scripted(OPINION)

    assert ask(judge, finding, turns) is None
    assert judge.asked == []


@requirement("A13")
def test_what_is_not_exact_is_asked() -> None:
    """A monologue may lead somewhere; the judge sees the finding and its turns."""
    finding, turns = found(f'user("Hello.") say("Yes?") user("Mend part 3.") {TALK}', "monologue")
    judge = Scripted(OPINION)

    assert ask(judge, finding, turns) == OPINION
    (question,) = judge.asked
    assert (question.task, question.rule, question.goal) == (TASK, "monologue", "Mend part 3.")
    assert question.reason == finding.reason
    assert question.history[0] == "a message: Hello."
    assert question.history[-1] == "9. coder: I would look at part 8."


@dataclass(frozen=True, slots=True)
class Vague(RepeatedCall):
    """A rule of another package with inexact findings."""

    name = "vague"
    exact = False


def test_a_rule_of_another_package_is_asked_about() -> None:
    """Whether a finding is exact is its rule's word, wherever the rule comes from."""
    turns = turns_in('test()->!"boom" x3')
    (finding,) = batch(turns, [Vague()])

    assert not finding.exact
    assert ask(Scripted(OPINION), finding, turns) == OPINION


@requirement("A13")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (NoOpinion("the line\nis dead"), "the line is dead"),
        (RuntimeError("no model"), "the judge failed: RuntimeError: no model"),
        (None, "the judge failed: TypeError"),
        ("yes", "the judge failed: TypeError"),
        (Opinion(*NO_BOOLEAN), "is_external is 'no'; it must be true or false."),
        (Opinion(*NO_REASON), "reasoning is None; it must be a text."),
    ],
)
def test_a_judge_that_fails_has_no_opinion(answer: object, why: str) -> None:
    """A plug-in may raise and return anything; it is recorded, and nothing is raised."""
    given_opinion = ask(Scripted(answer), *found(TALK, "monologue"))

    assert isinstance(given_opinion, NoOpinion)
    assert given_opinion.why.startswith(why)


def test_scripted_judges_are_judges() -> None:
    """The protocol is what a plug-in is held to."""
    assert isinstance(Scripted(OPINION), Judge)
    assert not isinstance(object(), Judge)


def test_question_shows_how_turns_ended() -> None:
    """A judge cannot recognise progress without results; unknown ones are marked as unknown."""
    finding, turns = found(
        'user("Mend it.") look(a)->"3 failed" fix(b)->!"no such file" find(c)->? '
        f'attempt(blocked)->"part 1" handoff(tester, "Run it.") {TALK}',
        "monologue",
    )

    assert question_of(finding, turns).history[:6] == (
        "a message: Mend it.",
        "1. look(a) -> 3 failed",
        "2. fix(b) -> failed: no such file",
        "3. find(c) -> ?",
        "4. blocked -> part 1",
        "5. → tester: Run it.",
    )


def test_question_ends_with_its_finding() -> None:
    """Live asks before the later turns are there, and batch must ask the same."""
    text = f'user("Mend it.") {TALK}'
    finding, turns = found(text, "monologue")
    _, longer = found(f'{text} user("Stop.") test()->ok', "monologue")

    assert question_of(finding, longer) == question_of(finding, turns)


def test_question_is_of_one_task() -> None:
    """What other tasks did is not the judge's business."""
    finding, turns = found(TALK, "monologue")
    other = turns.with_columns(task=pl.lit("other"), text=pl.lit("secret"))

    assert question_of(finding, pl.concat([other, turns])) == question_of(finding, turns)


def test_goal_is_unknown_where_no_person_spoke() -> None:
    """A goal that was guessed would mislead the judge."""
    assert question_of(*found(TALK, "monologue")).goal is None


def test_question_is_bounded() -> None:
    """A judge is paid by the token, and a trace may hold megabytes in one turn."""
    many = '(user("Go.") run(a)->ok fly({n})->!"no wings") x50'
    finding, turns = found(f"{many} {TALK}", "monologue")
    long = "x\n" * 100_000
    turns = turns.with_columns(
        text=pl.lit(long),
        result=pl.lit(long),
        error=pl.lit(long),
        arguments=pl.lit(long),
        agent=pl.lit(long),
    )
    question = question_of(replace(finding, reason=long), turns)

    assert len(question.history) == HISTORY_TURNS_MAX
    line_length_max = NAME_LENGTH_MAX + DONE_LENGTH_MAX + RESULT_LENGTH_MAX + 20
    assert max(map(len, question.history)) <= line_length_max
    assert question.goal is not None
    assert len(question.goal) <= GOAL_LENGTH_MAX
    assert "\n" not in f"{question.reason}{question.goal}{question.history}"


@requirement("A13")
@pytest.mark.parametrize("written", ["{}", "  {} \n", "```json\n{}\n```", "```\n{}\n```\n"])
def test_answer_may_stand_in_a_fence(written: str) -> None:
    """Many models put JSON into a code fence against their instructions."""
    assert opinion_of(written.replace("{}", json.dumps(ANSWER))) == OPINION


@requirement("A13")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "the answer is not one JSON object"),
        ("I think it loops.", "the answer is not one JSON object: I think it loops."),
        ("Sure!\n" + json.dumps(ANSWER), "the answer is not one JSON object: Sure!"),
        (json.dumps(ANSWER) * 2, "the answer is not one JSON object"),
        (json.dumps(ANSWER)[:-1] + ',"no_progress":false}', "the answer is not one JSON object"),
        ("[" * 10_000, "the answer is not one JSON object"),
        ("9" * 10_000, "the answer is not one JSON object"),
        ("[true]", "the answer is JSON, but not an object: [true]"),
        ("null", "the answer is JSON, but not an object: null"),
        ("{}", "the answer lacks is_external, is_regressive, no_progress, reasoning."),
        (json.dumps(ANSWER | {"x": 1}), "the answer has unknown keys: x."),
        (json.dumps(ANSWER | {"no_progress": 1}), "no_progress is 1; it must be true or false."),
        (json.dumps(ANSWER | {"is_external": "false"}), "is_external is 'false'; it must be"),
        (json.dumps(ANSWER | {"is_regressive": None}), "is_regressive is None; it must be"),
        (json.dumps(ANSWER | {"reasoning": ["so"]}), "reasoning is ['so']; it must be a text."),
        (json.dumps(ANSWER) + " " * ANSWER_LENGTH_MAX, "the answer has more than 20000 char"),
    ],
)
def test_nonsense_is_no_opinion(answer: str, why: str) -> None:
    """Half an opinion counts as none; the record says what was wrong."""
    read = opinion_of(answer)

    assert isinstance(read, NoOpinion)
    assert read.why.startswith(why)


def test_long_reasoning_is_shortened() -> None:
    """The opinion of a model that talks too much is clear all the same."""
    read = opinion_of(json.dumps(ANSWER | {"reasoning": "so\n\x1b[31m" * 1_000}))

    assert isinstance(read, Opinion)
    assert len(read.reasoning) == REASONING_LENGTH_MAX
    assert read.reasoning.isprintable()


def test_schema_and_opinion_agree() -> None:
    """The keys that are asked for are the fields that are read, and all are required."""
    names = [item.name for item in fields(Opinion)]

    assert list(ANSWER_SCHEMA["properties"]) == names == ANSWER_SCHEMA["required"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*ANSWER, "x"]), inner),
)


@requirement("A13")
@given(
    st.text() | _JSON.map(json.dumps) | _JSON.map(lambda part: json.dumps({**ANSWER, "x": part}))
)
def test_no_text_is_too_much(text: str) -> None:
    """Whatever a model writes, the answer is an opinion or none, in one line of bounded length."""
    read = opinion_of(text)

    said = read.reasoning if isinstance(read, Opinion) else read.why
    limit = REASONING_LENGTH_MAX if isinstance(read, Opinion) else WHY_LENGTH_MAX
    assert len(said) <= limit
    assert said == "" or said.isprintable()


@given(st.fixed_dictionaries({name: st.booleans() | st.text() for name in ANSWER}))
def test_opinions_are_read_as_written(answer: dict[str, bool | str]) -> None:
    """Exactly the answers with three booleans and a text are opinions."""
    kinds = [type(answer[name]) for name in ANSWER]

    read = opinion_of(json.dumps(answer))
    assert isinstance(read, Opinion) == (kinds == [bool, bool, bool, str])
