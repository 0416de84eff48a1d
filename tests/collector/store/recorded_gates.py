"""Gates of turns in the notation, and what must hold of a gate store at any moment."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from looptrace.analyzer.engine.batch import Detection, detect
from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.gates.resolutions import resolution_turns
from looptrace.analyzer.gates.state_machine import TaskState
from looptrace.analyzer.schema.turns import numbered
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.analyzer.testing.notation import tasks_in
from looptrace.collector.store.gates import GateStore
from looptrace.rules.vocabulary import NS_PER_S

TABLES = {
    "tasks": "SELECT * FROM tasks ORDER BY 1",
    "gates": "SELECT * FROM gates ORDER BY 1",
    "pivots": "SELECT * FROM pivots ORDER BY 1",
    "outbox": "SELECT * FROM outbox ORDER BY 1",
    "endpoints": "SELECT * FROM endpoints ORDER BY 1",
    "resolutions": "SELECT * FROM resolutions ORDER BY 1",
    "events": "SELECT id, type, task, body FROM events ORDER BY seq",
}


SAME_RESPONSE = 'say("No way.", given=error)'


CALL = "run(a)->same"


NOW_NS = 1_000 * NS_PER_S


HOOKS = (
    Webhook("first", "https://a.example/", "slack"),
    Webhook("second", "https://b.example/", "slack"),
)


def turns_of(text: str, task: str = "t") -> pl.DataFrame:
    """Return turns in the notation to a task."""
    return tasks_in({task: text})


def recorded(gates: GateStore, text: str, task: str = "t", now_ns: int = NOW_NS) -> Detection:
    """Judge turns in the notation and what was decided on them, and record it."""
    turns = turns_of(text, task)
    turns = numbered(pl.concat([turns, resolution_turns(gates.resolutions(), NOTHING)]))
    judged = detect(turns)
    gates.record(judged.events, judged.states or [TaskState(task)], now_ns, judged.openings)
    return judged


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Read all that a gate store holds; the events in the order of recording."""
    with closing(sqlite3.connect(path)) as sql:
        return {name: sql.execute(query).fetchall() for name, query in TABLES.items()}


def assert_sound(path: Path, hooks: int = 0) -> None:
    """Assert what must hold at any moment, whatever was killed and however many webhooks are."""
    found = content(path)
    ids = Counter(event for event, *_ in found["events"])
    assert max(ids.values(), default=1) == 1
    outbox = Counter(event for event, *_ in found["outbox"])
    assert outbox == Counter({event: hooks for event in ids if hooks})
    pivots = {event for event, *_ in found["pivots"]}
    assert pivots == {event for event, kind, *_ in found["events"] if kind == "pivot_issued"}
    since: Counter[str] = Counter()
    opened, resolved = set[str](), set[str]()
    for _, kind, task, body in found["events"]:
        if kind == "counter_reset":
            since[task] = 0
        since[task] += kind == "pivot_issued"
        gate = msgspec.json.decode(body)["gate"]
        (opened if kind == "gate_opened" else resolved if gate else set()).add(gate)
    stand = {task: msgspec.json.decode(state) for task, _, _, _, state, _ in found["tasks"]}
    assert {task: state["pivots"] for task, state in stand.items()} == {t: since[t] for t in stand}
    status = {gate: status for gate, *_, status, _, _, _, _, _ in found["gates"]}
    assert set(status) == opened
    assert {gate for gate in status if status[gate] == "resolved"} == resolved
    open_gates = {state["gate"]["id"] for state in stand.values() if state["gate"]}
    assert {gate for gate in status if status[gate] == "open"} == open_gates
