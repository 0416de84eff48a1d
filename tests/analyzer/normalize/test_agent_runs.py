"""Who asked for the run of an agent, as the agents' spans show it: a person or another agent."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from tests.otlp import tool_call

SECOND = 1_000_000_000
Row = dict[str, object]
Text = str | None


REQUESTS = ["Book a room.", "Move the lunch.", "Cancel my tea.", "Invite the team."]


def said(role: str, text: str) -> str:
    """Return a list of one message in GenAI's form."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


class Story:
    """Spans of one session: each takes a second, and an agent's as long as those below it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.now = 0
        self.trace = 1
        self.root: str | None = None  # the parent of agents that nobody called

    def span(self, attributes: Mapping[str, Any], above: str | None, name: str = "step") -> Row:
        """Add a span; those above it end when it ends."""
        given = {k: v for k, v in attributes.items() if v is not None}
        row: Row = {
            "trace_id": f"{self.trace:032x}",
            "span_id": f"{len(self.rows) + 1:016x}",
            "parent_span_id": above,
            "name": name,
            "start_ns": self.now * SECOND,
            "end_ns": (self.now + 1) * SECOND,
            "status": 0,
            "attributes": json.dumps({"gen_ai.conversation.id": "talk", **given}),
            "events": "[]",
            "links": "[]",
        }
        self.now += 1
        self.rows.append(row)
        by_id = {each["span_id"]: each for each in self.rows}
        while above in by_id:
            by_id[above]["end_ns"] = self.now * SECOND
            above = by_id[above]["parent_span_id"]  # type: ignore[assignment]
        return row

    def agent(
        self, name: Text, asked: Text, answer: Text = "Done.", above: str | None = None
    ) -> str:
        """Let an agent run; returns its id."""
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.input.messages": asked and said("user", asked),
            "gen_ai.output.messages": answer and said("assistant", answer),
        }
        return str(self.span(attributes, above or self.root)["span_id"])

    def fails(self, above: str | None, number: int = 0) -> None:
        """Let a tool fail in the same way each time, with other arguments."""
        attributes = tool_call("book", json.dumps({"room": number}), result="")
        row = self.span(attributes, above)
        row["status"], row["status_message"] = 2, "the calendar has no such room"

    def speaks(self, above: str | None, text: str, *given: tuple[str, str]) -> str:
        """Let a model speak."""
        history = [{"role": r, "parts": [{"type": "text", "content": t}]} for r, t in given]
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(history) if given else None,
            "gen_ai.output.messages": said("assistant", text),
        }
        return str(self.span(attributes, above)["span_id"])

    def calls(self, above: str | None, name: str) -> str:
        """Let a tool be called."""
        attributes = tool_call(name)
        return str(self.span(attributes, above)["span_id"])


# A person asks for four things, and each fails once.
def _four_requests(story: Story) -> None:
    for number, asked in enumerate(REQUESTS):
        story.fails(story.agent("desk", asked), number)


# Each has a trace of its own.
def _four_requests_in_traces(story: Story) -> None:
    for number, asked in enumerate(REQUESTS):
        story.trace += 1
        story.fails(story.agent("desk", asked), number)


# A web server's span is around each.
def _four_requests_under_a_server(story: Story) -> None:
    for number, asked in enumerate(REQUESTS):
        story.trace += 1
        story.root = str(story.span({}, None, "POST /chat")["span_id"])
        story.fails(story.agent("desk", asked), number)


# The span of a model below has the same message, and the talk before it.
def _models_carry_it_too(story: Story) -> None:
    history: list[tuple[str, str]] = []
    for number, asked in enumerate(REQUESTS):
        agent = story.agent("desk", asked)
        history += [("user", asked)]
        story.speaks(agent, "I try.", *history)
        story.fails(agent, number)
        history += [("assistant", "I try.")]


# A framework puts the message into a frame.
def _models_carry_it_in_other_words(story: Story) -> None:
    for number, asked in enumerate(REQUESTS):
        agent = story.agent("desk", asked)
        story.speaks(agent, "I try.", ("user", f"Current task: {asked}"))
        story.fails(agent, number)


# The second agent's span lies within a tool's.
def _a_model_calls_an_agent(story: Story) -> None:
    desk = story.agent("desk", "Book a room.")
    story.speaks(desk, "I ask.", ("user", "Book a room."))
    inner = story.agent("clerk", "Which rooms are free?", above=story.calls(desk, "ask_clerk"))
    story.speaks(inner, "None.", ("user", "Which rooms are free?"))


# The first one speaks itself; the second answers it.
def _an_agent_calls_another(story: Story) -> None:
    desk = story.agent("desk", "Book a room.")
    story.speaks(desk, "I ask.", ("user", "Book a room."))
    for number in range(3):
        story.fails(story.agent("clerk", f"Is room {number} free?", above=desk), number)


# Some frameworks call a whole run an agent, and only the agent within has the message.
def _a_frame_without_words(story: Story) -> None:
    for number, asked in enumerate(REQUESTS):
        story.trace += 1
        frame = story.agent("crew", None, None)
        story.fails(story.agent("desk", asked, above=frame), number)


# Both have the message.
def _a_frame_with_the_same_words(story: Story) -> None:
    frame = story.agent("crew", "Book a room.")
    story.fails(story.agent("desk", "Book a room.", above=frame))


# Two instrumentations write the run of one agent.
def _the_same_agent_twice(story: Story) -> None:
    outer = story.agent("desk", "Book a room.")
    story.fails(story.agent("desk", "Book a room.", above=outer))


# A program passes the answer of one agent to the next.
def _code_asks_one_after_the_other(story: Story) -> None:
    story.fails(story.agent("finder", "Find a room.", "Room 4 is free."), 1)
    story.fails(story.agent("desk", "Book it: Room 4 is free.", "The calendar refuses."), 2)
    story.fails(story.agent("finder", "Find another: The calendar refuses.", "None."), 3)


# A program shows an agent its own answer.
def _an_agent_improves_its_answer(story: Story) -> None:
    answer = "The rooms are all taken."
    story.agent("desk", "Which rooms are free?", answer)
    for number in range(3):
        story.fails(story.agent("desk", f"Draft {number} was: {answer} Improve it.", answer))


# Without agents' spans the models' messages count, as ever.
def _one_model_after_the_other(story: Story) -> None:
    story.speaks(None, "I try.", ("user", "Book a room."))
    story.fails(None)


# The agents' spans have no messages; the model's counts.
def _silent_agents(story: Story) -> None:
    agent = story.agent("desk", None, None)
    story.speaks(agent, "I try.", ("user", "Book a room."))
    story.fails(agent)


# The span around an agent was sampled away.
def _the_parent_was_lost(story: Story) -> None:
    story.root = "f" * 16
    story.fails(story.agent("desk", "Book a room."))


# An orchestrator starts its agent anew with the same prompt: no new message of a person.
def _the_same_words_again(story: Story) -> None:
    for number in range(4):
        story.trace += 1
        story.fails(story.agent("desk", "Book a room."), number)


def _circle(story: Story, team: Text = None, *, deep: bool = False, speak: bool = False) -> None:
    """Pass a message around between three agents, five times."""
    above = team and story.agent(team, "Tell all: the build is green.", None)
    for name in ("ann", "bob", "cem") * 5:
        run = story.agent(name, "Tell all: the build is green.", "Passed on.", above)
        if speak:
            story.speaks(run, "Passed on.", ("user", "Tell all: the build is green."))
        above = run if deep else above


# Nothing is around the agents.
def _three_in_a_circle(story: Story) -> None:
    _circle(story)


# A team is around them that neither speaks nor calls.
def _three_in_a_team(story: Story) -> None:
    _circle(story, "team")


# Each agent calls the next.
def _each_within_the_one_before(story: Story) -> None:
    _circle(story, deep=True)


# Their models' responses are there too, and tell of the loop.
def _three_that_speak(story: Story) -> None:
    _circle(story, speak=True)


# It has no spans of models, and asks others in between.
def _a_supervisor_asks_the_same(story: Story) -> None:
    boss = story.agent("boss", "Write about rooms.", None)
    for text in ("the hall", "the garden", "the roof", "the cellar", "the stairs", "the yard"):
        story.calls(
            story.agent("scout", "Find the price of a room.", "40 a day.", boss), "web_search"
        )
        story.agent("writer", f"Write a line about {text}.", f"A line about {text}.", boss)


# Its agents answer in other words each time, and one of them works.
def _a_supervisor_asks_nothing_new(story: Story) -> None:
    boss = story.agent("boss", "Write about rooms.", None)
    for text in ("cheap", "dear", "free", "taken", "full", "gone"):
        story.calls(story.agent("scout", "Find a room.", f"Rooms are {text}.", boss), "ask_web")
        story.agent("writer", "Sum it up.", f"In short: {text}.", boss)


# A program passes five texts through three agents.
def _a_line_of_agents(story: Story) -> None:
    for text in ("hall", "garden", "roof", "cellar", "stairs"):
        story.agent("reader", f"Read about the {text}.", f"The {text} is old.")
        story.agent("writer", f"Shorten: The {text} is old.", f"Old {text}.")
        story.agent("checker", f"Check: Old {text}.", "Fine.")


# A writer and a critic, with news in each round.
def _a_text_gets_better(story: Story) -> None:
    flaws = ("too long", "no title", "a wrong date", "no end", "a typo", "no sources")
    for last, flaw in zip(("nothing", *flaws), flaws, strict=False):
        story.agent("writer", f"Write. Mind: {last}.", f"Text without {last}.")
        story.agent("critic", f"Judge: Text without {last}.", f"It has {flaw}.")


# A program takes a text through many agents, of which each shortens it a little.
def _one_text_for_many(story: Story) -> None:
    text = "The hall is old and has a roof of red tiles, four doors and a long floor of stone."
    for number in range(9):
        better = text.rsplit(" ", 1)[0]
        story.agent(f"editor{number}", f"Improve this text: {text}", better)
        text = better


# A program asks an agent five times at the same time, and takes the most frequent answer.
def _five_at_once(story: Story) -> None:
    for _ in range(5):
        story.now = 0
        story.agent("oracle", "How many rooms are free?", "Four.")


# Each request of a person goes to another agent after the first.
def _a_desk_passes_requests_on(story: Story) -> None:
    for asked, name in zip(REQUESTS, ("rooms", "lunch", "tea", "team"), strict=True):
        story.trace += 1
        story.agent("desk", asked, f"For {name}.")
        story.fails(story.agent(name, asked))


ONE = ["Book a room."]
GREEN = ["Tell all: the build is green."]
# The spans, the messages of persons, the hand-offs, and a rule that finds something.
CASES: Sequence[tuple[Any, list[str], list[tuple[str, str]], str]] = (
    (_four_requests, REQUESTS, [], ""),
    (_four_requests_in_traces, REQUESTS, [], ""),
    (_four_requests_under_a_server, REQUESTS, [], ""),
    (_models_carry_it_too, REQUESTS, [], ""),
    (_models_carry_it_in_other_words, [f"Current task: {REQUESTS[0]}", *REQUESTS[1:]], [], ""),
    (_a_model_calls_an_agent, ONE, [("desk", "clerk")], ""),
    (_an_agent_calls_another, ONE, [("desk", "clerk")] * 3, "repeated_failure"),
    (_a_frame_without_words, REQUESTS, [], ""),
    (_a_frame_with_the_same_words, ONE, [], ""),
    (_the_same_agent_twice, ONE, [], ""),
    (_code_asks_one_after_the_other, ["Find a room."], [], "repeated_failure"),
    (_an_agent_improves_its_answer, ["Which rooms are free?"], [], "repeated_failure"),
    (_one_model_after_the_other, ONE, [], ""),
    (_silent_agents, ONE, [], ""),
    (_the_parent_was_lost, ONE, [], ""),
    (_the_same_words_again, ONE * 4, [], "repeated_failure"),
    (
        _three_in_a_circle,
        GREEN,
        [("", name) for name in ("ann", "bob", "cem") * 5][1:],
        "agent_cycle",
    ),
    (_three_in_a_team, GREEN, [("team", n) for n in ("ann", "bob", "cem") * 5][1:], "agent_cycle"),
    (
        _each_within_the_one_before,
        GREEN,
        [("bob", "cem"), *[("cem", "ann"), ("ann", "bob"), ("bob", "cem")] * 4],
        "agent_cycle",
    ),
    (_three_that_speak, GREEN, [], "response_repeat"),
    (
        _a_supervisor_asks_the_same,
        ["Write about rooms."],
        [("boss", "scout"), ("boss", "writer")] * 6,
        "repeated_request",
    ),
    (
        _a_supervisor_asks_nothing_new,
        ["Write about rooms."],
        [("boss", "scout"), ("boss", "writer")] * 6,
        "no_new_request",
    ),
    (
        _a_line_of_agents,
        ["Read about the hall."],
        [("", name) for name in ("reader", "writer", "checker") * 5][1:],
        "",
    ),
    (
        _a_text_gets_better,
        ["Write. Mind: nothing."],
        [("", name) for name in ("writer", "critic") * 6][1:],
        "",
    ),
    (
        _one_text_for_many,
        [
            "Improve this text: The hall is old and has a roof of red tiles, four doors and a long "
            "floor of stone."
        ],
        [("", f"editor{number}") for number in range(1, 9)],
        "",
    ),
    (_five_at_once, ["How many rooms are free?"], [], ""),
    (_a_desk_passes_requests_on, REQUESTS, [], ""),
)
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__[1:])


def spans_of_case(case: Any) -> pl.DataFrame:
    """Return the spans of a case, by their ends."""
    story = Story()
    case[0](story)
    return _table(story)


def _table(story: Story) -> pl.DataFrame:
    spans = pl.DataFrame(story.rows, SPAN_SCHEMA)
    return spans.with_columns(pl.col("status_message").fill_null("")).sort("end_ns")


@cases
def test_who_asked(case: Any) -> None:
    """A person's message begins the counts anew, and no message counts twice."""
    _, persons, handoffs, rule = case
    spans = spans_of_case(case)
    turns = turns_of(spans)[0]
    found = {finding.rule for finding in analyse(spans).findings}

    assert turns.filter(kind="user").sort("start_ns")["text"].to_list() == persons
    assert turns.filter(kind="handoff").select("agent", "name").rows() == handoffs
    assert rule in found if rule else not found


AGENT_KIND = {"openinference.span.kind": "AGENT", "agent.name": "desk"}
VERCEL_KIND = {"ai.operationId": "ai.generateText", "ai.telemetry.functionId": "desk"}


@pytest.mark.parametrize(
    ("kind", "key", "form"),
    [
        (AGENT_KIND, "input.value", "{}"),
        (AGENT_KIND, "input.value", '{"task": "{}", "stream": false}'),
        (AGENT_KIND, "input.value", '{"messages": [{"role": "user", "content": "{}"}]}'),
        ({"langfuse.observation.type": "agent"}, "langfuse.observation.input", "{}"),
        (VERCEL_KIND, "ai.prompt", '{"prompt": "{}"}'),
        (VERCEL_KIND, "ai.prompt", '{"messages": [{"role": "user", "content": "{}"}]}'),
    ],
)
def test_other_dialects_have_the_message_on_the_same_span(
    kind: Mapping[str, str], key: str, form: str
) -> None:
    """Each has a key of its own for it."""
    story = Story()
    for number, asked in enumerate(REQUESTS):
        agent = story.span({**kind, key: form.replace("{}", asked)}, None, "desk")
        story.fails(str(agent["span_id"]), number)
    turns = turns_of(_table(story))[0]

    assert turns.filter(kind="user").sort("start_ns")["text"].to_list() == REQUESTS
