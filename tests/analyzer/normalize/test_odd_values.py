"""No value of an attribute stops the analysis or makes things up."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looptrace._core import says_nothing
from looptrace.analyzer.fields.dialect_table import FIELDS, SHIPPED
from looptrace.analyzer.schema.turns import SILENCE, TURN_SCHEMA
from looptrace.collector.files.reader import read_spans
from tests.analyzer.normalize.span_rows import Attributes, kind, model, rules, span, tool, turns
from tests.fields import arguments_of
from tests.otlp import Trace
from tests.seeds import seed_count

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
