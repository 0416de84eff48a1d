"""How much three servers overspend of one budget, by how fast their agents respond.

`python -m benchmarks.shared_budgets` starts three servers on loopback, with an agent at each.
"""

import sys
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory

from tests.paths import ROOT
from tests.reliability.sharding import SERVERS, clustered, ring_of

# By responses a second of each agent, how many all of them may make.
BURSTS = {0.5: 30, 2.0: 60, 20.0: 300}
_TIMES = 3
_RESPONSES_MAX = 5_000


def overspent(folder: Path, rate: float, responses_max: int) -> int:
    """Return by how many responses the agents went over the limit of all."""
    names, ring = [f"agent-{number}" for number in range(100)], ring_of(SERVERS)
    tasks = [next(n for n in names if ring.owner(n) == server) for server in range(SERVERS)]
    limit = f"[budgets]\nservice_tokens = {responses_max * 1_000}\n"
    with clustered(folder, limit) as cluster:
        agents = [
            Popen(
                [
                    *(sys.executable, "-m", "tests.reliability.spending_agent"),
                    *(cluster.servers[number].address, task),
                    *(str(1 / rate), str(_RESPONSES_MAX)),
                ],
                stdout=PIPE,
                text=True,
                cwd=ROOT,
            )
            for number, task in enumerate(tasks)
        ]
        responses = [int(agent.communicate()[0]) for agent in agents]
    return sum(responses) - responses_max


def main() -> None:
    """Print a line for each rate."""
    for rate, responses_max in BURSTS.items():
        found = []
        for _ in range(_TIMES):
            with TemporaryDirectory() as folder:
                found.append(overspent(Path(folder), rate, responses_max))
        print(f"{rate:g} a second each, of {responses_max}: {found} responses too many", flush=True)


if __name__ == "__main__":
    main()
