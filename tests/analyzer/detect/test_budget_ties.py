"""Two agents in two services spend one budget, if their trace or the id of a session ties them."""

from pathlib import Path
from random import Random

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.settings.given import settings_of
from looptrace.collector.files.reader import read_spans
from tests.analyzer.normalize.test_trace_buffer import assert_comes_to_all_at_once
from tests.otlp import CLIENT, SERVER, Attributes, Trace

POLICY = settings_of({"budgets": {"session_tokens": 10_000}}).policy
CONVERSATION = "gen_ai.conversation.id"
# What a processor copies from the baggage that came with the request.
CARRIED = "session.id"
REQUEST: Attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 1_000,
}


def spending(trace: Trace, agent: Attributes, parent: str | None = None) -> tuple[str, str]:
    """Let an agent spend 6,000 tokens; return the id of its span, and its trace as lines."""
    root = trace.span("agent", parent, {"gen_ai.operation.name": "invoke_agent", **agent})
    for _ in range(6):
        trace.span("chat m", root, REQUEST)
    return root, trace.lines()


@pytest.mark.parametrize(
    ("first", "second", "shared", "is_one"),
    [
        ({}, {}, True, True),
        ({CONVERSATION: "trip"}, {}, True, True),
        ({CARRIED: "trip"}, {CARRIED: "trip"}, False, True),
        ({CONVERSATION: "trip"}, {CONVERSATION: "other"}, True, True),
        ({CONVERSATION: "trip"}, {CONVERSATION: "other"}, False, False),
        ({}, {}, False, False),
    ],
)
def test_a_budget_is_shared_by_the_trace_or_the_session(
    first: Attributes, second: Attributes, shared: bool, is_one: bool, tmp_path: Path
) -> None:
    """Neither service alone reaches the limit; with sessions of their own they are two budgets."""
    plan = Trace("plan", session_key=None, service="plan")
    search = Trace("search", session_key=None, service="search", at="2026-03-02T09:01:00+00:00")
    root, written = spending(plan, first)
    _, others = spending(search, second, root if shared else None)
    written += others.replace(search.trace_id, plan.trace_id) if shared else others
    path = tmp_path / "spans.jsonl"
    path.write_text(written, encoding="utf-8")
    read = read_spans([str(path)])

    found = {finding.rule for finding in analyse(read.spans, read.skipped, POLICY).findings}
    assert ("session_tokens_budget" in found) is is_one


# How producers name the session, a run of an agent, and a response of a model.
NAMED: dict[str, tuple[str, Attributes, Attributes]] = {
    "gen_ai": (CONVERSATION, {"gen_ai.operation.name": "invoke_agent"}, REQUEST),
    "openinference": (
        "session.id",
        {"openinference.span.kind": "AGENT"},
        {"openinference.span.kind": "LLM", "llm.token_count.prompt": 1_000},
    ),
    "langfuse": (
        "langfuse.session.id",
        {"langfuse.observation.type": "agent"},
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.usage_details": '{"input": 1000}',
        },
    ),
}
_MCP: Attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "search"}
# The spans of a call from one service to another, the client's and the server's: a2a-python,
# src/a2a/utils/telemetry.py at 120c9ee (over HTTP); the conventions of MCP, whose requests carry
# the trace and the baggage in `params._meta` (SEP-414); and the conventions of HTTP.
CALLS: dict[str, list[tuple[str, Attributes]]] = {
    "a2a": [
        ("a2a.client.transports.jsonrpc.JsonRpcTransport.send_message", {}),
        ("a2a.server.request_handlers.default_request_handler.on_message_send", {}),
    ],
    "mcp": [("tools/call search", _MCP), ("tools/call search", {**_MCP, "mcp.session.id": "c1"})],
    "http": [
        ("POST", {"http.request.method": "POST"}),
        ("POST /run", {"http.request.method": "POST", "http.route": "/run"}),
    ],
}


class Called:
    """A trace in which the agent of one service calls that of another, which names its session."""

    def __init__(self, tmp_path: Path) -> None:
        self.plan = Trace("plan", session_key=None, service="plan")
        self.search = Trace("search", session_key=None, service="search")
        self._path = tmp_path / "spans.jsonl"

    def call(self, by: str, parent: str | None) -> str:
        """Add the spans of a call; return that of the server."""
        (client, given), (server, served) = CALLS[by]
        above = self.plan.span(client, parent, given, kind=CLIENT)
        return self.search.span(server, above, served, kind=SERVER)

    @property
    def spans(self) -> pl.DataFrame:
        """Return its spans."""
        others = self.search.lines().replace(self.search.trace_id, self.plan.trace_id)
        self._path.write_text(self.plan.lines() + others, encoding="utf-8")
        return read_spans([str(self._path)]).spans

    def payers(self) -> set[tuple[str, str | None]]:
        """Return the sessions of responses, each with that which pays."""
        turns = turns_of(self.spans)[0].filter(pl.col("kind") == "model")
        return {*turns.select("session", "payer").iter_rows()}


@pytest.mark.parametrize("where", ["agent", "responses"])
@pytest.mark.parametrize("by", CALLS)
@pytest.mark.parametrize("dialect", NAMED)
def test_who_is_called_pays_from_the_session_of_who_calls(
    dialect: str, by: str, where: str, tmp_path: Path
) -> None:
    """Live, whatever comes first, the callee's spans or those above it; no task is another."""
    key, agent, response = NAMED[dialect]
    called = Called(tmp_path)
    above: str | None = None
    for trace, session in ((called.plan, "trip"), (called.search, "other")):
        of_agent, of_response = (
            {key: session} if where == at else {} for at in ("agent", "responses")
        )
        root = trace.span("run", above, {**agent, **of_agent})
        trace.span("chat m", root, {**response, **of_response})
        above = called.call(by, root)

    assert called.payers() == {("trip", None), ("other", "trip")}
    for seed in range(6):
        rows = list(range(called.spans.height))
        Random(seed).shuffle(rows)
        assert_comes_to_all_at_once(called.spans[rows], 1 + seed % 3, opens=seed == 5)


def test_a_call_back_and_a_call_on_are_paid_by_the_first(tmp_path: Path) -> None:
    """A loop of two agents is one budget however deep it is."""
    called = Called(tmp_path)
    above: str | None = None
    for number in range(6):
        trace = (called.plan, called.search)[number % 2]
        session = ("trip", "other", "trip", "third")[number % 4]
        trace.now_s = 10.0 * number  # Else it is one response, written twice.
        above = trace.span("run", above, {**NAMED["gen_ai"][1], CONVERSATION: session})
        trace.span("chat m", above, REQUEST)

    assert called.payers() == {("trip", None), ("other", "trip"), ("third", "trip")}


def test_sessions_beside_each_other_stay_apart(tmp_path: Path) -> None:
    """A worker that lives long has many in one trace that do not belong together."""
    called = Called(tmp_path)
    root = called.plan.span("worker")
    for trace, session in (
        (called.plan, "a"),
        (called.plan, "b"),
        (called.search, "c"),
        (called.search, "d"),
    ):
        run = trace.span("run", root, {**NAMED["gen_ai"][1], CONVERSATION: session})
        trace.span("chat m", run, REQUEST)
        trace.span("chat m", root, {**REQUEST, CONVERSATION: session})

    assert called.payers() == {(session, None) for session in "abcd"}


def test_an_entry_of_the_baggage_ties_what_no_span_does(tmp_path: Path) -> None:
    """Traces of their own, and live the spans of a caller that come when the call is over."""
    called = Called(tmp_path)
    root = called.search.span("run", None, {CONVERSATION: "other", "looptrace.payer": "trip"})
    called.search.span("chat m", root, REQUEST)
    called.plan.span("chat m", None, {**REQUEST, CONVERSATION: "trip", "looptrace.payer": "trip"})

    assert called.payers() == {("trip", None), ("other", "trip")}
