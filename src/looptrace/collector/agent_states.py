"""The agents of the open gates of a store.

An agent's process says where it waits and when it ends; the rest is read from the turns and the
root span after the opening.
"""

from __future__ import annotations

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
from looptrace.collector.store import reader
from looptrace.collector.store.gates import StoredGate


def agent_states(store_dir: Path, heard: Heard = NOTHING_HEARD) -> dict[str, AgentState]:
    """Return the state of the agent of each open gate.

    Raises:
        StoreError: if a file of the store cannot be read.
    """
    with reader.open_gates(store_dir) as gates:
        openings = gates.openings()
        keys = {gate: keys_of(event, gates.names_of(event.task)) for gate, event in openings}
    if not openings:
        return {}
    # Turns may not have a late name of their task yet.
    of_traces = pl.col("trace_id").is_in(list({event.trace_id for _, event in openings}))
    of_tasks = of_traces | pl.col("task").is_in(list({event.task for _, event in openings}))
    columns = ["task", "trace_id", "agent", "start_ns"]
    # Files of the time before the openings are left out by their statistics.
    since_ns = min(event.at_ns for _, event in openings)
    is_call = (pl.col("kind") == "tool") & (pl.col("start_ns") > since_ns)
    turns = reader.read_rows(store_dir, "turns", of_tasks & is_call, columns)
    is_root = of_traces & pl.col("parent_span_id").is_null() & (pl.col("end_ns") > since_ns)
    roots = reader.read_rows(store_dir, "spans", is_root, ["trace_id", "span_id", "end_ns"])
    return {gate: _state(event, keys[gate], heard, turns, roots) for gate, event in openings}


def with_agents(
    store_dir: Path, gates: Sequence[StoredGate], heard: Heard = NOTHING_HEARD
) -> list[StoredGate]:
    """Return gates, the open ones with the state of their agents.

    Raises:
        StoreError: if a file of the store cannot be read.
    """
    if all(gate.status != "open" for gate in gates):
        return list(gates)
    states = agent_states(store_dir, heard)
    return [replace(gate, agent_state=states.get(gate.id)) for gate in gates]


def _state(
    event: GateEvent, keys: set[AgentKey], heard: Heard, turns: pl.DataFrame, roots: pl.DataFrame
) -> AgentState:
    is_own = (pl.col("task") == event.task) | (pl.col("trace_id") == event.trace_id)
    later = turns.filter(is_own, pl.col("start_ns") > event.at_ns)
    if event.agent:
        later = later.filter(pl.col("agent").is_in([event.agent, ""]))
    last_ns = max(later["start_ns"].to_list(), default=0)
    waits = [heard.waits[key] for key in keys & heard.waits.keys()]
    if waits:
        first = min(waits, key=lambda wait: wait.since_ns)
        return AgentState("waits", first.since_ns, first.host, later.height)
    # A call may be a trace of its own, whose root is the call.
    own = roots.filter(pl.col("end_ns") > event.at_ns, trace_id=event.trace_id)
    ends = own.filter(pl.col("span_id") != event.span_id)["end_ns"].to_list()
    ends += [heard.ended_ns[key] for key in keys & heard.ended_ns.keys()]
    ended_ns = max(ends, default=0)
    if ended_ns > last_ns:
        return AgentState("ended", ended_ns, None, later.height)
    if last_ns:
        return AgentState("went_on", last_ns, None, later.height)
    return AgentState()
