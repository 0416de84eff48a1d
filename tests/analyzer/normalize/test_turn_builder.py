"""Spans become the same turns in any order, and no attribute can stop that or make things up."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looptrace._core import ANCESTORS_MAX, says_nothing
from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.fields.dialect_table import FIELDS, SHIPPED
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.schema.turns import SILENCE, TURN_SCHEMA
from looptrace.collector.files.reader import read_spans
from looptrace.rules.turns import CUTS
from tests.collector.store.stored import spans_of
from tests.fields import arguments_of
from tests.framework_table import OWN, dumps
from tests.otlp import Trace, tool_call
from tests.seeds import seed_count

Attributes: TypeAlias = dict[str, object]
CHAIN = 10_000
SECOND = 1_000_000_000


def span(
    number: int,
    attributes: Mapping[str, object],
    *,
    parent: int | None = None,
    start: float | None = None,
    end: float | None = None,
    **columns: object,
) -> dict[str, object]:
    """Give a row of the span table: number N starts at second N and takes half of one."""
    start = number if start is None else start
    row: dict[str, object] = {
        "trace_id": "a" * 32,
        "span_id": f"{number:016x}",
        "parent_span_id": None if parent is None else f"{parent:016x}",
        "name": "step",
        "start_ns": round(start * SECOND),
        "end_ns": round((start + 0.5 if end is None else end) * SECOND),
        "status": 0,
        "attributes": json.dumps(attributes),
        "events": "[]",
        "links": "[]",
    }
    return row | columns


def tool(name: str = "probe", **content: object) -> Attributes:
    """Give the attributes of a tool's span; `content` may hold id, arguments and result."""
    said = {f"gen_ai.tool.call.{key}": value for key, value in content.items()}
    return tool_call(name) | said


def model(text: str, *calls: tuple[str | None, str, object], **more: object) -> Attributes:
    """Give the attributes of a model's span: what it says, and calls as id, name, arguments."""
    parts: list[object] = [{"type": "text", "content": text}]
    for call_id, name, arguments in calls:
        parts.append({"type": "tool_call", "id": call_id, "name": name, "arguments": arguments})
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.input.messages": json.dumps([{"role": "user", "content": "Go."}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
        **more,
    }


def turns(rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """Return the turns of rows of the span table."""
    return turns_of(pl.DataFrame(list(rows), schema=SPAN_SCHEMA))[0]


def rules(rows: Iterable[Mapping[str, object]]) -> set[str]:
    """Return the rules that find something in rows of the span table."""
    spans = pl.DataFrame(list(rows), schema=SPAN_SCHEMA)
    return {finding.rule for finding in analyse(spans).findings}


def kind(found: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the turns of one kind."""
    return found.filter(pl.col("kind") == name)


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


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(
        ["[", "{", "5", "null", "[5]", '{"a":', "NaN", "1e400", "tool", "user", "{[]: 1}"]
    ),
    st.sampled_from(["tool_call", "tool_result", "function", "error", "__REDACTED__", "Error: x"]),
)
WORDS = (
    "role content parts type id name arguments args kwargs tool_calls function response result"
    " output text message messages generations data lc error status toolUse toolResult tool_call"
    " message_content contents tool_call_id input_str tags inputs tool_output value image 0 1 x"
    " isError success exit_code session_id input prompt"
)
words = st.sampled_from(WORDS.split())
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(words, inner, max_size=4),
        inner.map(json.dumps),
    ),
    max_leaves=8,
)
plain_keys = {key.split("#")[0] for name in FIELDS for key in SHIPPED.keys_of(name)}
numbered_keys = st.tuples(
    st.sampled_from(["llm.input_messages", "llm.output_messages", "gen_ai.prompt"]),
    st.lists(
        words | st.sampled_from(["message", "", "-1", "²", "٣", "00"]), min_size=1, max_size=4
    ),
).map(lambda key: ".".join([key[0], *key[1]]))
keys = numbered_keys | st.sampled_from(
    sorted(k for k in plain_keys if k[0] != "@" and k[-1] != "*")
)
markers = st.sampled_from(
    [
        (row.key, value)
        for dialect in SHIPPED.dialects
        for row in dialect.kinds
        if row.key
        for value in sorted(row.values or {"any"})
    ]
)
event_names = st.sampled_from(
    [
        "gen_ai.choice",
        "gen_ai.client.inference.operation.details",
        "gen_ai.tool.message",
        "gen_ai.user.message",
        "exception",
        "other",
    ]
)
event_keys = st.sampled_from(
    ["content", "message", "exception.type", "exception.message", "gen_ai.input.messages"]
)
events = st.lists(
    st.fixed_dictionaries(
        {"name": event_names, "attributes": st.dictionaries(event_keys, values, max_size=3)}
    ),
    max_size=3,
)


@given(
    st.lists(
        st.tuples(markers, st.dictionaries(keys, values, max_size=8), events, st.integers(0, 5)),
        min_size=1,
        max_size=5,
    )
)
@settings(max_examples=seed_count(60))
def test_no_value_stops_the_analysis(
    made: list[tuple[tuple[str, str], dict[str, Any], list[dict[str, Any]], int]],
) -> None:
    """Whatever stands in an attribute, the spans are read, and the same in any order."""
    rows = [
        span(n, {marker: value} | said, parent=parent, events=json.dumps(told), status=n % 3)
        for n, ((marker, value), said, told, parent) in enumerate(made)
    ]
    found = turns(rows)

    assert found.schema == TURN_SCHEMA
    assert turns(reversed(rows)).equals(found)
    assert found["input_tokens"].fill_null(0).is_between(0, 3 * 10**9).all()


@pytest.mark.parametrize(
    "messages",
    [
        5,
        "[",
        [1, 2],
        "[1, 2]",
        [[[]]],
        {"role": ["user"]},
        [{"type": ["tool_call"]}, {"type": {}}],
        [{"role": "tool", "tool_call_id": {}, "content": 5}],
        [{"parts": [{"type": [], "name": "x"}, 5, None, {"toolUse": 5}]}],
        "[" * 1000 + "]" * 1000,
        '{"messages":[' * 400 + "]}" * 400,
        '[{"parts":' * 450 + '"x"' + "}]" * 450,
        '{"message":' * 900 + '"x"' + "}" * 900,
    ],
    ids=lambda messages: str(messages)[:30],
)
def test_messages_that_are_none(messages: object) -> None:
    """A response whose messages cannot be read is still a response, with its tokens."""
    said = model("Hm.") | {"gen_ai.input.messages": messages, "gen_ai.output.messages": messages}
    found = kind(turns([span(1, said)]), "model")

    assert found["input_tokens"].to_list() == [7]


@pytest.mark.parametrize("depth", [300, 900, 5000])
@pytest.mark.parametrize(
    ("head", "tail"),
    [("[", "]"), ('{"a":[', "]}"), ('{"result":', "}"), ('{"args":[],"kwargs":{"a":', "}}")],
)
def test_deep_values(depth: int, head: str, tail: str) -> None:
    """Nesting that no agent writes must not cost the call its turn."""
    deep = head * depth + "1" + tail * depth
    found = turns([span(1, tool(id="c", arguments=deep, result=deep)), span(2, tool(result="ok"))])

    assert found["name"].to_list() == ["probe", "probe"]
    assert found["call_id"].to_list() == ["c", None]
    assert found["result"][1] == "ok"


@pytest.mark.parametrize("reverse", [False, True])
def test_conflicts_in_numbered_keys(reverse: bool) -> None:
    """A value and keys below it at one place say the same whichever comes first."""
    head = "llm.output_messages"
    flat = {
        f"{head}.0": "stray",
        f"{head}.0.message": "stray",
        f"{head}.0.message.role": "assistant",
        f"{head}.0.message.content": "Hm.",
        f"{head}.count": 1,
        f"{head}.x.y": 5,
        f"{head}." + "9" * 5000 + ".message.content": "stray",
        f"{head}." + "0." * 5000 + "0": "stray",
    }
    ordered = dict(reversed(flat.items()) if reverse else flat.items())
    found = turns([span(1, {"openinference.span.kind": "LLM", **ordered})])

    assert found["text"].to_list() == ["Hm."]


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (5, 5),
        ("5", 5),
        (5.0, 5),
        (0, 0),
        (-3, None),
        (True, None),
        (None, None),
        ("NaN", None),
        ("many", None),
        ([5], None),
        ({"input": 5}, None),
        (2**64, None),
        (1e30, None),
        ("9" * 5000, None),
    ],
)
def test_tokens(value: object, tokens: int | None) -> None:
    """A count that cannot be one is unknown; it must neither stop the sum nor spoil it."""
    said = model("Hm.") | {"gen_ai.usage.input_tokens": value}

    assert kind(turns([span(1, said)]), "model")["input_tokens"].to_list() == [tokens]


def openinference(number: int, hidden: str) -> list[dict[str, object]]:
    """Make a response and a call of OpenInference whose contents are hidden."""
    head, tail = "llm.input_messages.0.message", "llm.output_messages.0.message"
    both = {"input.value": hidden, "output.value": hidden}
    texts = {f"{head}.role": "user", f"{head}.content": hidden, f"{tail}.content": hidden}
    called = {"openinference.span.kind": "TOOL", "tool.name": "look", **both}
    spoke = {"openinference.span.kind": "LLM", "llm.token_count.prompt": 1, **both, **texts}
    return [span(number, spoke), span(number + 1, called)]


@pytest.mark.parametrize(
    "hidden", ["__REDACTED__", "[REDACTED]", "<redacted>", "***", "[Scrubbed due to 'auth']"]
)
def test_redacted_is_unknown(hidden: str) -> None:
    """What was taken out leaves one text everywhere, which proves nothing the same."""
    rows = [row for n in range(0, 10, 2) for row in openinference(n, hidden)]
    calls, responses = kind(turns(rows), "tool"), kind(turns(rows), "model")

    assert rules(rows) == set()
    assert calls["arguments"].null_count() == calls["outcome"].null_count() == 5
    assert responses["text"].null_count() == responses["response"].null_count() == 5


THOUGHT = {"type": "reasoning", "content": "I wonder."}


@pytest.mark.parametrize(
    ("message", "silent"),
    [
        ({"parts": []}, True),
        ({"content": ""}, True),
        ({"parts": [{"type": "text", "content": ""}]}, True),
        ({"parts": [THOUGHT]}, True),
        ({"content": "", "tool_calls": []}, True),
        ({"content": [{"type": "thinking", "thinking": "I wonder."}]}, True),
        ({}, False),
        ({"content": None}, False),
        ({"parts": [{"type": "text"}]}, False),
        ({"parts": [THOUGHT, {"type": "text"}]}, False),
        ({"parts": [THOUGHT, {"type": "text", "content": "Done."}]}, False),
        ({"content": "", "tool_calls": [{"type": "tool_call", "name": "run"}]}, False),
        ({"content": "__REDACTED__"}, False),
    ],
)
def test_a_response_is_silent_where_it_shows_that(message: Attributes, silent: bool) -> None:
    """Who records no texts leaves them out, which is no silence."""
    answer = json.dumps([{"role": "assistant", **message}])
    found = turns([span(1, model("") | {"gen_ai.output.messages": answer})])

    (response,) = kind(found, "model")["response"]
    assert (response == SILENCE) == silent


def test_words_about_redaction_are_words() -> None:
    """Only a text that is nothing else stands in the place of another."""
    rows = openinference(0, "2 lines redacted")

    assert kind(turns(rows), "tool")["result"].to_list() == ["2 lines redacted"]


def test_hidden_outputs_of_langsmith_are_unknown() -> None:
    """LangSmith writes an empty object where inputs and outputs are hidden."""
    hidden = {"langsmith.span.kind": "tool", "gen_ai.prompt": "{}", "gen_ai.completion": "{}"}
    rows = [span(n, hidden, name="look") for n in range(5)]

    assert rules(rows) == set()
    assert turns(rows)["outcome"].null_count() == 5


def test_messages_cut_by_a_limit_are_unknown() -> None:
    """A limit on the length of attributes leaves the same beginning of different messages."""
    cut = json.dumps([{"role": "user", "content": "A long text"}])[:-5]
    said = model("Hm.") | {"gen_ai.input.messages": cut, "gen_ai.output.messages": cut}
    rows = [span(n, said) for n in range(5)]
    found = turns(rows)

    assert rules(rows) == set()
    assert found["kind"].to_list() == ["model"] * 5
    assert found["text"].null_count() == found["response"].null_count() == 5
    assert found["call"].null_count() == 5


def test_same_answer_to_other_pictures_is_work() -> None:
    """A picture is news although it has no text."""

    def asked(picture: str) -> str:
        part = {"type": "image_url", "image_url": {"url": picture}}
        return json.dumps([{"role": "user", "content": [{"type": "text", "text": "Cat?"}, part]}])

    said = [model("Yes.") | {"gen_ai.input.messages": asked(f"data:{n}")} for n in range(5)]
    same = [model("Yes.") | {"gen_ai.input.messages": asked("data:0")} for _ in range(5)]
    hidden = [model("Yes.") | {"gen_ai.input.messages": asked("__REDACTED__")} for _ in range(5)]

    assert rules(span(n, one) for n, one in enumerate(said)) == set()
    assert rules(span(n, one) for n, one in enumerate(same)) == {"response_repeat"}
    assert rules(span(n, one) for n, one in enumerate(hidden)) == set()


def test_half_a_surrogate_pair_costs_one_character(tmp_path: Path) -> None:
    """JavaScript cuts texts within an emoji; the calls beside such a text must not be lost."""
    trace = Trace()
    part = r'{"type": "text", "content": "Cut \ud83d"}'
    call = (
        '{"type": "tool_call", "id": "c", "name": "look", "arguments": {"sign": "\\ud83d\\ude00"}}'
    )
    trace.span(
        "chat \ud83d",
        None,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.agent.name": "half \udc00",
            "gen_ai.output.messages": f'[{{"role": "assistant", "parts": [{part}, {call}]}}]',
        },
    )
    path = tmp_path / "half.jsonl"
    path.write_text(trace.lines())
    found = turns(read_spans([str(path)]).spans.iter_rows(named=True))

    assert kind(found, "model")["text"].to_list() == ["Cut \ufffd"]
    assert kind(found, "tool")["arguments"].to_list() == ['{"sign":"\U0001f600"}']
    assert set(found["agent"]) == {"half \ufffd"}


def test_long_error_says_something() -> None:
    """A long text is no stand-in, and the pattern for those would take the square of its length."""
    long = "An error occurred." + " x" * 500 + " Please try again."

    assert not says_nothing(long)
    assert says_nothing("An error occurred. Please try again.")


@pytest.mark.parametrize(
    ("literal", "arguments"),
    [
        ("{[]: 1}", "{[]: 1}"),
        ("{'rooms': {'b', 'a'}}", '{"rooms":["a","b"]}'),
        ("(" * 500, "(" * 500),
    ],
)
def test_literals_of_python(literal: str, arguments: str) -> None:
    """LangChain writes arguments as Python does; what is no literal stays text."""
    wrapped = {"input_str": literal, "tags": []}

    assert arguments_of(wrapped) == arguments


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
    trace = Trace()
    asked = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": "a"}}
    trace.span(
        "chat",
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [asked]}]),
        },
    )
    trace.span(
        span_name,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.call.arguments": '{"q": "a"}',
            "gen_ai.tool.call.result": "nothing",
        },
    )

    made = turns_of(spans_of(trace))[0].filter(kind="tool")

    assert made.select("name", "call_id").rows() == [("find", "c1")]
