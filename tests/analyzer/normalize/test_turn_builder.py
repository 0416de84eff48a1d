"""Spans become the same turns in any order."""

import json
import shutil
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looptrace._core import ANCESTORS_MAX
from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.files.reader import read_spans
from looptrace.rules.turns import CUTS
from tests.analyzer.normalize.span_rows import Attributes, kind, model, rules, span, tool, turns
from tests.framework_table import OWN, dumps
from tests.seeds import seed_count

CHAIN = 10_000


@pytest.fixture(scope="module")
def framework_spans() -> pl.DataFrame:
    """Read the traces in the shapes of all frameworks as one input."""
    return read_spans([str(path) for path in dumps(OWN).values()]).spans


@pytest.mark.parametrize("seed", range(3))
def test_order_of_spans_says_nothing(framework_spans: pl.DataFrame, seed: int) -> None:
    """Exporters and files mix spans as they like."""
    shuffled = framework_spans.sample(fraction=1, shuffle=True, seed=seed)
    before, after = analyse(framework_spans), analyse(shuffled)

    assert not shuffled.equals(framework_spans)
    assert after.turns.equals(before.turns)
    assert after.findings == before.findings
    assert len(after.findings) > 0


def test_spans_sent_twice_count_once(tmp_path: Path) -> None:
    """Exporters send again what was not acknowledged."""
    sent = dumps(OWN)["langgraph-openinference-loop"]
    again = shutil.copy(sent, tmp_path / sent.name)
    once, twice = read_spans([str(sent)]), read_spans([str(sent), str(again)])

    assert twice.skipped == ()
    assert analyse(twice.spans).turns.equals(analyse(once.spans).turns)
    assert analyse(twice.spans).findings == analyse(once.spans).findings


def rounds(ends: Sequence[int]) -> list[dict[str, object]]:
    """Make three responses that each ask for the same calls in parallel; they end as told."""
    rows = []
    for turn in range(3):
        at = 10 * turn
        calls = [(f"c{turn}{i}", "look", {"room": i}) for i in range(len(ends))]
        rows.append(span(100 * turn + 1, model("Look.", *calls), start=at, end=at + 1))
        for i, end in enumerate(ends):
            content = {"id": f"c{turn}{i}", "arguments": {"room": i}, "result": f"empty {i}"}
            number = 100 * turn + 2 + i
            rows.append(span(number, tool("look", **content), start=at + 2, end=at + 3 + end))
    return rows


@given(ends=st.permutations(range(4)))
@settings(max_examples=seed_count(16))
def test_parallel_calls_may_end_in_any_order(ends: list[int]) -> None:
    """Which of the calls in one response was quicker says nothing about a loop."""
    columns = ["turn", "span_id", "name", "arguments", "result", "step"]
    expected, found = rounds(range(4)), rounds(ends)
    loops = [
        [(f.id, f.rule, f.turns, f.reason) for f in analyse(pl.DataFrame(r, SPAN_SCHEMA)).findings]
        for r in (expected, found)
    ]

    assert turns(found).select(columns).equals(turns(expected).select(columns))
    assert loops[1] == loops[0]
    assert "cycle" in {rule for _, rule, _, _ in loops[0]}


@pytest.mark.parametrize("starts", [(2, 3), (3, 2)])
def test_parallel_calls_without_ids_keep_their_arguments(starts: tuple[int, int]) -> None:
    """Threads start in any order, so the call with the same value is the one, not the next."""
    calls = [("c0", "look", {"city": "Oslo"}), ("c1", "look", {"city": "Rome"})]
    rows = [span(1, model("Look.", *calls))]
    for number, (city, start) in enumerate(zip(("Oslo", "Rome"), starts, strict=True), 2):
        shown = {"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": city}
        rows.append(span(number, shown, start=start))
    found = kind(turns(rows), "tool").sort("call_id")

    assert found["arguments"].to_list() == ['{"city":"Oslo"}', '{"city":"Rome"}']
    assert found["span_id"].to_list() == [f"{2:016x}", f"{3:016x}"]


def test_ids_of_two_instrumentations_are_one_call() -> None:
    """A tool's span may number its call otherwise than the model did; it is still one call."""
    asked = model("Look.", ("call_1", "look", {"room": 1}))
    done = tool("look", id="run-77", arguments='{"room": 1}', result="empty")

    assert kind(turns([span(1, asked), span(2, done)]), "tool")["result"].to_list() == ["empty"]


def test_span_within_a_span_within_a_span_is_one_call() -> None:
    """Three instrumentations may write of one call, and only the innermost saw the error."""
    seen = {"error.type": "KeyError", "error.message": "no such room"}
    rows = [
        span(1, tool(arguments="1"), end=9),
        span(2, tool(), parent=1, end=8),
        span(3, {**tool(), **seen}, parent=2, end=7, status=2),
    ]
    found = turns(rows)

    assert found.select("span_id", "arguments", "error", "error_type", "failed").rows() == [
        (f"{1:016x}", "1", "no such room", "KeyError", True)
    ]


@pytest.mark.parametrize("length", [1, 2, 5, ANCESTORS_MAX + 50])
def test_circle_of_parents_loses_nothing(length: int) -> None:
    """Nobody is inside of whom in a circle, so that no span may be merged away."""
    parents = [(number + 1) % length for number in range(length)]
    rows = [span(n, tool(result=str(n)), parent=parent) for n, parent in enumerate(parents)]
    found, noted = turns_of(pl.DataFrame(rows, SPAN_SCHEMA))
    skipped = noted.skipped

    assert found["result"].to_list() == [str(number) for number in range(length)]
    assert ["circle" in part.why for part in skipped] == [True]


def test_deep_chain_of_parents() -> None:
    """A chain that no agent makes costs neither the stack nor the turns at its ends."""
    plain: Attributes = {}
    rows = [span(n, plain, parent=n - 1 if n else None) for n in range(CHAIN)]
    rows[0] = span(0, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "top"})
    rows[2] = span(2, tool("near"), parent=1)
    rows[-1] = span(CHAIN - 1, tool("far"), parent=CHAIN - 2)
    found, noted = turns_of(pl.DataFrame(rows, SPAN_SCHEMA))
    skipped = noted.skipped

    assert found.select("name", "agent").rows() == [("near", "top"), ("far", "")]
    assert len(skipped) == 1


def test_missing_parents() -> None:
    """A parent that was sampled away takes nothing with it."""
    found = turns([span(1, tool("look", result="x"), parent=99), span(2, model("Hm."), parent=98)])

    assert found["kind"].to_list() == ["tool", "user", "model"]


def test_names_may_be_empty() -> None:
    """A span without any name is still a call."""
    found = turns([span(1, {"gen_ai.operation.name": "execute_tool"}, name="")])

    assert found.select("name", "kind").rows() == [("", "tool")]


@pytest.mark.parametrize(
    ("scope", "agent"), [("opentelemetry.instrumentation.openai_agents", ""), ("", "OpenAI Agent")]
)
def test_a_name_that_one_producer_gives_to_all_is_an_agent_of_others(
    scope: str, agent: str
) -> None:
    """OpenTelemetry's instrumentation of the OpenAI Agents SDK writes it where it knows none."""
    called = tool("near") | {"gen_ai.agent.name": "OpenAI Agent"}

    assert turns([span(1, called, scope=scope)])["agent"].to_list() == [agent]


def test_message_comes_before_a_response_that_took_no_time() -> None:
    """Some clocks only know milliseconds; the message must not reset what comes after it."""
    found = turns([span(1, model("Yes."), start=3, end=3)])

    assert found.select("turn", "kind").rows() == [(0, "user"), (1, "model")]


@pytest.mark.parametrize(("acts", "handoffs"), [(True, ["writer"]), (False, [])])
def test_only_who_acts_hands_over(acts: bool, handoffs: list[str]) -> None:
    """Some frameworks call a whole run an agent, which neither speaks nor calls."""

    def agent(name: str) -> Attributes:
        return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}

    rows = [
        span(1, agent("boss"), end=9),
        span(2, agent("writer"), parent=1, end=8),
        span(3, tool(), parent=2),
    ]
    if acts:
        rows.append(span(4, tool(), parent=1))

    assert kind(turns(rows), "handoff")["name"].to_list() == handoffs


def test_a_task_status_makes_an_attempt() -> None:
    """An author records attempts on whatever span there is, which stays what else it is."""
    blockers: list[object] = [["rights", "key"], ["key", "rights"], "key"]
    said = {"looptrace.task.status": "blocked", "looptrace.completed_work": "login page"}
    rows = [span(i, said | {"looptrace.blockers": b}) for i, b in enumerate(blockers)]
    found = kind(turns([*rows, span(3, tool() | said)]), "attempt")

    assert found["name"].to_list() == ["blocked"] * 4
    assert found["arguments"].to_list() == ['["key","rights"]'] * 2 + ['["key"]', None]
    assert found["result"].to_list() == ["login page"] * 4
    assert kind(turns([span(3, tool() | said)]), "tool").height == 1


def test_a_phase_is_that_of_the_nearest_span_above() -> None:
    """An author opens a phase once, and everything within it belongs to it."""
    rows = [
        span(1, {"looptrace.phase": "fix"}, start=0, end=10),
        span(2, tool(), parent=1),
        span(3, tool() | {"looptrace.phase": "test"}, parent=1),
        span(4, tool()),
    ]

    assert turns(rows)["phase"].to_list() == ["fix", "test", None]


def talk(*, remembers: bool) -> list[dict[str, object]]:
    """Make twelve responses to “Go on.”, of a model that is shown its earlier ones or is not."""
    rows, history = [], [{"role": "user", "content": "Fix it."}]
    for number in range(1, 13):
        shown = {"gen_ai.input.messages": json.dumps(history)}
        rows.append(span(number, model(f"Thought {number}.") | shown))
        if remembers:
            history.append({"role": "assistant", "content": f"Thought {number}."})
            history.append({"role": "user", "content": "Go on."})
    return rows


def test_talk_that_goes_on_is_told_from_questions_asked_anew() -> None:
    """Twelve samples of one prompt are work; twelve responses without an action are a monologue."""
    assert rules(talk(remembers=True)) == {"monologue"}
    assert rules(talk(remembers=False)) == set()


def test_response_that_calls_does_not_talk_on() -> None:
    """Neither side of a call is talk: not the response that asks for it, nor what follows."""
    rows = talk(remembers=True)
    asking = model("Thought 5.", ("call_1", "probe", {"n": 1}))
    shown = json.loads(str(rows[4]["attributes"]))["gen_ai.input.messages"]
    rows[4] = span(5, asking | {"gen_ai.input.messages": shown})
    found = kind(turns(rows), "model")

    assert found["talks_on"].is_null().arg_true().to_list() == [0, 4]
    assert rules(rows) == set()


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"gen_ai.response.finish_reasons": ["length"]}, "length"),
        ({"gen_ai.response.finish_reasons": '["max_tokens"]'}, "length"),
        ({"gen_ai.response.finish_reasons": ["stop", "content_filter"]}, "content_filter"),
        ({"gen_ai.response.finish_reasons": ["FinishReason.MAX_TOKENS"]}, "length"),
        ({"gen_ai.response.finish_reasons": ["SAFETY"]}, "content_filter"),
        ({"gen_ai.response.finish_reasons": ["guardrail_intervened"]}, "content_filter"),
        ({"gen_ai.response.finish_reasons": ["end_turn"]}, "end_turn"),
        ({"gen_ai.response.finish_reasons": []}, None),
        ({"gen_ai.response.finish_reasons": [""]}, None),
        ({"llm.finish_reason": "length"}, "length"),
        ({"ai.response.finishReason": "content-filter"}, "content_filter"),
        ({}, None),
    ],
)
def test_why_a_model_stopped(attributes: Attributes, reason: str | None) -> None:
    """Producers have different words for the same, in different places."""
    assert turns([span(1, model("So.", **attributes))])["finish_reason"].to_list()[-1] == reason


def test_a_choice_event_says_why_a_model_stopped() -> None:
    """Frameworks with messages in events have the reason there."""
    said = {"message": "So.", "finish_reason": "max_tokens"}
    event = {"name": "gen_ai.choice", "time_ns": 0, "attributes": said}
    found = turns([span(1, {"gen_ai.operation.name": "chat"}, events=json.dumps([event]))])

    assert found["finish_reason"].to_list() == ["length"]


@pytest.mark.parametrize(("value", "flag"), [(True, True), ("true", True), (False, None)])
def test_a_compacted_history_is_known(value: object, flag: bool | None) -> None:
    """The conventions set it only where it is true."""
    found = turns([span(1, model("So.", **{"gen_ai.conversation.compacted": value}))])

    assert found["compacted"].to_list()[-1] == flag


def test_reasons_are_those_that_rules_know() -> None:
    """A reason of one table and not of the other would never be found."""
    table = files("looptrace.analyzer.fields").joinpath("dialects.toml").read_text("utf-8")
    reasons: dict[str, list[str]] = tomllib.loads(table)["finish_reasons"]
    told = [[word] for words in reasons.values() for word in words]
    found = turns(
        span(n, model("So.", **{"gen_ai.response.finish_reasons": words}))
        for n, words in enumerate(told)
    )

    assert tuple(reasons) == CUTS
    assert {*found["finish_reason"].drop_nulls()} == {*CUTS}


@pytest.mark.parametrize(
    "span_name", ["running tool: find", "execute_tool find", "Tool: find", "tools/call find"]
)
def test_a_call_under_two_names_is_one(span_name: str) -> None:
    """A model names the tool; an instrumentation writes its own words around the name."""
    asked = model("", ("c1", "find", {"q": "a"}))
    called = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.call.arguments": '{"q": "a"}',
        "gen_ai.tool.call.result": "nothing",
    }
    made = kind(turns([span(1, asked), span(2, called, name=span_name)]), "tool")

    assert made.select("name", "call_id").rows() == [("find", "c1")]
