"""A day of 10,000 agents and 1 M sessions over several servers, with skew and outages, from a seed.

The cost of a span is measured (docs/benchmarks.md); the simulation computes the load where agents
differ, people sleep at night, and servers fail. Servers share sessions by their real ring. Time
advances by minutes; the spans of a server that is down wait at the others, and reach it afterwards
beside new ones.
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.generate import SESSION_TURNS_MAX, SESSION_TURNS_MEDIAN, SESSION_TURNS_SIGMA
from looptrace.collector.server.shards.ring import POSITIONS, Ring, position_of

# The number of servers by the factor on the sessions below.
CASES = {1: (1, 3), 10: (2, 4, 6)}
SEED = 1

# Measured: all processor time of a server for a span; `make load`, 40.6 s for 120,000.
SERVE_US = 338
# Measured, for spans with short contents: finding the owner and forwarding, and accepting.
SEND_US, TAKE_US = 27, 14
# Measured: bytes of a span in the store, in the log and on the wire, with short contents.
STORED_BYTES, WIRE_BYTES = 287, 1_209

AGENTS, SESSIONS = 10_000, 1_000_000
# The busiest agent has some 160 times the sessions of one in the middle.
AGENT_SKEW = 0.6
# The busiest hour of a day has some two and a half times the sessions of the mean one.
DAY_SWING = 1.5
# From the start of a turn to that of the next; a session's turns are spread evenly.
TURN_S = 3.5
OUTAGES, OUTAGE_MINUTES = 4, (5, 30)
MINUTES, MINUTE_S = 1_440, 60

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Day:
    """The sessions of a day: agent, turns, first minute, and position on the circle of each."""

    agents: Ints
    turns: Ints
    minutes: Ints
    positions: Ints


@dataclass(frozen=True, slots=True)
class Result:
    """The load of some servers; times in minutes, busy cores as shares of one."""

    servers: int
    mean_busy: float
    peak_busy: float
    behind_max: float
    waiting_bytes_max: float


def day(seed: int) -> Day:
    """Draw a day."""
    rng = np.random.default_rng(seed)
    popularity = np.arange(1, AGENTS + 1) ** -AGENT_SKEW
    agents = rng.choice(AGENTS, SESSIONS, p=popularity / popularity.sum())
    turns = rng.lognormal(np.log(SESSION_TURNS_MEDIAN), SESSION_TURNS_SIGMA, SESSIONS)
    hours = np.arange(MINUTES) / MINUTE_S
    busy = np.maximum(0.05, 1 + DAY_SWING * np.sin((hours - 8) / 24 * 2 * np.pi))
    minutes = rng.choice(MINUTES, SESSIONS, p=busy / busy.sum())
    keys = rng.integers(0, 2**63, SESSIONS)
    positions = np.fromiter((position_of(f"{key:016x}") for key in keys.tolist()), np.int64)
    return Day(agents, np.clip(turns, 1, SESSION_TURNS_MAX).astype(np.int64), minutes, positions)


def arriving(of_day: Day, owners: Ints, servers: int) -> Floats:
    """Return the turns for each server in each minute; the end of the day joins its beginning."""
    lasts = np.maximum(1, np.ceil(of_day.turns * TURN_S / MINUTE_S)).astype(np.int64)
    rate = of_day.turns / lasts
    steps = np.zeros((servers, 2 * MINUTES))
    np.add.at(steps, (owners, of_day.minutes), rate)
    np.add.at(steps, (owners, np.minimum(of_day.minutes + lasts, 2 * MINUTES - 1)), -rate)
    turns = steps.cumsum(axis=1)
    return np.asarray(turns[:, :MINUTES] + turns[:, MINUTES:])


def outages(seed: int, servers: int) -> npt.NDArray[np.bool_]:
    """Draw the outages of each server."""
    rng = np.random.default_rng(seed)
    down = np.zeros((servers, MINUTES), dtype=np.bool_)
    for _ in range(OUTAGES):
        start = rng.integers(0, MINUTES)
        down[rng.integers(0, servers), start : start + rng.integers(*OUTAGE_MINUTES)] = True
    return down


def simulated(of_day: Day, servers: int, seed: int, *, times: int, forwarded: float) -> Result:
    """Simulate a day with a multiple of the sessions.

    `forwarded` is the share of spans that reach another server first.
    """
    ring = Ring([f"looptrace-{number}.looptrace:4317" for number in range(servers)])
    owner_at = np.array([ring.at(position) for position in range(POSITIONS)])
    turns = times * arriving(of_day, owner_at[of_day.positions], servers)
    down = outages(seed, servers)
    cost_s = (SERVE_US + forwarded * (SEND_US + TAKE_US)) / 1e6
    behind, waits = np.zeros((servers, MINUTES)), np.zeros((servers, MINUTES))
    waiting = np.zeros(servers)
    for minute in range(MINUTES):
        waiting += turns[:, minute]
        done = np.where(down[:, minute], 0, np.minimum(waiting, MINUTE_S / cost_s))
        waiting -= done
        behind[:, minute], waits[:, minute] = waiting * cost_s / MINUTE_S, waiting
    busy = turns * cost_s / MINUTE_S
    return Result(
        servers,
        float(busy.mean()),
        float(busy.max()),
        float(behind.max()),
        float(waits.max() * WIRE_BYTES),
    )


def by_agent(of_day: Day, servers: int) -> float:
    """Return the load of the busiest server, in shares, if all sessions of an agent stay on one."""
    ring = Ring([f"looptrace-{number}.looptrace:4317" for number in range(servers)])
    owners = np.array([ring.owner(f"agent-{number}") for number in range(AGENTS)])
    turns = np.bincount(owners[of_day.agents], of_day.turns, servers)
    return float(turns.max() / turns.sum() * servers)


def figures(seed: int) -> str:
    """Return the figures of a day."""
    of_day = day(seed)
    turns = int(of_day.turns.sum())
    lines = [
        f"Seed {seed}: {AGENTS:,} agents, {SESSIONS:,} sessions, {turns / 1e6:.1f} M turns in a "
        f"day, which are {turns * STORED_BYTES / 2**30:.0f} GiB in the store; and ten times as "
        f"many. {OUTAGES} outages of {OUTAGE_MINUTES[0]} to {OUTAGE_MINUTES[1]} minutes.",
        "",
        "| sessions | servers | busy, mean | busy, peak | behind, most | wait, most |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for times, servers in ((t, n) for t, numbers in CASES.items() for n in numbers):
        # Exporters send in rotation: of several servers most forward what they receive.
        r = simulated(of_day, servers, seed, times=times, forwarded=1 - 1 / servers)
        lines.append(
            f"| {times * SESSIONS / 1e6:.0f} M | {servers} "
            f"| {r.mean_busy:.0%} | {r.peak_busy:.0%} "
            f"| {r.behind_max:.0f} min | {r.waiting_bytes_max / 2**30:.1f} GiB |"
        )
    most = ", ".join(f"{by_agent(of_day, n):.2f} of {n}" for n in CASES[10])
    lines += [
        "",
        f"Shared by agent, the busiest server would have this multiple of its share: {most}.",
    ]
    return "\n".join(lines)


def main() -> int:
    """Print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    print(figures(given.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
