"""Budgets of several tasks: what is counted, when they fire, and what a person adds."""

import random
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.detect.budgets.ledger import Ledger
from looptrace.analyzer.detect.budgets.limits import Budgets
from looptrace.analyzer.detect.budgets.rules import BUDGET_RULES
from looptrace.analyzer.detect.counters import DAY_S
from looptrace.analyzer.engine.batch import analyse, detect, ledger_of, spending_rows
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.gates.directives import OWN
from looptrace.analyzer.gates.resolutions import Resolution, resolution_turns
from looptrace.analyzer.schema.turns import AT, TURN_KEY, numbered
from looptrace.analyzer.settings.given import settings_of
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.testing.notation import tasks_in
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.store.stored import spans_of
from tests.otlp import Attributes, Trace, tool_call

SECOND_NS, DAY_NS = NS_PER_S, DAY_S * NS_PER_S


def settings(**limits: float) -> Settings:
    """Return the default settings with these budgets."""
    return settings_of({"budgets": limits})


def spending(
    responses: int, task: str, *, session: str = "s", service: str = "api", since_s: float = 0
) -> pl.DataFrame:
    """Return the turns of a task that reads 1,000 tokens a second."""
    turns = tasks_in({task: f'say("Step {{n}}.", read=1000) x{responses}'})
    times = [
        pl.col(name) + round(since_s * NS_PER_S) for name in ("start_ns", "end_ns", "order_ns")
    ]
    about = {"session": pl.lit(session), "trace_id": pl.lit(task), "service": pl.lit(service)}
    return turns.with_columns(*times, **about, cached_tokens=pl.lit(0, pl.Int64))


def together(*tasks: pl.DataFrame) -> pl.DataFrame:
    """Return turns of several tasks."""
    return numbered(pl.concat(tasks))


def happened(turns: pl.DataFrame, policy: DetectionPolicy) -> list[tuple[str, str, int, int]]:
    """Return what batch says of budgets: the kind of event, its task, turn and percents."""
    events = sorted(detect(turns, policy).events, key=lambda event: event.at_ns)
    return [(e.action or "", e.task, e.turn, e.attempts) for e in events if "budget" in e.rule]


def decided(turns: pl.DataFrame, at_ns: int, *amounts: float | None) -> pl.DataFrame:
    """Add decisions on gates of the session's budget, one for each task, at one moment."""
    said = [
        Resolution(f"r{place}", task, "s", task, "0", at_ns, "continue", None, TITLE, amounts[0])
        for place, task in enumerate(turns["task"].unique().sort())
    ]
    return numbered(pl.concat([turns, resolution_turns(said, settings().policy.sameness)]))


TITLE = "tokens of session s"


def test_tasks_of_a_session_spend_from_one_budget() -> None:
    """A sub-agent with a task of its own escapes the budget of a task, and not this one."""
    turns = together(spending(12, "a"), spending(12, "b", since_s=0.5))
    policy = settings(session_tokens=20_000).policy

    assert happened(turns, policy) == [
        ("warn", "b", 8, 80),
        ("warn", "a", 9, 85),
        ("gate", "b", 10, 100),
        ("gate", "a", 11, 105),
    ]
    alone = together(spending(12, "a"), spending(12, "b", session="other", since_s=0.5))
    assert happened(alone, policy) == []


@pytest.mark.parametrize("seed", range(12))
def test_live_says_the_same_as_batch(seed: int) -> None:
    """However turns of tasks interleave on the way and come together, if none waits for long."""
    tasks = [spending(9, name, since_s=n / 7) for n, name in enumerate("abc")]
    turns = together(*tasks)
    policy = settings(session_tokens=20_000, service_tokens=23_000, day_tokens=26_000).policy
    engine, events = LiveEngine(policy), []

    ordered = turns.sort("end_ns")
    if seed:  # Each comes up to two seconds late, in the order of its task.
        late = random.Random(seed)
        delay = pl.Series([late.uniform(0, 2) * NS_PER_S for _ in range(turns.height)])
        ordered = ordered.with_columns(at=pl.col("end_ns") + delay)
        ordered = ordered.with_columns(at=pl.col("at").cum_max().over("task"))
        ordered = ordered.sort("at").drop("at")
    chance, start = random.Random(seed), 0
    while start < ordered.height:
        size = chance.randint(1, 9) if seed > 3 else 1
        events += engine.feed(ordered[start : start + size]).events
        start += size

    batch = detect(turns, policy)
    assert {f.id for f in engine.findings()} == {f.id for f in batch.findings}
    assert len([f for f in batch.findings if "budget" in f.rule]) >= len(tasks)
    if not seed:
        assert [e.id for e in events] == [
            e.id for e in sorted(batch.events, key=lambda event: event.at_ns)
        ]


def fires(ledger: Ledger, *tasks: str) -> dict[Any, list[tuple[str, int]]]:
    """Return where budgets fire."""
    return {
        (task, key): [(each.rule.title, each.percent) for each in crossings]
        for task in tasks
        for key, crossings in ledger.fires(task).items()
    }


def test_the_order_of_arrival_does_not_matter() -> None:
    """Sums follow the ends of responses, so that files and live spans have the same ones."""
    turns = together(spending(20, "a"), spending(20, "b", since_s=0.5))
    policy = settings(session_tokens=20_000).policy
    rows = list(spending_rows(turns))
    expected = fires(ledger_of(turns, policy), "a", "b")
    assert expected

    for seed in range(3):
        random.Random(seed).shuffle(rows)
        ledger = Ledger(policy.budgets, None)
        for row in rows:
            ledger.take([row])
        assert fires(ledger, "a", "b") == expected


def test_a_response_that_comes_twice_counts_once() -> None:
    """A server reads stored turns again when it starts; later spans change some, or take them."""
    turns = together(spending(10, "a"))
    policy = settings(session_tokens=10_010).policy
    ledger = ledger_of(turns, policy)
    expected = fires(ledger, "a")
    (*_, last) = rows = list(spending_rows(turns))

    ledger.take(rows)
    assert fires(ledger, "a") == expected

    names = turns.columns
    key = tuple(last[names.index(name)] for name in TURN_KEY)
    ledger.take([], [key])
    assert len(fires(ledger, "a")) == len(expected) - 1
    ledger.take([last])
    assert fires(ledger, "a") == expected


def test_days_and_services_have_budgets_of_their_own() -> None:
    """At midnight, UTC, a new one begins; a session goes on."""
    day = together(spending(3, "a"), spending(3, "b", since_s=DAY_S), spending(3, "c", service="x"))

    of_services = happened(day, settings(service_tokens=3_000).policy)
    assert sorted(task for action, task, *_ in of_services if action == "gate") == ["a", "b", "c"]
    assert {task for _, task, *_ in happened(day, settings(day_tokens=6_000).policy)} == {"a", "c"}
    assert {task for _, task, *_ in happened(day, settings(session_tokens=9_000).policy)} == {"b"}


@pytest.mark.parametrize(("amount", "gates"), [(2_000.0, 2), (5_000.0, 0), (None, 0)])
def test_a_person_adds_to_what_is_spent_by_then(amount: float | None, gates: int) -> None:
    """Of what was overspent nothing is taken from the addition; it is added once for all tasks."""
    before = together(spending(6, "a"), spending(6, "b", since_s=0.5))
    after = [spending(2, task, since_s=100 + n / 2) for n, task in enumerate("ab")]
    spans = [part.with_columns(span_id="later" + pl.col("span_id")) for part in after]
    turns = decided(together(before, *spans), 50 * SECOND_NS, amount)

    events = happened(turns, settings(session_tokens=10_000).policy)

    assert [action for action, *_ in events if action == "gate"][:2] == ["gate", "gate"]
    assert [action for action, _, turn, _ in events if turn > 6].count("gate") == gates


def test_the_agent_is_told_what_is_left() -> None:
    """A warning that it did the same thing twice would be wrong."""
    turns = together(spending(9, "a"))

    warned, gated = detect(turns, settings(session_tokens=9_000).policy).events

    assert "tokens of session s are nearly spent: 88 %. 12 % are left" in (
        OWN.text_of(warned) or ""
    )
    assert "the tokens of session s are spent to 100 %" in (OWN.text_of(gated) or "")
    assert "tokens of session s: 9,000 of 9,000 tokens are spent (100 %)" in gated.reason


def test_money_needs_prices() -> None:
    """A budget in money without prices would never be spent."""
    with pytest.raises(SettingsError, match=r"budgets\.day_money needs prices, without which"):
        settings(day_money=5.0)
    priced = settings_of({"prices": "examples/prices.toml", "budgets": {"day_money": 5.0}})
    assert priced.policy.budgets.limits == {"day_money": 5.0}


def test_money_counts_each_kind_of_token() -> None:
    """What came from a cache is cheaper."""
    table = {"prices": "genai-prices", "budgets": {"session_money": 0.0125}}
    policy = settings_of(table).policy
    dear = spending(5, "a").with_columns(name=pl.lit("gpt-4o"))

    assert [action for action, *_ in happened(together(dear), policy)] == ["warn", "gate"]
    cached = dear.with_columns(cached_tokens=pl.lit(1_000, pl.Int64))
    assert happened(together(cached), policy) == []


def test_every_limit_has_a_rule() -> None:
    """A limit without one would be kept by nobody."""
    names = [*Budgets(**dict.fromkeys(BUDGET_RULES, 1)).limits]
    assert names == [*BUDGET_RULES]
    assert settings().policy.budgets.limits == {}


USAGE: Attributes = {"gen_ai.usage.input_tokens": 2_000, "gen_ai.usage.output_tokens": 100}
CHAT: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", **USAGE}
TWICE: Attributes = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "gpt-4o",
    "llm.token_count.prompt": 2_000,
    "llm.token_count.completion": 100,
}


def agent(name: str) -> Attributes:
    """Return the attributes of an agent whose span sums up what its responses used."""
    about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return {**about, **USAGE}


def test_overlapping_spans_and_sub_agents_count_once() -> None:
    """Three responses: one that is twice instrumented, a sub-agent's, and another service's."""
    own = Trace("s", name="a", service="planner")
    top = own.span("invoke_agent planner", attributes=agent("planner"))
    outer = own.span("chat gpt-4o", top, CHAT, seconds=2.0)
    own.span("ChatOpenAI", outer, TWICE, start_s=0.1, seconds=1.5, scope="openinference")
    helper = own.span("invoke_agent helper", top, agent("helper"))
    own.span("chat gpt-4o", helper, CHAT)
    other = Trace("s", name="b", service="searcher")
    other.span("chat gpt-4o", attributes=CHAT)

    (gated,) = analyse(spans_of(own, other), policy=settings(session_tokens=6_300).policy).events

    assert "6,300 of 6,300 tokens are spent" in gated.reason


USERS = {
    "user.id": ("planner", "chat"),
    "enduser.id": ("planner",),
    "langfuse.user.id": ("chat",),
    "langsmith.metadata.user_id": ("planner",),
    "traceloop.association.properties.user_id": ("planner", "chat"),
    "ai.telemetry.metadata.userId": ("chat",),
    "lmnr.association.properties.user_id": ("planner",),
    "mastra.metadata.userId": ("planner",),
    "gen_ai.request.user": ("chat",),
}


@pytest.mark.parametrize("key", USERS)
def test_users_are_named_by_any_span_of_a_trace(key: str) -> None:
    """By each response, by the agent around it, or by another span of the trace."""
    traces = []
    for number, user in enumerate(["ada", "ada", "bob"]):
        trace = Trace(f"s{number}", name=f"t{number}", service="api")
        said: dict[str, Attributes] = {name: {key: user} for name in USERS[key]}
        top = trace.span(
            "invoke_agent planner", attributes={**agent("p"), **said.get("planner", {})}
        )
        trace.span("chat gpt-4o", top, {**CHAT, **said.get("chat", {})}, start_s=number + 0.1)
        trace.span("chat gpt-4o", top, CHAT, start_s=number + 0.5)
        traces.append(trace)
    turns = analyse(spans_of(*traces)).turns
    assert dict(turns.select("session", "user_id").unique().iter_rows()) == {
        "s0": "ada",
        "s1": "ada",
        "s2": "bob",
    }

    events = analyse(spans_of(*traces), policy=settings(user_tokens=8_400).policy).events

    assert [(event.action, event.session) for event in events] == [("gate", "s1")]
    assert events[0].reason.startswith("tokens of user ada on 2026-03-02: 8,400 of 8,400 tokens")


def test_a_trace_of_several_users_names_none_for_the_others() -> None:
    """A response counts for whom it is said to be, and else for nobody."""
    trace = Trace("s", service="api")
    for user in ("ada", "bob", None):
        trace.span("chat gpt-4o", attributes={**CHAT, **({"user.id": user} if user else {})})
    assert analyse(spans_of(trace)).turns["user_id"].to_list() == ["ada", "bob", None]


@pytest.mark.parametrize(
    ("attributes", "tier"),
    [
        ({"openai.response.service_tier": "batch", "openai.request.service_tier": "auto"}, "batch"),
        ({"gen_ai.openai.response.service_tier": "Flex"}, "flex"),
        ({"gen_ai.openai.request.service_tier": "priority"}, "priority"),
        ({"gen_ai.usage.raw": '{"service_tier": "batch"}'}, "batch"),
        ({"llm.invocation_parameters": '{"service_tier": "flex"}'}, "flex"),
        ({"ai.response.providerMetadata": '{"openai": {"serviceTier": "flex"}}'}, "flex"),
        ({}, None),
    ],
)
def test_tiers_of_the_service_are_read(attributes: Attributes, tier: str | None) -> None:
    """A batch costs half; who says that it was one is told by the producer's own key."""
    trace = Trace("s", service="api")
    trace.span("chat gpt-4o", attributes={**CHAT, **attributes})
    assert analyse(spans_of(trace)).turns["service_tier"].to_list() == [tier]


def test_a_trace_ties_services_without_a_session() -> None:
    """Two agents that call each other over HTTP have one budget where only the trace is shared."""
    own = Trace("s", session_key=None, service="planner")
    top = own.span("invoke_agent planner", attributes=agent("planner"))
    own.span("chat gpt-4o", top, CHAT)
    asks = tool_call("ask")
    call = own.span("execute_tool ask", top, asks)
    other = Trace("s", session_key=None, service="searcher")
    other.span("chat gpt-4o", call, CHAT, start_s=9.0)
    # Both traces have one id, and give their first spans the same one.
    first_of_other = pl.when(service="searcher").then(pl.lit("ab" * 8)).otherwise("span_id")
    spans = spans_of(own, other).with_columns(span_id=first_of_other)

    events = analyse(spans, policy=settings(session_tokens=4_200).policy).events

    assert [event.action for event in events] == ["gate"]


def test_users_and_agents_have_budgets_of_a_day() -> None:
    """A user has several sessions and services, an agent several tasks; each day begins anew."""
    user, agent = (pl.lit(name, pl.String) for name in ("ada", "planner"))
    tasks = [
        spending(3, "a").with_columns(user_id=user, agent=agent),
        spending(3, "b", session="t", service="x", since_s=0.5).with_columns(user_id=user),
        spending(3, "c", session="u", since_s=0.7).with_columns(agent=agent),
        spending(5, "d", since_s=0.2),
        spending(4, "e", since_s=DAY_S).with_columns(user_id=user, agent=agent),
    ]
    turns = together(*tasks)

    of_user = happened(turns, settings(user_tokens=5_000).policy)
    assert [(action, task) for action, task, *_ in of_user if action == "gate"] == [
        ("gate", "a"),
        ("gate", "b"),
    ]
    of_agent = happened(turns, settings(agent_tokens=5_000).policy)
    assert [task for action, task, *_ in of_agent if action == "gate"] == ["a", "c"]


RATES = ("session_minute", "user_minute", "agent_minute", "service_minute", "minute")


@pytest.mark.parametrize("limit", RATES)
def test_a_rate_is_what_was_spent_in_a_minute(limit: str) -> None:
    """Slowly, much may be spent; a burst of several tasks opens gates while it lasts."""
    names = {"user_id": pl.lit("ada"), "agent": pl.lit("planner")}
    policy = settings(**{f"{limit}_tokens": 40_000}).policy

    def tasks(count: int, pause_s: float) -> list[tuple[str, str, int, int]]:
        parts = [
            spending(30, f"t{n}", since_s=n * pause_s).with_columns(**names) for n in range(count)
        ]
        return happened(together(*parts), policy)

    assert tasks(6, 60) == []
    assert [action for action, *_ in tasks(1, 0)] == []
    burst = tasks(2, 0.5)
    assert [action for action, *_ in burst] == ["warn", "warn", "gate", "gate"]
    assert burst[2][3] == 100


def test_a_rate_that_a_person_lets_go_on_begins_a_new_minute() -> None:
    """Nothing counts that was spent before; an amount is allowed beyond the limit for a minute."""
    before = together(spending(12, "a"))
    after = spending(12, "a", since_s=20).with_columns(span_id="later" + pl.col("span_id"))
    policy = settings(session_minute_tokens=10_000).policy
    title = "tokens a minute of session s"

    def gates(amount: float | None) -> list[int]:
        said = Resolution("r", "a", "s", "a", "0", 15 * SECOND_NS, "continue", None, title, amount)
        decision = resolution_turns([said], policy.sameness)
        turns = numbered(pl.concat([before, after, decision]))
        return [turn for action, _, turn, _ in happened(turns, policy) if action == "gate"]

    assert gates(None) == [10, 22]
    assert gates(5_000) == [10]


def test_live_rates_are_those_of_batch() -> None:
    """Also where a response comes late, of which those after it have more in their minute."""
    turns = together(*(spending(90, task, since_s=n / 3) for n, task in enumerate("ab")))
    policy = settings(session_minute_tokens=100_000, minute_tokens=118_000).policy
    rows = list(spending_rows(turns.sort("end_ns")))
    expected = fires(ledger_of(turns, policy), "a", "b")
    assert expected

    for seed in range(3):
        chance = random.Random(seed)
        late = sorted(rows, key=lambda row: row[AT["end_ns"]] + chance.uniform(0, 100) * NS_PER_S)
        ledger = Ledger(policy.budgets, None)
        for row in late:
            ledger.take([row])
        assert fires(ledger, "a", "b") == expected


def test_money_counts_thought_and_tiers() -> None:
    """By own prices of the settings, in rules and in budgets alike."""
    own = {"input_per_million": 1.0, "output_per_million": 2.0, "reasoning_per_million": 100.0}
    prices = {"currency": "EUR", "models": {"*": own | {"tiers": {"batch": 0.5}}}}
    spent = spending(1, "a").with_columns(
        name=pl.lit("m"),
        output_tokens=pl.lit(500, pl.Int64),
        reasoning_tokens=pl.lit(400, pl.Int64),
    )
    whole = (1_000 * 1 + 100 * 2 + 400 * 100) / 1e6

    def percents(tier: str | None) -> tuple[list[int], list[int]]:
        turns = together(spent.with_columns(service_tier=pl.lit(tier, pl.String)))
        table = {"prices": prices, "budgets": {"session_money": whole}}
        one = {"prices": prices, "rules": {"money_budget": {"enabled": True, "task": whole}}}
        events = [detect(turns, settings_of(each).policy).findings for each in (table, one)]
        shared, single = ([f.attempts for f in found if "money" in f.rule] for found in events)
        return shared, single

    assert percents(None) == ([100], [100])
    assert percents("priority") == ([100], [100])
    assert percents("batch") == ([], [])


def test_webhooks_name_budgets_by_rule() -> None:
    """Who pays is not who mends loops."""
    rules = ["day_money_budget"]
    hook = {"name": "a", "url": "https://a.example/", "format": "slack", "rules": rules}
    (webhook,) = settings_of({"webhooks": [hook]}).webhooks
    assert webhook.rules == ("day_money_budget",)
