"""Batch and live give the same findings, and the test of that notices when they do not."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looptrace._core import LiveTurns
from looptrace.analyzer.detect.counters import DAY_S, Counting
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.phases import METRICS, Convergence
from looptrace.analyzer.detect.ruleset import DEFAULT, SELECTORS, Override, RuleSet
from looptrace.analyzer.engine import live_task
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.live import QUIET_ROUNDS, LiveEngine
from looptrace.analyzer.engine.live_moments import Standing
from looptrace.analyzer.engine.live_task import HORIZON_S, LATENESS_S, LiveTask
from looptrace.analyzer.engine.live_turns import watch_of
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.schema.turns import AT, TURN_KEY, TURN_SCHEMA, numbered
from looptrace.analyzer.settings.profiles import rules_of_profile
from looptrace.rules.attempts.degradation import Degradation
from looptrace.rules.attempts.no_measurable_progress import NoMeasurableProgress
from looptrace.rules.calls.cycle import Cycle
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.contract import Evaluation
from looptrace.rules.phases.phase_visits import PhaseVisits
from looptrace.rules.phases.transition_repeats import TransitionRepeats
from looptrace.rules.registry import default_rules
from looptrace.rules.responses.monologue import Monologue
from looptrace.rules.responses.near_duplicate_output import NearDuplicateOutput
from looptrace.rules.turns import Lane
from looptrace.rules.vocabulary import NS_PER_S, in_a_row, pair
from tests.drivers import batch, findings_of, resting, ruleset
from tests.seeds import seed_count, seeds

# Few tools, arguments and results, so that random turns hold loops of every kind.
step = st.fixed_dictionaries(
    {
        "task": st.sampled_from(["t1", "t2", "t3"]),
        "agent": st.sampled_from(["a", "a", "a", "b"]),
        "kind": st.sampled_from(
            ["tool"] * 8
            + ["attempt"] * 3
            + ["handoff"] * 3
            + ["progress", "progress", "switch", "model", "model", "user"]
        ),
        "name": st.sampled_from(["run", "run", "read", "grep"]),
        "arguments": st.sampled_from(["x", "x", "y", None]),
        "result": st.sampled_from(
            ["1", "1", "1", "", "No files found", "2", "a page that stays as it is " * 2, None]
        ),
        "failed": st.sampled_from([True, False, None]),
        "text": st.sampled_from(["Again.", "Done."]),
        "talks_on": st.sampled_from(["Again.", "Again.", "Done.", None]),
        "finish_reason": st.sampled_from([None, "length", "length", "stop", "content_filter"]),
        "compacted": st.sampled_from([None, None, True]),
        "phase": st.sampled_from([None, None, "fix", "test", "plan"]),
        "subtask": st.sampled_from([None, None, "part"]),
        "task_kind": st.sampled_from([None, None, "code", "setup"]),
        "tests_failed": st.sampled_from([None, None, 0, 1, 2, 3]),
        "coverage": st.sampled_from([None, None, 50.0, 60.0]),
        "markers": st.sampled_from([None, None, 0, 1]),
        "metrics": st.sampled_from([None, None, '{"loss":1}', '{"loss":0.5}', '{"other":1}']),
        "iteration": st.sampled_from([None, "1", "2"]),
        "declared": st.sampled_from([0, 0, 1, 2]),  # the phase, with this or the turn before
        "step": st.sampled_from([None, None, None, "s1", "s2"]),
        "gap_ns": st.integers(0, 40 * NS_PER_S) | st.just((DAY_S + 1) * NS_PER_S),
        "took_ns": st.integers(0, 5 * NS_PER_S) | st.just(DAY_S * NS_PER_S // 4),
    }
)

RULES_OF = {
    name: {rule.name: rule for rule in rules_of_profile(name)}
    for name in ("conservative", "aggressive")
}


@st.composite
def overrides(draw: st.DrawFn) -> Override:
    """Let rules be off, stricter or more lenient where a few of the steps' columns fit."""
    among = {
        "phase": ["fix", "test"],
        "agent": ["a", "b"],
        "task_kind": ["code"],
        "model": ["run"],
        "tool": ["run"],
        "signature": ["error:Error-1", "error:Error-No-files-found"],
    }
    asked = draw(st.sets(st.sampled_from(SELECTORS), min_size=1, max_size=2))
    profiles = draw(
        st.dictionaries(
            st.sampled_from([rule.name for rule in default_rules()]),
            st.sampled_from(["off", *RULES_OF]),
            min_size=1,
        )
    )
    rules = {name: RULES_OF.get(profile, {}).get(name) for name, profile in profiles.items()}
    return Override(rules, **{name: draw(st.sampled_from(among[name])) for name in sorted(asked)})


CONVERGING = {"fix": Convergence("tests_failed"), "test": Convergence("loss", "lower")}
STATUS_OF = {"run": "done", "read": "blocked", "grep": "done"}


def table(steps: list[dict[str, Any]]) -> pl.DataFrame:
    """Make turns of the steps, each ending some time after the one before."""
    rows, now, since_ns = [], 0, [0]
    for number, one in enumerate(steps):
        now += one["gap_ns"]
        since_ns.append(now - one["took_ns"])
        is_tool, is_model = one["kind"] == "tool", one["kind"] == "model"
        rows.append(
            dict.fromkeys(TURN_SCHEMA)
            | {key: one[key] for key in ("task", "kind", "name", "agent")}
            | {"session": one["task"], "trace_id": one["task"], "span_id": f"{number:04d}"}
            | {"start_ns": now - one["took_ns"], "end_ns": now, "input_tokens": number}
            | {"arguments": one["arguments"] if one["kind"] != "user" else None}
            | ({"name": STATUS_OF[one["name"]]} if one["kind"] == "attempt" else {})
            | {key: one[key] if is_tool else None for key in ("failed", "step")}
            | {"result": one["result"] if one["kind"] in ("tool", "attempt") else None}
            | {"error": one["result"] if is_tool and one["failed"] else None}
            | {"text": None if is_tool else one["text"], "phase": one.get("phase")}
            | {"response": one["text"] if is_model else None}
            | {"talks_on": one.get("talks_on") if is_model else None}
            | {k: one.get(k) if is_model else None for k in ("finish_reason", "compacted")}
            | {key: one.get(key) for key in ("subtask", "task_kind", *METRICS, "metrics")}
            | {"phase_start_ns": since_ns[-one["declared"]] if one.get("declared") else None}
            | {"iteration": one.get("iteration")}
        )
    return numbered(add_fingerprints(pl.DataFrame(rows, TURN_SCHEMA, orient="row")))


def arrived(turns: pl.DataFrame, seed: int, rule_set: RuleSet = DEFAULT) -> list[Finding]:
    """Feed turns late by up to the lateness promised, some twice, in batches of random sizes."""
    chance = random.Random(seed)
    order = sorted(
        [*range(turns.height), *chance.sample(range(turns.height), turns.height // 4)],
        key=lambda row: turns["end_ns"][row] + chance.randint(0, LATENESS_S * NS_PER_S),
    )
    engine, start = LiveEngine(DetectionPolicy(rule_set)), 0
    while start < len(order):
        size = chance.randint(1, 15)
        with resting(at_once=seed % 2 == 1):
            engine.feed(turns[order[start : start + size]])
        start += size
    return engine.findings()


@settings(max_examples=seed_count(80))
@given(
    st.lists(step, min_size=1, max_size=80),
    st.integers(0, 2**32),
    st.just(()) | st.lists(overrides(), max_size=3).map(tuple),
)
@pytest.mark.requirement("F2")
def test_batch_and_live_agree(
    steps: list[dict[str, Any]], seed: int, changes: tuple[Override, ...]
) -> None:
    """Whatever the batch sizes, the order of arrival, the overrides, and how tasks interleave."""
    turns = table(steps)
    visits = (PhaseVisits(max_visits=2), TransitionRepeats(max_transitions=1))
    soon = (NoMeasurableProgress(attempts_min=2), Degradation(attempts_min=2))
    alike = NearDuplicateOutput(attempts_min=2, chars_min=1)
    counted_on = (*visits, *soon, alike)
    replaced = {rule.name for rule in counted_on}
    rules = (*(rule for rule in default_rules() if rule.name not in replaced), *counted_on)
    rule_set = RuleSet(rules, changes, Counting(converging=CONVERGING))
    found = findings_of(turns, rule_set)

    assert found == arrived(turns, seed, rule_set)
    assert len({finding.id for finding in found}) == len(found)


def test_a_call_that_repeats_nothing_asks_no_rule() -> None:
    """Most turns of a healthy agent are such calls, and no lane is evaluated for them."""
    base = {"task": "t1", "agent": "a", "kind": "tool", "failed": False, "text": "", "step": None}
    call = base | {"name": "run", "took_ns": 0, "gap_ns": NS_PER_S}
    turns = table([call | {"arguments": f"{n}", "result": f"result {n}"} for n in range(9)])
    held, watch = LiveTurns(), watch_of(DEFAULT, 10)
    asked = []
    again = turns[:1].with_columns(
        pl.col("start_ns", "end_ns") + 60 * NS_PER_S, span_id=pl.lit("x")
    )
    for turn in turns.vstack(again.select(turns.columns)).rows():
        ((_, _, _, begin, _, _),) = watch.take([turn], ["t1"], [held], [], [0])
        assert begin is not None
        rules, _ = held.look(begin, watch)
        asked.append([DEFAULT.forms()[rule].name for rule in rules])

    assert asked[:-1] == [[]] * turns.height
    assert "repeated_call" in asked[-1]


@pytest.mark.parametrize("seed", seeds(4))
def test_phases_of_a_long_task_agree(seed: int) -> None:
    """Visits are counted on when the turns of the earlier ones are long gone."""
    chance = random.Random(seed)
    blank = {"agent": "a", "kind": "tool", "failed": False, "text": "", "step": None, "took_ns": 0}
    steps = [
        blank
        | {"task": chance.choice(["t1", "t2"]), "name": "run", "arguments": str(n), "result": "1"}
        | {"phase": chance.choice(["fix", "test", None]), "gap_ns": 9 * NS_PER_S}
        for n in range(300)
    ]
    steps[120] |= {"kind": "user", "phase": None}
    turns = table(steps)
    found = batch(turns, [PhaseVisits(), TransitionRepeats()])

    assert found == arrived(turns, seed, ruleset([PhaseVisits(), TransitionRepeats()]))
    assert max(finding.attempts for finding in found) > PhaseVisits().max_visits


@pytest.mark.parametrize("seed", seeds(6))
def test_monologues_agree(seed: int) -> None:
    """Talk is cut by calls of its own agent, and by nothing else, in either driver."""
    chance = random.Random(seed)
    blank = {"name": "run", "result": "1", "failed": False, "step": None, "took_ns": 0}
    said = {"arguments": "Go on.", "text": "Again.", "talks_on": "Again."}
    kinds = ["model"] * 9 + ["tool"]
    steps = [
        blank
        | said
        | {"task": "t1", "agent": chance.choice("aab"), "kind": chance.choice(kinds)}
        | {"gap_ns": chance.randint(0, 40) * NS_PER_S}
        for _ in range(150)
    ]
    turns, rules = table(steps), [Monologue(attempts_min=3)]
    found = batch(turns, rules)

    assert found == arrived(turns, seed, ruleset(rules))
    assert max(finding.attempts for finding in found) > Monologue(attempts_min=3).lookback


def looping_steps(seed: int, longest: int = 30) -> list[dict[str, Any]]:
    """Make a run of random work with many loops, the longest far longer than any look back."""
    chance = random.Random(seed)
    steps: list[dict[str, Any]] = []
    blank = {"agent": "a", "kind": "tool", "failed": False, "text": "", "step": None}
    for _ in range(8):
        period, times = chance.randint(1, 8), chance.choice([1, 2, 3, longest])
        task = chance.choice(["t1", "t2"])
        names = [f"tool{chance.randint(1, 3)}" for _ in range(period)]
        for name in names * times:
            timing = {"gap_ns": chance.randint(1, 20 * NS_PER_S), "took_ns": 0}
            said = {"task": task, "name": name, "arguments": "x", "result": "same"}
            steps.append(blank | timing | said)
    return steps


@pytest.mark.parametrize("seed", seeds(6))
def test_long_loops_agree(seed: int) -> None:
    """A loop that outgrows what the live engine keeps is counted on, not begun anew."""
    kept = max(rule.lookback for rule in default_rules())
    turns = table(looping_steps(seed, longest=kept + 1))
    found = batch(turns)

    assert found == arrived(turns, seed)
    assert max(finding.attempts for finding in found) > kept


@pytest.mark.parametrize("seed", seeds(6))
def test_loops_that_settle_in_parts_agree(seed: int) -> None:
    """Loops that persons end are the same after each tick of some turns, and a late one."""
    rng = random.Random(seed)
    spoken = {"kind": "user", "name": None, "text": "Go on."}
    steps = [
        {**each, "gap_ns": rng.randint(5, 8) * NS_PER_S} | (spoken if rng.random() < 0.04 else {})
        for each in looping_steps(seed)
    ]
    turns = table(steps).sort("end_ns", maintain_order=True)
    engine, begin = LiveEngine(), 0
    while begin < turns.height:
        end = begin + rng.randint(1, 7)
        tick = turns[begin:end]
        if rng.random() < 0.2:  # Its first turn comes last.
            engine.feed(tick[1:])
            tick = tick[:1]
        with resting(at_once=rng.random() < 0.5):
            engine.feed(tick)
        assert engine.findings() == batch(turns[:end].sort("task", "turn", maintain_order=True))
        begin = end
    assert engine.late == 0


def polling_steps(seed: int) -> list[dict[str, Any]]:
    """Let two agents look at a few jobs in turn, for hours, and seldom do anything else."""
    chance = random.Random(seed)
    blank = {"kind": "tool", "failed": False, "text": "", "step": None, "took_ns": 0}
    steps: list[dict[str, Any]] = []
    for agent in chance.choices("ab", k=30):
        jobs = chance.sample("1234", chance.randint(1, 4))
        work = chance.choice([None, None, "edit", "wait"])
        gap_s = chance.choice([20, 300, 700])
        for name, job in [("job_status", job) for job in jobs * chance.randint(1, 12)]:
            said = {"task": "t1", "agent": agent, "name": name, "arguments": job}
            result = chance.choice(["pending"] * 60 + ["done"])
            steps.append(blank | said | {"result": result, "gap_ns": gap_s * NS_PER_S})
        if work:
            done = {"task": "t1", "agent": agent, "name": work, "arguments": "40", "result": "ok"}
            steps.append(blank | done | {"gap_ns": NS_PER_S})
    return steps


@pytest.mark.parametrize("seed", seeds(8))
def test_polls_agree(seed: int) -> None:
    """What is looked at in turn is known again, and is waited for equally long."""
    turns = table(polling_steps(seed))
    found = batch(turns)

    assert found == arrived(turns, seed)
    assert any(finding.rule == "waits_too_long" for finding in found)


@dataclass(frozen=True, slots=True)
class ShortBuffer(Cycle):
    """A planted fault: it claims to look back on fewer turns than it does."""

    @property
    def lookback(self) -> int:
        """One turn less than the cycle needs."""
        return self.rounds_min * self.period_max - 1


@dataclass(frozen=True, slots=True)
class LooksAhead(RepeatedCall):
    """A planted fault: a turn's verdict depends on the turn after it."""

    def evaluate(self, lane: Lane) -> Evaluation:
        """Let a turn count what the next one will."""
        fair = RepeatedCall.evaluate(self, lane)
        again = in_a_row(lane, pair(lane.call, lane.outcome))
        ahead = np.where(lane.following > 0, np.roll(again, -1), again)
        return Evaluation(np.minimum(fair.reached, ahead), fair.needed, *fair_rest(fair))


def fair_rest(verdict: Evaluation) -> tuple[Any, Any, Any]:
    """Return what the planted fault leaves as it is."""
    return verdict.period, verdict.length, verdict.what


def disagreements(*rules: Any, fails: bool = True) -> int:
    """Count the runs in which the drivers differ, one turn at a time and nothing late."""
    count = 0
    for seed in range(3):
        # Between any two turns of a lane the task goes on elsewhere, and lets the first settle. A
        # call that fails is no poll.
        apart = {"gap_ns": 2 * HORIZON_S * NS_PER_S}
        steps = [
            one | apart | {"agent": agent} | _failing(one, fails=fails)
            for one in looping_steps(seed, longest=4)
            for agent in ("a", f"other {seed}")
        ]
        turns = table(steps)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(live_task, "SETTLED_AT_ONCE", 1)  # Each turn settles as soon as it can.
            engine = LiveEngine(DetectionPolicy(ruleset(rules)))
            for row in range(turns.height):
                engine.feed(turns[row])
        count += engine.findings() != batch(turns, rules)
    return count


def _failing(one: dict[str, Any], *, fails: bool) -> dict[str, Any]:
    """Return what makes the call of a step fail."""
    return {"failed": True} if fails and one["kind"] == "tool" else {}


def test_nothing_is_planted_in_the_rules() -> None:
    """The runs that expose the planted faults show none in the rules as they are."""
    assert disagreements(*default_rules()) == 0


@pytest.mark.parametrize("rule", [ShortBuffer(rounds_min=2, period_max=8), LooksAhead()])
def test_planted_faults_are_caught(rule: Any) -> None:
    """A buffer too short by one and a look ahead by one make the drivers disagree."""
    assert disagreements(rule) > 0


def test_a_turn_that_comes_too_late_is_counted() -> None:
    """What arrives after the horizon cannot be sorted in, and is not lost silently."""
    base = {"agent": "a", "kind": "tool", "failed": False, "text": "", "step": None, "took_ns": 0}
    call = base | {"task": "t1", "name": "run", "arguments": "x", "result": "1"}
    turns = table([call | {"gap_ns": gap} for gap in (0, 2 * HORIZON_S * NS_PER_S)])
    engine = LiveEngine()
    engine.feed(turns[1])
    engine.feed(turns[0])

    assert engine.late == 1


def test_what_is_kept_does_not_grow() -> None:
    """A task of thousands of turns costs no more memory than a short one."""
    chance = random.Random(3)
    steps = [one | {"phase": chance.choice(["fix", "test"])} for one in looping_steps(3)]
    for asked in range(0, len(steps), 25):
        steps[asked] = steps[asked] | {"kind": "user", "phase": None}
    turns = table([one | {"gap_ns": 9 * NS_PER_S} for one in steps] * 4)
    engine, kept = LiveEngine(), []
    for start in range(0, turns.height, 40):
        engine.feed(turns[start : start + 40])
        kept.append(engine.kept)

    assert max(kept[len(kept) // 2 :]) <= 2 * max(kept[:6])


def test_feed_reports_what_changed() -> None:
    """A finding is reported when it opens and when it grows, under one id."""
    base = {"agent": "a", "kind": "tool", "failed": False, "text": "", "step": None, "took_ns": 0}
    call = base | {"task": "t1", "name": "run", "arguments": "x", "result": "1"}
    turns = table([call | {"gap_ns": NS_PER_S}] * 5)
    engine = LiveEngine(DetectionPolicy(ruleset([RepeatedCall()])))
    reports = [engine.feed(turns[row]).findings for row in range(5)]

    assert [[f.attempts for f in report] for report in reports] == [[], [], [3], [4], [5]]
    assert len({f.id for report in reports for f in report}) == 1


def test_a_slow_call_of_a_parallel_step_keeps_its_place() -> None:
    """The first of a step may be settled and gone when the others end, minutes later."""
    base = {"agent": "a", "kind": "tool", "failed": True, "text": "", "took_ns": 0, "task": "t1"}
    ends = {"p": (0, "s1"), "m": (100, "s1"), "z": (110, None), "a": (130, "s1"), "q": (900, None)}
    before, steps = 0, []
    for name, (end, step) in ends.items():
        call = base | {"name": name, "arguments": "x", "result": "boom", "step": step}
        steps.append(call | {"gap_ns": (end - before) * NS_PER_S})
        before = end
    turns = table(steps * 3)

    engine = LiveEngine()
    for row in turns["end_ns"].arg_sort().to_list():
        engine.feed(turns[row])
    assert engine.findings() == batch(turns)
    assert "cycle" in [finding.rule for finding in batch(turns)]


def test_a_step_is_settled_as_a_whole() -> None:
    """Where something happened at its first call, the rest of it is not left as other calls."""
    base = {"agent": "a", "kind": "tool", "failed": False, "text": "", "took_ns": 0, "task": "t1"}
    work = [("run", 1, None)] * 3 + [(f"look{number}", 1, None) for number in range(4)]
    parallel = [("read", 400, "s1"), ("read", 1, "s1"), ("read", 1, "s1")]
    turns = table(
        [
            base
            | {"name": name, "arguments": "x", "result": "ok", "step": step}
            | {"gap_ns": gap_s * NS_PER_S}
            for name, gap_s, step in [*work, *parallel, ("end", 400, None), ("end", 400, None)]
        ]
    )
    policy = DetectionPolicy(RuleSet(counting=Counting(idle_s=60)))
    engine = LiveEngine(policy)
    told = [event for part in (turns[:11], turns[11:]) for event in engine.feed(part).events]
    assert told == list(detect(turns, policy).events)


def test_a_message_and_its_response_are_two_turns() -> None:
    """They come from one span, and neither is the other sent twice."""
    base = {"task": "t1", "agent": "a", "name": "m", "arguments": "x", "text": "Again."}
    rest = {"failed": None, "result": None, "step": None, "took_ns": 0, "gap_ns": NS_PER_S}
    kinds = ["user", "model", "model", "model"]
    turns = table([base | rest | {"kind": kind} for kind in kinds])
    shared = pl.when(pl.col("turn") <= 1).then(pl.lit("s")).otherwise("span_id")
    turns = turns.with_columns(span_id=shared)
    engine = LiveEngine()
    engine.feed(turns)

    assert engine.kept == turns.height
    assert engine.findings() == batch(turns)


def test_a_late_turn_has_only_the_last_turns_evaluated_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session of many agents at once, whose turns come a few seconds late."""
    base = {"task": "t1", "agent": "a", "kind": "tool", "failed": False, "text": "", "step": None}
    call = base | {"arguments": "x", "result": "1", "took_ns": 0, "gap_ns": NS_PER_S // 10}
    turns = table([call | {"name": f"tool {number % 7}"} for number in range(1_000)])
    chance = random.Random(1)
    late = [5 * NS_PER_S * chance.random() for _ in range(turns.height)]
    order = np.argsort(turns["end_ns"].to_numpy() + np.array(late))
    evaluated: list[int] = []
    go_back = LiveTask.go_back

    def noted(self: LiveTask, begin: int, before: int) -> tuple[int, Standing]:
        since = go_back(self, begin, before)
        evaluated.append(self.waiting - since[0])
        return since

    monkeypatch.setattr(LiveTask, "go_back", noted)
    engine = LiveEngine()
    for begin in range(0, turns.height, 5):
        engine.feed(turns[order[begin : begin + 5]])
    assert sum(evaluated) < 15 * turns.height  # All that may still move would be 100 a turn.
    assert engine.findings() == batch(turns)


def test_a_task_of_very_many_turns_at_once_is_settled_sooner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session that all agents of a fleet share takes no more time than others."""
    monkeypatch.setattr(live_task, "WAITING_MAX", 50)
    base = {"task": "t1", "agent": "a", "kind": "tool", "failed": False, "text": "", "step": None}
    call = base | {"name": "run", "arguments": "x", "result": "1", "took_ns": 0}
    turns = table([call | {"gap_ns": NS_PER_S // 10}] * 600)
    engine, kept = LiveEngine(), []
    for begin in range(0, turns.height, 5):
        engine.feed(turns[begin : begin + 5])
        held = engine._tasks["t1"].turns
        kept.append(len(held) - held.settled)
    assert max(kept) < 100
    assert engine.findings() == batch(turns)
    engine.feed(turns[-30:-29].with_columns(span_id=pl.lit("late")))
    assert engine.late == 0
    engine.feed(turns[-90:-89].with_columns(span_id=pl.lit("later")))
    assert engine.late == 1


def test_a_turn_that_goes_when_others_are_settled_does_not_count() -> None:
    """The span that settles the turns of two minutes ago may show that one of them was none."""
    base = {"task": "t1", "agent": "a", "kind": "tool", "failed": False, "text": "", "step": None}
    call = base | {"name": "run", "arguments": "x", "result": "1", "took_ns": 0}
    gaps = [NS_PER_S] * 40 + [HORIZON_S * NS_PER_S]
    turns = table([call | {"gap_ns": gap} for gap in gaps])
    engine = LiveEngine()
    for begin in range(turns.height - 1):
        engine.feed(turns[begin : begin + 1])
    wrong = turns.row(20)
    gone = tuple(wrong[AT[name]] for name in TURN_KEY)
    engine.take(turns[-1:].rows(), [("t1", gone)])
    left = turns.filter(pl.col("span_id") != wrong[AT["span_id"]])
    assert engine.findings() == batch(numbered(left))


def test_quiet_tasks_rest_and_go_on() -> None:
    """A task that nothing was heard of for a minute rests, and its loop goes on later."""
    base = {"agent": "a", "kind": "tool", "failed": True, "text": "", "step": None, "took_ns": 0}
    call = base | {"name": "run", "arguments": "x", "result": "boom", "gap_ns": NS_PER_S}
    steps = [call | {"task": "quiet"}] * 4 + [call | {"task": "busy", "name": "look"}] * 120
    turns = table([*steps, call | {"task": "quiet"}]).sort("end_ns", maintain_order=True)
    engine = LiveEngine(DetectionPolicy(ruleset([RepeatedCall()])))
    awake = []
    for start in range(turns.height):
        engine.feed(turns[start : start + 1])
        awake.append([*engine._awake])
    first = awake.index(["busy"])
    assert first == 3 + QUIET_ROUNDS
    assert awake[first:] == [["busy"]] * (turns.height - first - 1) + [["busy", "quiet"]]
    assert engine.findings() == batch(
        turns.sort("task", "turn", maintain_order=True), [RepeatedCall()]
    )
    assert [finding.attempts for finding in engine.findings() if finding.task == "quiet"] == [5]
