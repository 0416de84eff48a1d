"""Which agent called which, and the runs of each, from the parents of spans."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

FAMILY_COLUMNS = ["trace_id", "span_id", "parent_span_id", "name", "start_ns", "end_ns"]

_TURN_COLUMNS = ["trace_id", "span_id", "agent", "kind"]

SpanKey = tuple[str, str]  # ids of a trace and a span


@dataclass(frozen=True, slots=True)
class AgentRun:
    """A span that has turns of an agent below it: no turn itself, or the hand-off to the agent."""

    agent: str
    name: str
    start_ns: int
    end_ns: int
    caller: SpanKey | None  # the turn that made the run


@dataclass(frozen=True, slots=True)
class Family:
    """The parents of agents, and their runs."""

    parent_of: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[AgentRun, ...] = ()

    def depth(self, agent: str) -> int:
        """Return how many agents are above one."""
        seen = {agent}
        while (agent := self.parent_of.get(agent, "")) and agent not in seen:
            seen.add(agent)
        return len(seen) - 1

    def in_order(self, agents: list[str]) -> list[str]:
        """Return agents, each after its parent and else in the given order."""
        placed: list[str] = []

        def place(agent: str) -> None:
            if agent in placed:
                return
            placed.append(agent)
            for child in agents:
                if self.parent_of.get(child) == agent:
                    place(child)

        for agent in agents:
            if self.parent_of.get(agent) not in agents:
                place(agent)
        for agent in agents:  # What is left is in a circle.
            place(agent)
        return placed


def family_of(turns: pl.DataFrame, spans: pl.DataFrame) -> Family:
    """Return the family of the agents of turns; `spans` are those of their traces."""
    rows = {(row[0], row[1]): row[2:] for row in spans.select(FAMILY_COLUMNS).iter_rows()}
    agent_of: dict[SpanKey, str] = {}
    handed: set[SpanKey] = set()
    for trace_id, span_id, agent, kind in turns.select(_TURN_COLUMNS).iter_rows():
        agent_of.setdefault((trace_id, span_id), agent)
        if kind == "handoff":
            handed.add((trace_id, span_id))

    def above(key: SpanKey) -> Iterator[SpanKey]:
        seen = {key}
        while (row := rows.get(key)) and row[0] and (key := (key[0], row[0])) not in seen:
            seen.add(key)
            yield key

    def is_run(key: SpanKey) -> bool:
        return key in rows and (key not in agent_of or key in handed)

    owner: dict[SpanKey, str] = {}
    for key, agent in agent_of.items():
        if run := next(filter(is_run, above(key)), None):
            owner.setdefault(run, agent)
    parent_of: dict[str, str] = {}
    runs = []
    for key, agent in owner.items():
        above_it = [key, *above(key)]
        names = (agent_of.get(each) or owner.get(each, "") for each in above_it)
        if parent := next((name for name in names if name and name != agent), ""):
            parent_of.setdefault(agent, parent)
        caller = next((each for each in above_it if each in agent_of), None)
        _, name, start_ns, end_ns = rows[key]
        runs.append(AgentRun(agent, name, start_ns, end_ns, caller))
    runs.sort(key=lambda run: run.start_ns)
    return Family(parent_of, tuple(runs))
