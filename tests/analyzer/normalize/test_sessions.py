"""A session belongs to the service that names it; a shared trace or a setting joins services."""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.fingerprint.equivalence import PER_SERVICE, Sameness, Sessions
from looptrace.analyzer.normalize.span_ties import tie_rows, with_ties
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.text.session_names import session_name
from looptrace.collector.content.policy import with_content
from tests.analyzer.engine.test_arrivals import assert_comes_to_batch
from tests.analyzer.normalize.span_rows import rules, span, tool
from tests.analyzer.normalize.test_trace_buffer import assert_comes_to_all_at_once
from tests.seeds import seeds

Row = dict[str, object]
JOINED = Sessions(join_services=True)


def call(
    number: int,
    service: str | None,
    session: str | None = "1",
    trace: str = "a",
    links: Sequence[str] = (),
) -> Row:
    """Give a call of a tool in a trace of a service, which names its session."""
    named = {"gen_ai.conversation.id": session} if session else {}
    tied = json.dumps([{"trace_id": link * 32, "span_id": "b" * 16} for link in links])
    arguments = json.dumps({"query": "same"})
    said = tool("search", arguments=arguments, result="none") | named
    return span(number, said, service=service, trace_id=trace * 32, links=tied)


def served(
    number: int, trace: str, connection: str = "c1", *, service: str = "shop", **more: object
) -> Row:
    """Give a call as an MCP server writes it, in a trace of its connection to a client."""
    said = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "dig"}
    said |= {"gen_ai.tool.call.arguments": "{}", "mcp.session.id": connection}
    said |= {"gen_ai.tool.call.result": '{"isError": true, "content": "no spade"}'}
    return span(number, said, trace_id=trace * 32, service=service, **more)  # type: ignore[arg-type]


def table(rows: Sequence[Row]) -> pl.DataFrame:
    """Give rows as a span table."""
    return pl.DataFrame(list(rows), SPAN_SCHEMA, orient="row")


def tasks(rows: Sequence[Row], sessions: Sessions = PER_SERVICE) -> list[str]:
    """Give the task of each turn, by name."""
    return turns_of(table(rows), Sameness(sessions=sessions))[0]["task"].to_list()


def test_the_id_of_a_response_is_no_session() -> None:
    """Where a service keeps the conversation, each request names the response before it."""
    rows = [call(0, "shop", None), call(1, "shop", "resp_0a"), call(2, "shop", "resp_0b")]
    assert set(tasks(rows)) == {"a" * 32}

    spent = {"gen_ai.conversation.id": "resp_0a", "session.id": "s-1"}
    row = span(0, tool("search", arguments="{}", result="none") | spent, service="shop")
    assert tasks([row]) == ["s-1@shop"]


def test_two_services_with_the_same_session_id_are_two_tasks() -> None:
    """Many number their sessions from 1 on; what one does says nothing of the other."""
    rows = [call(1, "shop", trace="a"), call(2, "desk", trace="b"), call(3, "shop", trace="c")]

    assert tasks(rows) == ["1@desk", "1@shop", "1@shop"]
    assert turns_of(table(rows))[0]["session"].to_list() == ["1"] * 3
    assert tasks(rows, JOINED) == ["1"] * 3


def test_a_result_is_not_taken_from_the_session_of_another_service() -> None:
    """A model of one service that is given a result knows nothing of the other's call."""
    asked = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "ls"}]}
    asked["parts"][0]["arguments"] = {"path": "x"}  # type: ignore[index] # It is the list above.
    answered = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1"}]}
    answered["parts"][0]["response"] = "found"  # type: ignore[index] # It is the list above.
    model = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "1"}
    asks = model | {"gen_ai.output.messages": json.dumps([asked])}
    knows = model | {
        "gen_ai.input.messages": json.dumps([asked, answered]),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "done"}]}]
        ),
    }

    def results(service: str) -> list[str | None]:
        rows = [
            span(1, asks, trace_id="a" * 32, service="shop"),
            span(2, knows, trace_id="b" * 32, service=service),
        ]
        turns, _ = turns_of(table(rows))
        mine = turns.filter(pl.col("trace_id") == "a" * 32, pl.col("kind") == "tool")
        return mine["result"].to_list()

    assert results("shop") == ["found"]
    assert results("desk") == [None]


def test_a_trace_that_several_services_share_joins_them() -> None:
    """What one asks the other for is one task, in all traces of both."""
    apart = [call(1, "shop", trace="a"), call(2, "desk", trace="b")]
    shared = [call(3, "shop", trace="c"), call(4, "desk", trace="c")]

    assert tasks(apart + shared) == ["1@desk"] * 4


def test_linked_traces_join_services_that_name_one_session() -> None:
    """A message in a queue goes on in a trace of its own."""
    rows = [call(1, "shop", trace="a"), call(2, "desk", trace="b", links="a")]

    assert tasks(rows) == ["1@desk"] * 2


def test_services_that_name_other_sessions_in_a_trace_stay_apart() -> None:
    """Each span belongs to the session that it names."""
    rows = [call(1, "shop", "1"), call(2, "desk", "2"), call(3, "desk", "1", trace="b")]

    assert tasks(rows) == ["1@desk", "1@shop", "2@desk"]


def test_a_service_that_nobody_has_named_is_none() -> None:
    """The SDK names each such service alike, whatever it is."""
    rows = [call(1, None), call(2, "unknown_service:python", trace="b"), call(3, "", trace="c")]

    assert tasks(rows) == ["1"] * 3


def test_names_differ_where_session_or_service_do() -> None:
    """Whatever signs they have in them."""
    pairs = [("a@b", "c"), ("a", "b@c"), ("a", "b%40c"), ("a", "b"), ("a@b", "b"), ("a%40", "b")]

    assert len({session_name(*pair) for pair in pairs}) == len(pairs)


def test_the_calls_of_a_connection_to_a_server_alone_are_one_task() -> None:
    """Its client brings no trace, so that each call has one of its own."""
    rows = [served(number, trace) for number, trace in enumerate("abcdef")]

    assert tasks(rows) == ["c1@shop"] * 6
    assert turns_of(table(rows))[0]["session"].to_list() == ["c1"] * 6
    assert "repeated_failure" in rules(rows)
    assert not rules([served(n, trace, f"c{n}") for n, trace in enumerate("abcdef")])
    assert tie_rows(with_ties(table(rows))).filter(tie="c1").height == 6


@pytest.mark.parametrize("content", ["redacted", "hashes"])
def test_a_connection_outlasts_what_is_left_out(content: Any) -> None:
    """A span that is written anew says which connection it belongs to."""
    rows = [served(1, "a"), served(2, "b"), served(3, "c", parent=9)]
    left = with_content(table(rows), content, b"k" * 32)

    assert turns_of(left)[0]["task"].to_list() == ["c1@shop"] * 2 + ["c" * 32]


def test_other_connections_and_servers_are_other_tasks() -> None:
    """Another client's work is no repetition."""
    rows = [served(1, "a"), served(2, "b", "c2"), served(3, "c", service="desk")]

    assert tasks(rows) == ["c1@desk", "c1@shop", "c2@shop"]


def test_a_server_with_its_client_has_the_sessions_of_traces() -> None:
    """Clients of several agents may share a connection, and their traces tell them apart."""
    elsewhere = [served(1, "a", parent=9), served(2, "b", parent=9)]
    beside = [served(3, "c"), served(4, "c", parent=3), served(5, "d"), served(6, "d", parent=5)]

    assert set(tasks(elsewhere + beside)) == {name * 32 for name in "abcd"}


def test_what_a_connection_is_for_names_the_session() -> None:
    """A session that any span of the trace names, or of linked traces, goes before."""
    named = [served(1, "a"), call(2, "shop", trace="a")]
    linked = [served(3, "b"), call(4, "shop", trace="c", links="b")]

    assert tasks(named) == ["1@shop"] * 2
    assert tasks(linked) == ["1@shop"] * 2


def test_a_server_that_asks_another_server_has_the_session_of_its_client() -> None:
    """The connection of the span around is that of whoever wants the work."""
    rows = [served(1, "a"), served(2, "a", "c2", parent=1), served(3, "b")]

    assert set(tasks(rows)) == {"c1@shop"}


def random_rows(seed: int) -> list[Row]:
    """Give calls of a few services, in a few traces that link to each other, of a few sessions."""
    chance = Random(seed)
    return [
        call(
            number,
            chance.choice(["shop", "desk", "mail", None]),
            chance.choice(["1", "2", None]),
            trace := chance.choice("abcdefg"),
            [link for link in chance.sample("abcdefg", 1) if link != trace and not number % 5],
        )
        for number in range(chance.randint(2, 16))
    ]


def random_connections(seed: int) -> list[Row]:
    """Give calls of servers, with and without their clients, among calls that name sessions."""
    chance = Random(seed)
    rows = [
        served(
            100 + number,
            chance.choice("abcdefgh"),
            chance.choice(["c1", "c2"]),
            service=chance.choice(["shop", "desk"]),
            parent=chance.choice([None, None, 100 + chance.randrange(max(1, number)), 999]),
        )
        for number in range(chance.randint(2, 12))
    ]
    return rows + random_rows(seed)[: chance.randint(0, 6)]


@pytest.mark.parametrize("sessions", [PER_SERVICE, JOINED], ids=["apart", "joined"])
@pytest.mark.parametrize("rows", [random_rows, random_connections])
@pytest.mark.parametrize("seed", seeds(160))
def test_traces_are_told_of_a_name_in_any_order(
    seed: int, rows: Callable[[int], list[Row]], sessions: Sessions
) -> None:
    """What is known last of each turn is what all spans say together."""
    spans = table(rows(seed)).sample(fraction=1, shuffle=True, seed=seed)
    assert_comes_to_all_at_once(spans, 1, Sameness(sessions=sessions))


@pytest.mark.parametrize("rows", [random_rows, random_connections])
@pytest.mark.parametrize("seed", seeds(80))
def test_live_finds_what_batch_finds_however_spans_arrive(
    seed: int, rows: Callable[[int], list[Row]]
) -> None:
    """Loops and states of each task are those of all spans at once."""
    spans = table(rows(seed)).sample(fraction=1, shuffle=True, seed=seed)

    assert_comes_to_batch(spans, 1 + seed % 3)
