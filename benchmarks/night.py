"""A night of a fleet, simulated: pages, waits and defaults, with and without incidents.

    python -m benchmarks.night

500 agents begin at random moments between 22:00 and 06:00. Most go well. Three groups meet one
failure each, and loop in it until they are stopped. In an outage at 02:00 whoever calls its service
loops there; no rule gates what an agent cannot help. One person is on call: of five messages two
are answered, ten minutes later. The endpoint of the messages fails one time in ten. Turns, rules,
gates, outbox and waits are looptrace's own; only the clock, the agents and the person are made up.
"""

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from looptrace.analyzer.engine.batch import Detection, detect
from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.waiting import Waiting
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.analyzer.testing.notation import tasks_in
from looptrace.collector.store.gate_file.attempts import Tried
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.outbox import Delivery, Outbox
from looptrace.collector.store.sqlite_file import connect
from looptrace.collector.store.unanswered import attend
from looptrace.rules.vocabulary import NS_PER_S

SEED, AGENTS, MINUTES = 7, 500, 600
LAST_START = 480
OUTAGE = range(240, 300)
ANSWERED, ANSWER_AFTER, FAILS = 0.4, 10, 0.1
MINUTE_NS = 60 * NS_PER_S
BEGIN_NS = 1_772_488_800 * NS_PER_S  # 2026-03-02, 22:00 UTC
ENDPOINT = "on-call"

WELL = 'say("plan") look({n})->found x4 edit(a)->ok say("done")'
# What each group's agents meet, and how many of them do, by chance.
FAILURES = {
    "tests": ('(say("try {n}") run(tests)->!"expected 42, got 41") x5', 0.08),
    "report": ('(say("go {n}") parse(report)->!"KeyError: total") x5', 0.05),
    "search": ("search(heat pumps)->none x6", 0.04),
}
DOWN = '(say("ask {n}") fetch(orders)->!"connection refused") x8'


@dataclass(frozen=True, slots=True)
class Setup:
    """How the night is handled."""

    name: str
    webhook: Webhook
    waiting: tuple[Waiting, ...] = ()
    by_incident: bool = False


@dataclass(slots=True)
class Night:
    """What came of a night."""

    messages: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    gates: int = 0
    answered: int = 0
    defaults: int = 0
    waits_min: list[int] = field(default_factory=list)
    open_at_end: int = 0


def setups() -> Iterator[Setup]:
    """Yield the ways to handle a night: each gate by itself, and as incidents with an end."""
    hook = Webhook(name=ENDPOINT, url="https://example.com/", secrets=("env:SECRET",))
    yield Setup("each gate pages, and waits for ever", hook)
    waiting = Waiting(remind_minutes=30, decide_minutes=120, default="cancel")
    yield Setup(
        "incidents, a reminder after 30 min, cancelled after 120",
        replace(hook, group_by="incident", repeat_minutes=60),
        (waiting,),
        by_incident=True,
    )


def agents() -> dict[int, list[str]]:
    """Return the texts of the tasks that begin, by the minute of the night."""
    chance, begun = random.Random(SEED), dict[int, list[str]]()
    for _ in range(AGENTS):
        minute, lot = chance.randrange(LAST_START), chance.random()
        text = DOWN if minute in OUTAGE and lot < 0.5 else WELL
        for failing, share in FAILURES.values():
            if text == WELL and lot < share:
                text = failing
            lot -= share
        begun.setdefault(minute, []).append(text)
    return begun


def night(setup: Setup, folder: Path) -> Night:
    """Let a night pass in a folder."""
    seen, chance = Night(), random.Random(SEED)
    answers: list[tuple[int, str, str]] = []  # minute, gate, incident
    opened: dict[str, int] = {}
    with ExitStack() as stack:
        gates = stack.enter_context(GateStore.open(folder / "gates.db", [setup.webhook]))
        outbox = stack.enter_context(Outbox(gates.path, connect(gates.path, Outbox.schema)))
        for minute, texts in _minutes():
            now_ns = BEGIN_NS + minute * MINUTE_NS
            found = _looked_at(texts, minute, now_ns)
            for event in gates.record(found.events, found.states, now_ns, found.openings):
                if event.type == "gate_opened":
                    opened[event.gate] = minute
            attend(gates, setup.waiting, now_ns)
            for sent in _sent(outbox, setup, now_ns, chance, seen):
                if not isinstance(sent.event, GateEvent):
                    raise TypeError(sent.event)  # Nobody disables the endpoint.
                seen.messages[sent.event.type] += 1
                if sent.event.type != "gate_resolved" and chance.random() < ANSWERED:
                    incident = sent.group.incident if sent.group else ""
                    answers.append((minute + ANSWER_AFTER, sent.event.gate, incident))
            for _, gate, incident in [each for each in answers if each[0] == minute]:
                with suppress(GateError):  # It has an answer already.
                    _answer(gates, setup, gate, incident, now_ns)
        _count(gates, opened, seen)
    return seen


def _minutes() -> Iterator[tuple[int, Sequence[str]]]:
    begun = agents()
    return ((minute, begun.get(minute, ())) for minute in range(MINUTES))


def _looked_at(texts: Sequence[str], minute: int, now_ns: int) -> Detection:
    """Return what rules and gates say of the tasks of a minute."""
    turns = tasks_in({f"task-{minute}-{number}": text for number, text in enumerate(texts)})
    if turns.height:
        times = pl.col("start_ns", "end_ns")
        turns = turns.with_columns(times + now_ns - pl.col("start_ns").min())
    return detect(turns)


def _sent(
    outbox: Outbox, setup: Setup, now_ns: int, chance: random.Random, seen: Night
) -> Iterator[Delivery]:
    """Yield the messages that an endpoint gets now."""
    while (due := outbox.next(ENDPOINT)) and due.next_try_ns <= now_ns:
        made: Delivery | None = due
        if setup.by_incident:
            made = outbox.grouped(due, setup.webhook.repeat_minutes * MINUTE_NS, now_ns)
        if made is None:
            continue
        if chance.random() < FAILS:
            seen.failed += 1
            again_ns = now_ns + MINUTE_NS
            outbox.failed(made, Tried(now_ns, 503, error="503"), next_try_ns=again_ns)
            continue
        outbox.delivered(made, Tried(now_ns))
        yield made


def _answer(gates: GateStore, setup: Setup, gate: str, incident: str, now_ns: int) -> None:
    """Decide as the person does: on a gate, or on all gates of its incident."""
    ids = [gate]
    if setup.by_incident:
        ids = [each.id for each in gates.incident(incident, now_ns).gates if not each.decision]
    for each in ids:
        gates.resolve(each, "reviewed", "The cause is mended.", now_ns, "on call")


def _count(gates: GateStore, opened: dict[str, int], seen: Night) -> None:
    """Count what became of each gate; a task has one."""
    said = {each.task: (each.at_ns - BEGIN_NS) // MINUTE_NS for each in gates.resolutions()}
    for gate in gates.gates():
        seen.gates += 1
        seen.open_at_end += gate.task not in said
        seen.answered += gate.resolved_by == "on call"
        seen.defaults += gate.task in said and gate.resolved_by != "on call"
        seen.waits_min.append(said.get(gate.task, MINUTES) - opened[gate.id])


def main() -> None:
    """Print a row for each way."""
    rows = []
    for setup in setups():
        with tempfile.TemporaryDirectory() as name:
            it = night(setup, Path(name))
        waits = sorted(it.waits_min)
        rows.append(
            f"| {setup.name} | {it.gates} | {it.messages['gate_opened']} "
            f"| {it.messages['gate_unanswered']} | {it.answered} | {it.defaults} "
            f"| {it.open_at_end} | {sum(waits) / 60:.0f} h | {waits[-1]} min |"
        )
    heads = ("", "gates", "pages", "reminders", "answered", "by default", "open at 8:00")
    head = f"| {' | '.join((*heads, 'waited, all', 'longest'))} |"
    sys.stdout.write("\n".join([head, "| --- |" + " --- |" * 8, *rows]) + "\n")


if __name__ == "__main__":
    main()
