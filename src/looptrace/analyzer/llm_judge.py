"""What a judge is asked about a finding, and what counts as its opinion.

A judge is asked only where a rule's evidence is not exact. Whatever goes wrong with it is recorded
as "no opinion" and never raised. Nothing here opens a socket: judges are given by the caller.
"""

import json  # a key that comes twice must be seen
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, runtime_checkable

import polars as pl

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.text.display import label, plain

# Enough to see a loop come round several times; a judge's answers get no better with hundreds.
HISTORY_TURNS_MAX = 30

# A call with a path and a command, or the first and the last words of a response.
DONE_LENGTH_MAX = 160

# The head of a result says what it is, its tail how it ended; the middle is cut out.
RESULT_LENGTH_MAX = 240

# What a message asks for stands in its first paragraphs and its last.
GOAL_LENGTH_MAX = 2_000

# A reason quotes a call or two.
REASON_LENGTH_MAX = 400

# Long enough for an id or a path of some depth, and for the name of an agent.
NAME_LENGTH_MAX = 64

# An answer that is longer is not one short object, and is not parsed.
ANSWER_LENGTH_MAX = 20_000

# A few sentences; what is longer is shortened, because the opinion itself is still clear.
REASONING_LENGTH_MAX = 1_000

# One line that says what was wrong.
WHY_LENGTH_MAX = 200

# How an answer is written, as JSON schema that endpoints with strict schemas take as it is.
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "is_regressive": {
            "type": "boolean",
            "description": "The turns undid or broke something: the goal is farther away.",
        },
        "no_progress": {
            "type": "boolean",
            "description": "The turns brought the agent no nearer to the goal.",
        },
        "is_external": {
            "type": "boolean",
            "description": "What holds the agent up lies outside: network, service, limit, login.",
        },
        "reasoning": {"type": "string", "description": "Why, in at most three sentences."},
    },
    "required": ["is_regressive", "no_progress", "is_external", "reasoning"],
    "additionalProperties": False,
}
_TYPES: dict[str, tuple[type, str]] = {
    "boolean": (bool, "true or false"),
    "string": (str, "a text"),
}

_FENCES = ("```json\n", "```\n")
_FENCE_END = "\n```"


@dataclass(frozen=True, slots=True)
class Question:
    """A question for a judge: bounded texts, each on one line."""

    task: str
    rule: str
    reason: str  # the finding in a person's words
    goal: str | None  # the last message to the agent; None where the trace shows none
    history: tuple[str, ...]  # one line a turn, oldest first, up to the last turn of the finding


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a judge thinks of the turns that it was shown."""

    is_regressive: bool
    no_progress: bool
    is_external: bool
    reasoning: str

    @property
    def is_progress(self) -> bool:
        """Whether the turns brought the agent nearer to its goal."""
        return not (self.no_progress or self.is_regressive)


@dataclass(frozen=True, slots=True)
class NoOpinion:
    """A judge failed, timed out or answered nonsense; `why` is the reason in one line."""

    why: str


# By the id of the gate that a judge was asked about.
Opinions: TypeAlias = Mapping[str, Opinion | NoOpinion]
NOBODY_ASKED: Opinions = MappingProxyType({})


@runtime_checkable
class Judge(Protocol):
    """The party that is asked. It answers in bounded time, and need not catch its own errors."""

    def opinion(self, question: Question) -> Opinion | NoOpinion:
        """Answer a question."""


def ask(judge: Judge, finding: Finding, turns: pl.DataFrame) -> Opinion | NoOpinion | None:
    """Ask a judge about a finding in turns (`TURN_SCHEMA`, numbered); None for an exact match.

    An exact match speaks for itself.
    """
    return None if finding.exact else _asked(judge, finding, turns)


def _asked(judge: Judge, finding: Finding, turns: pl.DataFrame) -> Opinion | NoOpinion:
    question = question_of(finding, turns)
    try:
        answer = judge.opinion(question)
        if isinstance(answer, NoOpinion):
            return no_opinion(answer.why)
        return _opinion(asdict(answer))
    except Exception as error:  # A plug-in is foreign code and may raise anything at all.
        return no_opinion(f"the judge failed: {traceback.format_exception_only(error)[-1]}")


def opinions_of(judge: Judge, analysis: Analysis, events: Iterable[GateEvent]) -> Opinions:
    """Ask a judge once about each gate among the events that stands on no exact match.

    It is asked about what was known when the gate opened. What it says changes no decision.
    """
    findings = {finding.id: finding for finding in analysis.findings}
    opinions: dict[str, Opinion | NoOpinion] = {}
    for event in events:
        if event.type == "gate_opened" and not event.exact:
            at_gate = replace(findings[event.finding], turn_last=event.turn, reason=event.reason)
            opinions[event.gate] = _asked(judge, at_gate, analysis.turns)
    return opinions


def question_of(finding: Finding, turns: pl.DataFrame) -> Question:
    """Put a finding and the turns of its task (`TURN_SCHEMA`, numbered) into a question.

    Turns after the finding's last one are left out, so that batch and live ask the same.
    """
    turn, is_user = pl.col("turn"), pl.col("kind") == "user"
    # A message has the number of the turn before it.
    seen = turns.filter(
        (pl.col("task") == finding.task)
        & ((turn < finding.turn_last) | ((turn == finding.turn_last) & ~is_user))
    )
    goals = seen.filter(is_user)["text"].drop_nulls().tail(1).to_list()
    history = seen.tail(HISTORY_TURNS_MAX).iter_rows(named=True)
    return Question(
        task=plain(finding.task, NAME_LENGTH_MAX),
        rule=finding.rule,
        reason=plain(finding.reason, REASON_LENGTH_MAX),
        goal=plain(goals[0], GOAL_LENGTH_MAX) if goals else None,
        history=tuple(_line(row) for row in history),
    )


def opinion_of(text: str) -> Opinion | NoOpinion:
    """Read a judge's answer: one JSON object as `ANSWER_SCHEMA` says, alone or in a code fence."""
    if len(text) > ANSWER_LENGTH_MAX:
        return no_opinion(f"the answer has more than {ANSWER_LENGTH_MAX} characters.")
    try:
        answer = json.loads(_unfenced(text), object_pairs_hook=_each_key_once)
    except (ValueError, RecursionError):
        return no_opinion(f"the answer is not one JSON object: {text}")
    if not isinstance(answer, dict):
        return no_opinion(f"the answer is JSON, but not an object: {text}")
    return _opinion(answer)


def no_opinion(why: str) -> NoOpinion:
    """Return the reason for no opinion, in one line of bounded length."""
    return NoOpinion(plain(why, WHY_LENGTH_MAX))


def _opinion(answer: dict[str, Any]) -> Opinion | NoOpinion:
    wanted = ANSWER_SCHEMA["properties"]
    if missing := wanted.keys() - answer.keys():
        return no_opinion(f"the answer lacks {', '.join(sorted(missing))}.")
    if unknown := answer.keys() - wanted.keys():
        return no_opinion(f"the answer has unknown keys: {', '.join(sorted(unknown))}.")
    for name, about in wanted.items():
        expected, described = _TYPES[about["type"]]
        if type(answer[name]) is not expected:
            return no_opinion(f"{name} is {answer[name]!r}; it must be {described}.")
    return Opinion(**answer | {"reasoning": plain(answer["reasoning"], REASONING_LENGTH_MAX)})


def _line(row: dict[str, Any]) -> str:
    """Write a turn as `7. coder: run_tests(a.py) -> failed: expected 42, got 41`."""
    done = label(row, DONE_LENGTH_MAX)
    if row["kind"] == "user":
        return f"a message: {done}"
    agent = f"{plain(row['agent'], NAME_LENGTH_MAX)}: " if row["agent"] else ""
    return f"{row['turn']}. {agent}{done}{_result(row)}"


def _result(row: dict[str, Any]) -> str:
    if row["failed"]:
        why = row["error"] or row["error_type"] or row["result"] or "?"
        return f" -> failed: {plain(why, RESULT_LENGTH_MAX)}"
    if row["result"] is not None:
        return f" -> {plain(row['result'], RESULT_LENGTH_MAX)}"
    return " -> ?" if row["kind"] == "tool" else ""


def _unfenced(text: str) -> str:
    inner = text.strip()
    for fence in _FENCES:
        if inner.startswith(fence) and inner.endswith(_FENCE_END):
            return inner[len(fence) : -len(_FENCE_END)]
    return inner


def _each_key_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that says a thing twice: which of the two holds, nobody knows."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError
    return unique
