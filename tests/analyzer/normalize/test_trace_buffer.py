"""Spans that arrive in any order become the turns that they become at once."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.live_task import key_of
from looptrace.analyzer.fingerprint.equivalence import NOTHING, Sameness
from looptrace.analyzer.gates.state_machine import Gate, TaskState
from looptrace.analyzer.normalize.trace_buffer import TraceBuffer, TurnNews
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.distinct_spans import distinct_spans
from looptrace.analyzer.schema.spans import span_rows
from looptrace.analyzer.schema.turns import AT, TURN_KEY, TURN_SCHEMA, TurnKey, TurnTuple
from looptrace.analyzer.testing.notation import turns_in
from looptrace.collector.files.reader import read_spans
from tests.analyzer.normalize.random_spans import random_spans
from tests.collector.store.stored import spans_of
from tests.otlp import Trace, tool_call
from tests.paths import ROOT, SHARED
from tests.seeds import in_turn, seeds

FILES = [
    path
    for folder in (ROOT / "examples/traces", ROOT / "tests/framework_traces", SHARED / "frameworks")
    for path in sorted(folder.glob("*.json*")) + sorted(folder.glob("*.binpb"))
]
files = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
# What a place among all turns says is known of all turns only.
PLACES = ("turn", "order_ns")
CALL = tool_call("ls")
TOOL = {"gen_ai.operation.name": "execute_tool"}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "lead"}


@dataclass
class Followed:
    """A buffer and the turns that it has told of."""

    buffer: TraceBuffer = field(default_factory=TraceBuffer)
    turns: dict[tuple[str, TurnKey], TurnTuple] = field(default_factory=dict)

    def take(self, spans: pl.DataFrame, above: pl.DataFrame | None = None) -> None:
        """Take spans, and what they tell of turns."""
        self.note(self.buffer.take(span_rows(spans), () if above is None else span_rows(above)))

    def note(self, news: TurnNews) -> None:
        """Note what is told of turns."""
        for lost in news.gone:
            self.turns.pop(lost, None)
        self.turns |= {(turn[AT["task"]], key_of(turn)): turn for turn in news.turns}


def assert_comes_to_all_at_once(
    spans: pl.DataFrame, size: int, sameness: Sameness = NOTHING, *, opens: bool = False
) -> Followed:
    """Assert that a buffer comes to the turns of all spans, fed so many at once.

    Where it `opens` them, the spans that follow are known as open ones.
    """
    followed = Followed(TraceBuffer(sameness))
    for begin in range(0, spans.height, size):
        part, above = spans[begin : begin + size], spans[begin + size :] if opens else None
        followed.take(part, above)
    followed.note(followed.buffer.rest())
    came = pl.DataFrame(list(followed.turns.values()), TURN_SCHEMA, orient="row").drop(PLACES)
    whole = turns_of(distinct_spans(spans)[0], sameness)[0].drop(PLACES)
    by = ("task", *TURN_KEY)
    assert came.sort(by).to_dicts() == whole.unique(by, keep="last").sort(by).to_dicts()
    return followed


@pytest.mark.parametrize(
    ("path", "size", "opens"),
    in_turn(
        {f"{path.parent.name}-{path.name}": path for path in FILES},
        [(1, False), (1, True), (7, True), (3, False)],
    ),
)
def test_spans_come_as_they_end(path: Path, size: int, *, opens: bool) -> None:
    """So an agent sends them; an agent's span is known while it is open."""
    spans = read_spans([str(path)]).spans
    spans = spans.sort("end_ns", "start_ns", "span_id", descending=[False, True, False])
    assert_comes_to_all_at_once(spans, size, opens=opens)


@pytest.mark.parametrize("seed", seeds(6))
@files
def test_spans_come_in_other_orders(path: Path, seed: int) -> None:
    """Some come a little late, or all of them anyhow; some come twice."""
    rng = random.Random(seed)
    spans = read_spans([str(path)]).spans.sort("end_ns")
    far = rng.choice([2, 5, spans.height])
    places = sorted(range(spans.height), key=lambda place: place + rng.random() * far)
    places += rng.sample(places, min(2, len(places)))
    assert_comes_to_all_at_once(spans[places], rng.choice([1, 1, 2, 5]))


# Made-up traces that once came to other turns.
FOUND = (1093, 1353, 1724, 3556, 4091, 10825, 30748)


@pytest.mark.parametrize("seed", [*FOUND, *seeds(400)])
def test_spans_of_any_trace(seed: int) -> None:
    """Calls with ids and without; results, names and parents that come late; several traces."""
    assert_comes_to_all_at_once(random_spans(seed), [1, 1, 3][seed % 3], opens=seed % 5 == 0)


def test_an_open_span_gets_the_name_of_a_span_below_it() -> None:
    """The two record one call then, as they would if it had had the name from the beginning."""
    trace = Trace()
    root = trace.span("agent", attributes=AGENT)
    outer = trace.span("run", root, TOOL | {"gen_ai.tool.name": "run"}, seconds=9)
    for name in ("ls", "read", "ls"):
        trace.span(name, outer, TOOL | {"gen_ai.tool.name": name})
    spans = spans_of(trace).sort("end_ns")
    below, opened = spans[:3], spans[3:]
    renamed = opened.with_columns(pl.col("attributes").str.replace('"run"', '"read"'))
    followed = Followed()
    steps = [(below[0], opened), (below[1], opened), (below[2], renamed), (renamed[0], renamed[1])]
    for part, above in steps:
        followed.take(part, above)
    assert {turn[AT["name"]] for turn in followed.turns.values()} == {"ls", "read"}
    assert len(followed.turns) == 3


def test_a_span_that_comes_again_is_no_news() -> None:
    """Exporters send twice what was not acknowledged."""
    arrivals = TraceBuffer()
    spans = _spans("s1", 3)
    assert len(arrivals.take(span_rows(spans)).turns) == 3
    assert not arrivals.take(span_rows(spans)).turns


@pytest.mark.parametrize("names_first", [True, False])
def test_of_two_copies_of_a_span_the_one_that_says_more_is_kept(names_first: bool) -> None:
    """An exporter sends a span as it is, beside a processor that adds what it inherits."""
    named = _spans("talk", 3)
    plain = named.with_columns(
        attributes=pl.col("attributes").str.replace('"gen_ai.conversation.id":"talk",', "")
    )
    copies = [named, plain] if names_first else [plain, named]
    kept, reported = distinct_spans(pl.concat(copies))
    assert (kept.sort("span_id").equals(named.sort("span_id")), len(reported)) == (True, 3)
    arrivals = TraceBuffer()
    news = [arrivals.take(span_rows(spans)) for spans in copies]
    last = news[0] if names_first else news[1]
    assert {turn[TURN_SCHEMA.names().index("task")] for turn in last.turns} == {"talk"}
    assert bool(news[1].turns) != names_first


def test_traces_go_that_were_touched_longest_ago() -> None:
    """However many come, what is held has a bound."""
    arrivals = TraceBuffer(chars_max=20_000)
    for number in range(100):
        assert len(arrivals.take(span_rows(_spans(f"s{number}", 2))).turns) == 2
    assert len(arrivals) < 10
    assert arrivals.dropped == 100 - len(arrivals)


def test_of_a_long_trace_the_last_spans_are_held() -> None:
    """Each turn of it is news once."""
    arrivals, spans = TraceBuffer(), _spans("s1", 2_050)
    news = sum(len(arrivals.take(span_rows(part)).turns) for part in spans.iter_slices(500))
    assert news == spans.height


def test_tasks_go_that_were_fed_longest_ago_and_a_gate_is_recalled() -> None:
    """P8: of a million sessions so many are held as may be; none that waits is let go on."""
    gate = TaskState("t7", "blocked", gate=Gate("g", "r", "s", 0))
    engine = LiveEngine(recall=lambda task: gate if task == "t7" else TaskState(task), tasks_max=10)
    for number in range(50):
        fed = engine.feed(_turns(f"t{number}", "run(a)->same x9"))
        opened = [event for event in fed.events if event.type == "gate_opened"]
        assert bool(opened) is (number != 7)
    assert len(engine) == 10
    assert engine.evicted == 40
    assert engine.kept < 100


def _turns(task: str, notation: str) -> pl.DataFrame:
    return turns_in(notation).with_columns(task=pl.lit(task))


def _spans(session: str, count: int) -> pl.DataFrame:
    trace = Trace(session)
    for number in range(count):
        trace.span("ls", attributes={**CALL, "gen_ai.tool.call.arguments": f'{{"n": {number}}}'})
    return spans_of(trace)
