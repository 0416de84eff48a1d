"""Calls that share an id, or have none, are calls of their own, each with its result, in order."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.turn_builder import turns_of
from tests.analyzer.normalize.test_trace_buffer import assert_comes_to_all_at_once
from tests.collector.store.stored import spans_of
from tests.otlp import Trace, tool_call
from tests.seeds import seeds

Message: TypeAlias = dict[str, Any]
SESSION = "kiln"
TASK: Message = {"role": "user", "content": "Fire the bowls."}


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that a response asks for, and its result."""

    tool: str
    arguments: str
    result: str
    call_id: str = "call_0"

    @property
    def call(self) -> Message:
        """The call as a chat has it."""
        function = {"name": self.tool, "arguments": json.dumps({"in": self.arguments})}
        return {"id": self.call_id, "type": "function", "function": function}

    @property
    def answer(self) -> Message:
        """The message with its result."""
        return {"role": "tool", "tool_call_id": self.call_id, "content": self.result}


Round: TypeAlias = Sequence[Asked]  # of one response
STUCK = [[Asked("heat", "kiln 1", "the door is open")]] * 6
POLLED = [[Asked("look", "kiln 1", f"{degrees} degrees")] for degrees in range(100, 700, 100)]
OTHERS = [[Asked(tool, "kiln 1", f"{tool} done")] for tool in ("open", "fill", "close", "heat")]
PAIRS = [
    [Asked("look", f"kiln {n}", f"{n} degrees at {m}", f"call_{n}") for n in range(2)]
    for m in range(3)
]
ALIKE = [[Asked("look", f"kiln {n}", f"{n} at {m}") for n in range(2)] for m in range(3)]


def said(asked: Round) -> Message:
    """Return a response with its calls."""
    return {"role": "assistant", "content": None, "tool_calls": [each.call for each in asked]}


def history(rounds: Sequence[Round]) -> list[Message]:
    """Return the conversation so far."""
    return [TASK, *(m for r in rounds for m in (said(r), *(each.answer for each in r)))]


def respond(trace: Trace, given: list[Message] | None, answer: Message, **at: Any) -> str:
    """Add the span of a response."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "model-s"}
    attributes |= {} if given is None else {"gen_ai.input.messages": json.dumps(given)}
    return trace.span(
        "chat", None, attributes | {"gen_ai.output.messages": json.dumps([answer])}, **at
    )


def run_of(rounds: Sequence[Round], *, spans: bool = False, shows: bool = True) -> pl.DataFrame:
    """Return the spans of a run in one trace, with the calls' own `spans` or without."""
    trace = Trace(SESSION)
    for number, asked in enumerate(rounds):
        respond(trace, history(rounds[:number]) if shows else None, said(asked))
        for each in asked if spans else ():
            tool = tool_call(each.tool, json.dumps({"in": each.arguments}), call_id=each.call_id)
            trace.span(f"execute_tool {each.tool}", None, tool)
    respond(trace, history(rounds) if shows else None, {"role": "assistant", "content": "Done."})
    return spans_of(trace)


def calls_of(spans: pl.DataFrame) -> list[tuple[str, str, str | None]]:
    """Return name, argument and result of the calls in order."""
    tools = turns_of(spans)[0].filter(pl.col("kind") == "tool").sort("start_ns", "call_id")
    rows = tools.select("name", "arguments", "result").rows()
    return [(name, json.loads(arguments)["in"], result) for name, arguments, result in rows]


def every(rounds: Sequence[Round]) -> list[tuple[str, str, str | None]]:
    """Return the calls of all rounds."""
    return [(each.tool, each.arguments, each.result) for asked in rounds for each in asked]


@pytest.mark.parametrize("spans", [False, True])
@pytest.mark.parametrize("rounds", [STUCK, POLLED, OTHERS, PAIRS, ALIKE])
def test_each_call_is_one_with_its_result(rounds: Sequence[Round], spans: bool) -> None:
    """Servers that number the calls of each response alike hide neither calls nor results."""
    run = run_of(rounds, spans=spans)
    assert sorted(calls_of(run)) == sorted(every(rounds))
    if rounds is not ALIKE:
        assert calls_of(run) == every(rounds)
    for size in (1, 3):
        followed = assert_comes_to_all_at_once(run, size)
        assert len(followed.turns) == turns_of(run)[0].height


@pytest.mark.parametrize("seed", seeds(24))
def test_the_same_in_any_order(seed: int) -> None:
    """Spans that come late change nothing."""
    rng = random.Random(seed)
    rounds = rng.choice([STUCK, POLLED, OTHERS, PAIRS, ALIKE])
    run = run_of(rounds, spans=rng.random() < 0.5, shows=rng.random() < 0.7)
    order = list(range(run.height))
    rng.shuffle(order)
    assert_comes_to_all_at_once(run[order], rng.choice([1, 2, 5]))


def test_a_loop_is_found_and_a_poll_is_not() -> None:
    """Six equal failures are a loop, and six looks at a kiln that heats are none."""
    assert {finding.rule for finding in analyse(run_of(STUCK)).findings} >= {"repeated_call"}
    assert not analyse(run_of(POLLED)).findings


def test_calls_of_a_history_that_came_before() -> None:
    """A trace may begin with a long conversation."""
    for rounds in (STUCK, POLLED, PAIRS):
        trace = Trace(SESSION)
        respond(trace, history(rounds), {"role": "assistant", "content": "Done."})
        assert calls_of(spans_of(trace)) == every(rounds)


def test_each_request_in_a_trace_of_its_own() -> None:
    """Later traces of a session show the results."""
    traces = []
    for number in range(len(POLLED) + 1):
        trace = Trace(SESSION, name=str(number), at=f"2026-03-02T09:00:{number:02}+00:00")
        asked = POLLED[number : number + 1]
        answer = said(asked[0]) if asked else {"role": "assistant", "content": "Done."}
        respond(trace, history(POLLED[:number]), answer)
        traces.append(trace)
    assert calls_of(spans_of(*traces)) == every(POLLED)


@pytest.mark.parametrize("rounds", [STUCK, POLLED, OTHERS])
def test_each_response_and_each_call_in_a_trace_of_its_own(rounds: Sequence[Round]) -> None:
    """A step of a durable workflow is a trace; a call that a response asks for is told once."""
    traces = []
    for number, asked in enumerate([*rounds, ()]):
        at = f"2026-03-02T09:00:{2 * number:02}+00:00"
        trace = Trace(SESSION, name=f"response {number}", at=at)
        answer = said(asked) if asked else {"role": "assistant", "content": "Done."}
        respond(trace, history(rounds[:number]), answer)
        traces.append(trace)
        for each in asked:
            later = at.replace("+", ".9+")
            trace = Trace(SESSION, name=f"call {number}", at=later)
            tool = tool_call(each.tool, json.dumps({"in": each.arguments}), result=each.result)
            trace.span("execute_tool", None, tool | {"gen_ai.tool.call.id": each.call_id})
            traces.append(trace)
    run = spans_of(*traces)
    assert calls_of(run) == every(rounds)
    for size in (1, 3):
        assert_comes_to_all_at_once(run, size)


def test_calls_without_a_history() -> None:
    """Where only answers are shown, a response that began later asks for a new call."""
    assert len(calls_of(run_of(STUCK, shows=False))) == len(STUCK)


def test_a_response_with_two_spans_asks_once() -> None:
    """Two instrumentations may record a response side by side, or one after the other."""
    beside, after = Trace(SESSION), Trace(SESSION)
    for trace, at in ((beside, {"start_s": 0.1, "end_s": 0.9}), (after, {})):
        respond(trace, [TASK], said(STUCK[0]))
        respond(trace, [TASK], said(STUCK[0]), **at)
        respond(trace, history(STUCK[:1]), {"role": "assistant", "content": "Done."})
        assert calls_of(spans_of(trace)) == every(STUCK[:1])


def test_agents_that_number_alike() -> None:
    """Each agent has a conversation of its own, with its own results."""
    trace = Trace(SESSION)
    for rounds in (OTHERS[:2], PAIRS[:1]):
        for number, asked in enumerate(rounds):
            respond(trace, history(rounds[:number]), said(asked))
        respond(trace, history(rounds), {"role": "assistant", "content": "Done."})
    assert sorted(calls_of(spans_of(trace))) == sorted(every(OTHERS[:2]) + every(PAIRS[:1]))


def without_ids(message: Message, form: str) -> Message:
    """Return a message as APIs write it whose calls have no ids."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    if form == "gemini":
        parts: list[Any] = [{"text": message["content"]}] if message["content"] else []
        for call in calls:
            args = json.loads(call["arguments"])
            parts.append({"functionCall": {"name": call["name"], "args": args}})
        if message["role"] == "tool":
            parts = [
                {"functionResponse": {"name": "x", "response": {"result": message["content"]}}}
            ]
        return {"role": "model" if message["role"] == "assistant" else "user", "parts": parts}
    if form == "callback":  # It leaves out calls of earlier responses, too.
        return {"role": message["role"], "content": message["content"] or ""}
    if calls and form == "functions":
        return {"role": "assistant", "content": None, "function_call": calls[0]}
    made = {key: value for key, value in message.items() if key != "tool_call_id"}
    return made | ({"tool_calls": [{"function": call} for call in calls]} if calls else {})


def run_without_ids(rounds: Sequence[Round], form: str, *, spans: str = "") -> pl.DataFrame:
    """Return the spans of a run in one trace; calls have own ones, with ids or without."""
    trace = Trace(SESSION)
    for number, asked in enumerate([*rounds, ()]):
        given = [without_ids(message, form) for message in history(rounds[:number])]
        answer = said(asked) if asked else {"role": "assistant", "content": "Done."}
        respond(trace, given, without_ids(answer, "" if form == "callback" else form))
        for place, each in enumerate(asked if spans else ()):
            call_id = f"{number}-{place}" if spans == "named" else None
            tool = tool_call(each.tool, json.dumps({"in": each.arguments}), call_id=call_id)
            trace.span(f"execute_tool {each.tool}", None, tool)
    return spans_of(trace)


@pytest.mark.parametrize("spans", ["", "plain", "named"])
@pytest.mark.parametrize("form", ["gemini", "ollama", "functions", "callback"])
@pytest.mark.parametrize("rounds", [STUCK, POLLED, OTHERS, PAIRS])
def test_calls_without_ids(rounds: Sequence[Round], form: str, spans: str) -> None:
    """Where no call has an id, results stand in the order of the calls."""
    if form == "functions" and rounds is PAIRS:
        return  # That API asks for one call at a time.
    run = run_without_ids(rounds, form, spans=spans)
    assert sorted(calls_of(run)) == sorted(every(rounds))
    for size in (1, 3):
        assert_comes_to_all_at_once(run, size)


def test_agents_without_ids() -> None:
    """Two conversations of a trace whose calls have no ids do not share results."""
    trace = Trace(SESSION)
    for task, rounds in (("Fire the bowls.", OTHERS[:2]), ("Glaze the cups.", POLLED[:2])):
        for number in range(len(rounds) + 1):
            given = [{"role": "user", "content": task}, *history(rounds[:number])[1:]]
            asked = rounds[number : number + 1]
            answer = said(asked[0]) if asked else {"role": "assistant", "content": "Done."}
            respond(trace, [without_ids(m, "ollama") for m in given], without_ids(answer, "ollama"))
    assert sorted(calls_of(spans_of(trace))) == sorted(every(OTHERS[:2]) + every(POLLED[:2]))
