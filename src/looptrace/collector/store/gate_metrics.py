"""How often tasks loop, how often gates stop them, and how often a gate was wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import polars as pl

from looptrace.collector.store.gates import GateStore
from looptrace.rules.vocabulary import NS_PER_S

CYCLES = ("cycle", "phase_cycle", "agent_cycle", "cross_task_cycle")

# The weight of each mean over several stores.
_MEANS = {
    "loop_detection_rate": "tasks",
    "loops_per_task": "tasks",
    "loops_before_gate": "gates_opened",
    "gate_rate": "tasks",
    "seconds_to_resolution": "gates_resolved",
    "false_positive_rate": "gates_resolved",
}

# Several events may report the same loop.
_TOLD = """
    SELECT DISTINCT task, agent, rule, finding FROM events
    WHERE type IN ('loop_detected', 'pivot_issued', 'gate_opened')
"""
_OPENED = "SELECT task, rule, loop_count, opened_ns, status, resolved_ns, decision FROM gates"
_LOOPS = pl.Schema({"task": pl.String, "agent": pl.String, "rule": pl.String, "id": pl.String})
_GATES = pl.Schema(
    {
        "task": pl.String,
        "rule": pl.String,
        "loop_count": pl.Int64,
        "opened_ns": pl.Int64,
        "status": pl.String,
        "resolved_ns": pl.Int64,
        "decision": pl.String,
    }
)

# A gate may open before the turns of its task are stored, and then only events name its service.
_STANDING = """
    SELECT task, status, pivot_count, loop_count, (
        SELECT json_extract(body, '$.service') FROM events
        WHERE events.task = tasks.task ORDER BY seq DESC LIMIT 1
    ) FROM tasks
"""
_STANDING_SCHEMA = pl.Schema(
    {
        "task": pl.String,
        "status": pl.String,
        "pivots": pl.Int64,
        "loop_count": pl.Int64,
        "told_service": pl.String,
    }
)


@dataclass(frozen=True, slots=True)
class AgentMetrics:
    """The loops of an agent; the loops of a whole task count for its only agent."""

    agent: str
    tasks: int
    looping_tasks: int
    loop_detection_rate: float
    loops: int


@dataclass(frozen=True, slots=True)
class GateMetrics:
    """The recorded events in numbers. A share or mean of nothing is None.

    A loop has at least one event. `loops_before_gate` is the mean loop count of gates, and
    `false_positive_rate` the share of resolved gates that a person resolved as `not_a_loop`.
    """

    tasks: int
    looping_tasks: int
    loop_detection_rate: float | None
    loops_per_task: float | None
    loops_before_gate: float | None
    gate_rate: float | None  # share of tasks with a gate
    seconds_to_resolution: float | None
    false_positive_rate: float | None
    gates_opened: int
    gates_open: int
    gates_resolved: int
    gates_withdrawn: int
    visits_blocked: int
    transitions_blocked: int
    cycles_detected: int
    agents: tuple[AgentMetrics, ...]  # the agents with the most loops come first


def standing_of(store: GateStore) -> pl.DataFrame:
    """Return status and service of each task with a state in a gate store."""
    return store.table(_STANDING, _STANDING_SCHEMA)


def opened_gates(store: GateStore) -> pl.DataFrame:
    """Return the task, times, loop count, status and decision of each gate."""
    return store.table(_OPENED, _GATES)


def metrics_of(store: GateStore, worked: pl.DataFrame, loop_ids: pl.DataFrame) -> GateMetrics:
    """Count the contents of a gate store.

    `worked` has the pairs of `task` and `agent`, and `loop_ids` the `loop` of each finding's `id`;
    a finding that is no longer stored is a loop by itself.
    """
    # A task that became a part of another is no longer counted.
    loops, gates = (
        table.join(worked, on="task", how="semi")
        for table in (store.table(_TOLD, _LOOPS), opened_gates(store))
    )
    loops = loops.join(loop_ids, on="id", how="left").with_columns(pl.coalesce("loop", "id"))
    tasks, resolved = worked["task"].n_unique(), gates.filter(status="resolved")
    return GateMetrics(
        tasks=tasks,
        looping_tasks=loops["task"].n_unique(),
        loop_detection_rate=_share(loops["task"].n_unique(), tasks),
        loops_per_task=_share(loops["loop"].n_unique(), tasks),
        loops_before_gate=mean(gates["loop_count"]),
        gate_rate=_share(gates["task"].n_unique(), tasks),
        seconds_to_resolution=mean((resolved["resolved_ns"] - resolved["opened_ns"]) / NS_PER_S),
        false_positive_rate=_share(resolved.filter(decision="not_a_loop").height, resolved.height),
        gates_opened=gates.height,
        gates_open=gates.filter(status="open").height,
        gates_resolved=resolved.height,
        gates_withdrawn=gates.filter(status="withdrawn").height,
        visits_blocked=gates.filter(rule="phase_visits").height,
        transitions_blocked=gates.filter(rule="transition_repeats").height,
        cycles_detected=loops.filter(pl.col("rule").is_in(CYCLES))["loop"].n_unique(),
        agents=_by_agent(loops, worked),
    )


def together(parts: Sequence[GateMetrics]) -> GateMetrics:
    """Return the figures of several stores with separate tasks."""

    def total(name: str) -> int:
        return sum(getattr(part, name) for part in parts)

    def mean(name: str, of: str) -> float | None:
        known = [part for part in parts if getattr(part, name) is not None]
        weights = [getattr(part, of) for part in known]
        weighted = zip((getattr(part, name) for part in known), weights, strict=True)
        return _share(sum(value * weight for value, weight in weighted), sum(weights))

    agents: dict[str, AgentMetrics] = {}
    for each in chain.from_iterable(part.agents for part in parts):
        before = agents.get(each.agent, AgentMetrics(each.agent, 0, 0, 0.0, 0))
        tasks, looping = before.tasks + each.tasks, before.looping_tasks + each.looping_tasks
        loops = before.loops + each.loops
        agents[each.agent] = AgentMetrics(each.agent, tasks, looping, looping / tasks, loops)
    most = sorted(agents.values(), key=lambda a: (-a.loops, -a.loop_detection_rate, a.agent))
    means: dict[str, Any] = {name: mean(name, of) for name, of in _MEANS.items()}
    totals = {
        f.name: total(f.name) for f in fields(GateMetrics) if f.name not in {*_MEANS, "agents"}
    }
    return GateMetrics(**totals, **means, agents=tuple(most))


def _by_agent(loops: pl.DataFrame, worked: pl.DataFrame) -> tuple[AgentMetrics, ...]:
    """Count by agent; a loop of a whole task with several agents counts for none of them."""
    alone = worked.filter(pl.len().over("task") == 1).rename({"agent": "only"})
    named = loops.join(alone, on="task", how="left").with_columns(
        agent=pl.when(pl.col("agent") == "").then("only").otherwise("agent")
    )
    counted = named.group_by("agent").agg(
        loops=pl.col("loop").n_unique().cast(pl.Int64), looping_tasks=pl.col("task").n_unique()
    )
    tasks = worked.group_by("agent").agg(tasks=pl.len())
    rows = tasks.join(counted, on="agent", how="left").with_columns(
        pl.col("loops", "looping_tasks").fill_null(0)
    )
    rows = rows.with_columns(loop_detection_rate=pl.col("looping_tasks") / pl.col("tasks"))
    rows = rows.sort("loops", "loop_detection_rate", "agent", descending=[True, True, False])
    names = ("agent", "tasks", "looping_tasks", "loop_detection_rate", "loops")
    return tuple(AgentMetrics(*row) for row in rows.select(names).iter_rows())


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def mean(values: pl.Series) -> float | None:
    """Return the mean of numbers; None of none."""
    return float(values.mean()) if len(values) else None  # type: ignore[arg-type]
