"""The agents of the open gates of a store.

An agent's process says where it waits and when it ends; the rest is read from the turns and the
root span after the opening.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from looptrace.analyzer.gates.agent_states import (
    NOTHING_HEARD,
    AgentKey,
    AgentState,
    Heard,
    keys_of,
)
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.collector.store import reader
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.collector.store.tables.file_contents import Having


def agent_states(store_dir: Path, heard: Heard = NOTHING_HEARD) -> dict[str, AgentState]:
    """Return the state of the agent of each open gate."""
    with reader.open_gates(store_dir) as gates:
        openings = gates.openings()
        keys = {gate: keys_of(event, gates.names_of(event.task)) for gate, event in openings}
    if not openings:
        return {}
    # Turns may not have a late name of their task yet.
    of_traces = Having("trace_id", pl.Series([*{event.trace_id for _, event in openings}]))
    of_tasks = Having("task", pl.Series([*{event.task for _, event in openings}]))
    columns = ["task", "trace_id", "span_id", "kind", "agent", "start_ns"]
    since_ns = min(event.at_ns for _, event in openings)
    is_later = (of_traces.expr | of_tasks.expr) & (pl.col("start_ns") > since_ns)
    turns = reader.read_rows(store_dir, "turns", is_later, columns, [of_traces, of_tasks])
    is_root = of_traces.expr & pl.col("parent_span_id").is_null() & (pl.col("end_ns") > since_ns)
    ends = ["trace_id", "span_id", "end_ns"]
    roots = reader.read_rows(store_dir, "spans", is_root, ends, [of_traces])
    # Each turn may be without a parent; its end says nothing.
    roots = roots.join(turns.filter(IS_STEP), on=["trace_id", "span_id"], how="anti")
    later = _Later(turns.filter(kind="tool"), roots)
    return {gate: _state(event, keys[gate], heard, later) for gate, event in openings}


def with_agents(
    store_dir: Path, gates: Sequence[StoredGate], heard: Heard = NOTHING_HEARD
) -> list[StoredGate]:
    """Return gates, the open ones with the state of their agents."""
    if all(gate.status != "open" for gate in gates):
        return list(gates)
    states = agent_states(store_dir, heard)
    return [replace(gate, agent_state=states.get(gate.id)) for gate in gates]


def left_tasks(gates: Sequence[StoredGate]) -> set[str]:
    """Return the tasks whose open gates (from `with_agents`) nobody stands at: the agents ended."""
    ended: dict[str, list[bool]] = defaultdict(list)
    for gate in gates:
        if gate.status == "open":
            ended[gate.task].append(gate.agent_state is not None and gate.agent_state.has_ended)
    return {task for task, each in ended.items() if all(each)}


class _Later:
    """The calls and the ends of traces since the first opening, by task and trace.

    A store may have thousands of open gates, so tables are gone through once and not for each.
    """

    def __init__(self, turns: pl.DataFrame, roots: pl.DataFrame) -> None:
        self.calls = list(turns.select("agent", "start_ns").iter_rows())
        self.places: dict[tuple[str, str], set[int]] = defaultdict(set)
        for name in ("task", "trace_id"):
            for place, value in enumerate(turns[name].to_list()):
                self.places[name, value].add(place)
        self.ends: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for trace_id, span_id, end_ns in roots.iter_rows():
            self.ends[trace_id].append((span_id, end_ns))

    def starts_ns(self, event: GateEvent) -> list[int]:
        """Return when the calls of the gate's task or trace began, after its opening."""
        places = {
            *self.places.get(("task", event.task), ()),
            *self.places.get(("trace_id", event.trace_id), ()),
        }
        calls = (self.calls[place] for place in places)
        agents = (event.agent, "")
        return [
            start_ns
            for agent, start_ns in calls
            if start_ns > event.at_ns and (not event.agent or agent in agents)
        ]

    def ends_ns(self, event: GateEvent) -> list[int]:
        """Return when roots of the gate's trace ended, after its opening."""
        # The gate's own call may have no parent either, and began before the gate opened.
        ends = self.ends.get(event.trace_id, ())
        return [end for span, end in ends if end > event.at_ns and span != event.span_id]


def _state(event: GateEvent, keys: set[AgentKey], heard: Heard, later: _Later) -> AgentState:
    starts_ns = later.starts_ns(event)
    last_ns = max(starts_ns, default=0)
    waits = [heard.waits[key] for key in keys & heard.waits.keys()]
    if waits:
        first = min(waits, key=lambda wait: wait.since_ns)
        return AgentState("waits", first.since_ns, first.host, len(starts_ns))
    ends_ns = later.ends_ns(event)
    ends_ns += [heard.ended_ns[key] for key in keys & heard.ended_ns.keys()]
    ended_ns = max(ends_ns, default=0)
    if ended_ns > last_ns:
        return AgentState("ended", ended_ns, None, len(starts_ns))
    if last_ns:
        return AgentState("went_on", last_ns, None, len(starts_ns))
    return AgentState()
