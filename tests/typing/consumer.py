"""A program of a stranger, with every public name in it: type checkers must accept it as it is."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import looptrace
from looptrace import collector
from looptrace.analyzer import (
    SPAN_SCHEMA,
    TURN_SCHEMA,
    Analysis,
    Cost,
    DetectionPolicy,
    Failure,
    Finding,
    GateEvent,
    LoopTurn,
    Outage,
    Override,
    Recovery,
    RuleSet,
    Sameness,
    Skipped,
    Summary,
    TextMask,
    Tool,
    Unknown,
    analyse,
)
from looptrace.analyzer import settings as looptrace_settings
from looptrace.analyzer.settings import Settings, SettingsError, SettingsLike
from looptrace.analyzer.testing import NotationError, turns_in
from looptrace.collector import (
    AgentGate,
    GateOpenError,
    GateState,
    LoopSpanProcessor,
    ProcessorOptions,
    QueueCounts,
    QueueLimits,
    Recording,
    TaskCancelled,
    agent,
    attempt,
    handoff,
    instrument,
    intervened,
    iteration,
    phase,
    progress,
    turn,
)
from looptrace.collector.files import SpansRead, read_spans, sdk_spans
from looptrace.middleware.advisor import WAIT_S, Advisor
from looptrace.queries import Field, Query, load, names
from looptrace.rules import contract, turns, vocabulary
from looptrace.rules.contract import Action, Evaluation, Loop, Rule, Rung, SettingError
from looptrace.rules.needs import ALWAYS, Need, again, exceeds, has, nears, reaches
from looptrace.rules.turns import (
    Codes,
    Figures,
    Flags,
    Kind,
    Lane,
    LaneSpec,
    Meanings,
    Turns,
    TurnTimes,
    Twin,
)
from looptrace.testing import assert_no_loops

VERSION: str = looptrace.__version__


# An agent with looptrace in its own process.


def watched(provider: TracerProvider, settings: Settings) -> LoopSpanProcessor:
    """Make a processor in each way there is."""
    options: ProcessorOptions = {"limits": QueueLimits(spans_max=100), "content": True}
    processor = LoopSpanProcessor.local(settings, **options)
    LoopSpanProcessor.local(emit="both", fail_closed=True).use(provider)
    LoopSpanProcessor.forward("http://localhost:4318", protocol="grpc", gates="", token="t")  # noqa: S106
    looptrace.instrument(settings=settings, fail_closed=True)
    instrument({"LOOPTRACE_ENDPOINT": "http://localhost:4318"}, emit="log_event")
    return processor.use(provider)


def step(processor: LoopSpanProcessor) -> str:
    """Ask before each step, and say what became of the spans."""
    gate: AgentGate = processor.gate("ticket-42")
    stop = processor.on_gate(on_change)
    try:
        state: GateState = gate.raise_if_open()
    except GateOpenError as error:
        state = error.state
        gate.resolve("continue", note="The key was renewed.")
    stop()
    counts: QueueCounts = processor.counts
    try:
        waited: bool = gate.wait(timeout_s=1.5)
    except TaskCancelled as cancelled:
        return str(cancelled.state.note)
    return f"{state.directive or state.reason} {counts.dropped['failed']} {waited}"


def on_change(state: GateState) -> None:
    """Hand news to the agent."""
    print(state.event, state.directive)


async def step_async(gate: AgentGate) -> bool:
    """Wait without holding up the event loop."""
    async with turn("search", {"query": "refunds"}) as call:
        call.result = {"hits": 0}
    return await gate.wait_async(2)


@turn("run_tests")
def run_tests(path: str, *, verbose: bool = False) -> int:
    """Stay callable with the same arguments once decorated."""
    return len(path) + verbose


@phase("fix")
async def fix(path: str) -> list[str]:
    """Stay a coroutine once decorated."""
    return [path]


async def record() -> Recording:
    """Record by hand."""
    failures: int = run_tests("cart.py", verbose=True)
    fixed: list[str] = await fix("cart.py")
    with agent("fixer", session="s", task="t"), attempt("login", blockers=fixed) as tried:
        tried.status, tried.completed_work = "in_progress", "form"
        with iteration(2):
            progress(tests_failed=failures, coverage=71.5, metrics={"loss": 0.4})
        with handoff("reviewer", "Can you review the form?") as request:
            intervened("reviewed", "Use the other key.")
    return request


# Stored traces: read, analysed, reported.


def settings_of(path: Path) -> Settings:
    """Load settings, or those of a profile."""
    try:
        settings = looptrace_settings.load(path)
    except (looptrace.UnavailableError, looptrace.InstallError) as error:
        raise looptrace.LooptraceError from error
    except SettingsError as error:
        mistake: looptrace.InputError = error
        print(mistake)
        settings = looptrace_settings.default()
    strict: Settings = looptrace_settings.of_profile("aggressive")
    return looptrace_settings.overridden(settings or strict, {"LOOPTRACE_LOOP_THRESHOLD": "4"})


def policy() -> DetectionPolicy:
    """Put a policy together in code."""
    override = Override({TooPolite.name: TooPolite(attempts_min=9)}, phase="refine")
    mask = TextMask(r"run-\d+", "run")
    return DetectionPolicy(
        RuleSet(rules=(TooPolite(),), overrides=(override,)),
        Recovery(max_pivots=1),
        Sameness({"search": Tool(volatile_keys=("page",))}, (mask,)),
    )


def report(paths: list[str]) -> Iterator[str]:
    """Analyse traces and read all that there is in the result."""
    read: SpansRead = read_spans(paths)
    spans: pl.DataFrame = read.spans.select(SPAN_SCHEMA.names())
    analysis: Analysis = analyse(spans, read.skipped, policy())
    summary: Summary = analysis.summary
    unknown: Unknown = summary.unknown
    yield f"{summary.turns} turns, {unknown.results} without a result"
    yield from map(skip, analysis.skipped)
    yield from map(finding_line, analysis.own)
    yield from (event_line(event) for event in analysis.events)
    yield from (outage_line(outage) for outage in analysis.outages)
    yield str(analysis.turns.schema == TURN_SCHEMA)


def skip(skipped: Skipped) -> str:
    """Name what could not be read."""
    return f"{skipped.where}: {skipped.why}"


def finding_line(finding: Finding) -> str:
    """Put a finding into a line."""
    cost: Cost = finding.cost
    first: LoopTurn = finding.turns[0]
    action: Action = finding.action
    return f"{finding.rule} {first.turn} {first.role} {action} {cost.seconds:.1f} s"


def event_line(event: GateEvent) -> str:
    """Put a gate event into a line."""
    failures: tuple[Failure, ...] = event.history
    return f"{event.type} {event.task} {len(failures)}"


def outage_line(outage: Outage) -> str:
    """Put an outage into a line."""
    return f"{outage.tool} {outage.failures} {len(outage.sessions)}"


def queries() -> list[Field]:
    """List the columns of every query."""
    loaded: list[Query] = [load(name) for name in names()]
    return [field for query in loaded for field in (*query.parameters, *query.columns)]


def in_a_notebook(folder: Path, files: list[Path]) -> list[str]:
    """Look at a store, and at files, with objects, frames and SQL."""
    stored: looptrace.TraceStore = looptrace.open(folder)
    given: SettingsLike = {"profile": "aggressive"}
    store = looptrace.analyze(files, given)
    store.detect("looptrace.toml")
    looptrace_settings.load("looptrace.toml")
    task: looptrace.Task = stored.task(stored.tasks[0])
    turns: looptrace.Records[looptrace.Turn] = task.turns
    last: looptrace.Turn = turns[-1]
    gates: looptrace.Records[looptrace.StoredGate] = store.gates
    frame: pl.DataFrame = store.findings.to_polars()
    rows = store.sql("SELECT task FROM turns").height + store.query("gates_by_day").height
    texts = [finding_line(finding) for finding in store.findings]
    texts += [f"{gate.status} {gate.note}" for gate in gates[:3]]
    texts += map(skip, store.skipped)
    return [*texts, f"{last.kind} {rows} {frame.height} {len(task.events)}"]


# A rule of one's own, and its test.


@dataclass(frozen=True, slots=True)
class TooPolite(Rule):
    """Finds an agent that says the same thing again."""

    name = "too_polite"
    lane = LaneSpec(by="agent", kinds=("model",))

    ladder: tuple[Rung, ...] = contract.ladder_setting((Rung(3, "warn"),))
    attempts_min: int = contract.setting(3, ge=2, le=100, doc="Equal responses in a row.")

    @property
    def lookback(self) -> int:
        """As many responses as make a loop."""
        return self.attempts_min

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count equal responses."""
        codes: Codes = vocabulary.own(lane, vocabulary.pair(lane.call, lane.outcome))
        reached = vocabulary.in_a_row(lane, codes)
        return contract.repeats(reached, self.attempts_min, np.ones_like(lane.rows))

    def say(self, loop: Loop) -> str:
        """Name the response."""
        return f"{loop.labels[0]} was said {loop.attempts} times"


def words(lane: Lane, codes: Codes, figures: Figures) -> list[Flags]:
    """Use each word of the vocabulary."""
    pattern: vocabulary.Pattern = vocabulary.shortest(lane, codes, (2, 3), needed=3, straight_max=2)
    pattern = vocabulary.longer(lane, codes, pattern, range(4, 9), needed=3)
    places: Codes = np.flatnonzero(codes)
    counted: tuple[Codes, ...] = (
        vocabulary.rounds(lane, codes, 2),
        vocabulary.same_among(lane, codes, 5),
        vocabulary.attempts_among(lane, codes, 5, seconds=60),
        vocabulary.alike_in_a_row(lane, codes, 5),
        vocabulary.answers_in_a_row(lane, codes, 3),
        vocabulary.recent(lane, codes, 3, seconds=60),
        vocabulary.streak(lane, lane.polls),
        vocabulary.gathered(codes, pattern.period),
    )
    evaluations: list[Evaluation] = [
        contract.cycles(codes, pattern, 3),
        contract.counts(counted[0], 3, counted[1]),
    ]
    return [
        vocabulary.same_as(lane, codes, 1) & (codes != turns.UNKNOWN),
        vocabulary.within(lane, 1, seconds=int(1e9 / vocabulary.NS_PER_S)),
        vocabulary.rises(lane, figures),
        vocabulary.mirrored(codes, places, 2),
        *(evaluation.fires for evaluation in evaluations),
    ]


def test_too_polite() -> None:
    """Check a rule of one's own on turns in the notation."""
    try:
        table: pl.DataFrame = turns_in('say("Of course!") x3')
    except NotationError as error:
        raise AssertionError from error
    assert table.height == len(turns.KINDS) - len(turns.STATUSES)
    assert len(turns.CUTS) < table.height
    with pytest.raises(SettingError):
        TooPolite(attempts_min=0)
    bounds: contract.Bounds = TooPolite().settings()["attempts_min"][1]
    assert contract.ACTIONS[0] == "warn"
    assert bounds["ge"] < bounds["le"]


@pytest.mark.looptrace(fail_on="gate", ignore=["max_runtime"])
def test_agent(looptrace_spans: InMemorySpanExporter, tmp_path: Path) -> None:
    """Check an agent by its spans, and an earlier run by its file."""
    spans = looptrace_spans.get_finished_spans()
    assert_no_loops(spans, settings={"profile": "aggressive"})
    assert analyse(sdk_spans(spans)).summary.turns
    assert_no_loops(tmp_path / "run.jsonl", settings=looptrace_settings.default(), baseline="k")
    with pytest.raises(AssertionError):
        assert_no_loops("run.jsonl", fail_on="finding", select=("repeated_call",))


def needs_more() -> bool:
    """Ask for what a rule of another package needs."""
    need: Need = has("external") | again("call", "outcome")
    need |= exceeds("steps", "attempts_min") & reaches("errors", "attempts_min")
    need |= nears("tokens_spent", "attempts_min", vocabulary.BILLIONTHS)
    return need != ALWAYS and bool(need.of(TooPolite()))


def columns(table: Turns, kind: Kind, once: Twin) -> Meanings | None:
    """Read the columns of turns."""
    lane: Lane = table.lane(LaneSpec(by="task", kinds=(kind,), once=once))
    percent, which = vocabulary.used([lane.turns.tokens_spent], [vocabulary.SOFT_PERCENT])
    assert percent[0]
    assert vocabulary.BUDGETED[int(which[0])]
    return lane.turns.meanings


def longest_ns(table: Turns) -> int:
    """Read how long turns took."""
    times: TurnTimes = table.times
    return int(times.took_ns.max())


def advised(processor: LoopSpanProcessor) -> str | None:
    """Ask what looptrace says before a request to a model."""
    return Advisor(processor, "ticket-42", wait_s=WAIT_S / 2).before_request()


MODULES = (looptrace, collector, looptrace_settings, contract, turns, vocabulary)
