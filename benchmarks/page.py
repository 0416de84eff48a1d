"""The page of a server over a store of 10,000 tasks: how long each page takes.

The store holds the example traces a thousand times, under other names, over the last days.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import httpx
import polars as pl

from benchmarks.speed.served import serving
from docs.demo_store import NAMES, examples
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.analyzer.settings.sections import default
from looptrace.collector.store import reader, writer
from looptrace.rules.vocabulary import NS_PER_S

TASKS = 10_000
# As many gates are open; people have resolved the others.
GATES_OPEN = 5
# The promise of the page, and the number of repeated requests for each page.
PAGE_MS_MAX = 300
ROUNDS = 5
_DAYS = 7
_DAY_NS = 86_400 * NS_PER_S
_MS_PER_S = 1_000
# Copies ingested at once.
_AT_ONCE = 100


def make_store(store_dir: Path, tasks: int) -> None:
    """Ingest copies of the examples up to a number of tasks."""
    spans = examples()
    copies = -(-tasks // spans["trace_id"].n_unique())
    shift = time.time_ns() - spans["end_ns"].max()  # type: ignore[operator] # There are spans.
    for first in range(0, copies, _AT_ONCE):
        numbers = pl.DataFrame({"copy": range(first, min(first + _AT_ONCE, copies))})
        copy = pl.col("copy")
        moved = shift - copy * _DAYS * _DAY_NS // copies
        many = spans.join(numbers, how="cross").with_columns(
            trace_id=pl.format(
                "{}{}",
                (copy + (1 << 24)).map_elements("{:08x}".format, pl.String),
                pl.col("trace_id").str.slice(8),
            ),
            start_ns=pl.col("start_ns") + moved,
            end_ns=pl.col("end_ns") + moved,
        )
        parts = [
            part.with_columns(
                attributes=pl.col("attributes").str.replace_all(NAMES, f'${{1}}-{number}"')
            ).drop("copy")
            for (number,), part in many.partition_by("copy", as_dict=True).items()
        ]
        writer.ingest(pl.concat(parts), store_dir, default().policy)
    with reader.open_gates(store_dir) as gates:
        for gate in gates.gates("open")[GATES_OPEN:]:
            gates.resolve(gate.id, "continue", f"The way out of {gate.task}.")
    writer.ingest(
        SPAN_SCHEMA.to_frame(), store_dir, default().policy
    )  # The resolutions take effect.


def pages(store_dir: Path) -> dict[str, str]:
    """Return the pages by name; a task and a gate are those that waited longest."""
    with reader.open_gates(store_dir) as gates:
        gate = gates.gates("open")[-1]
    task = quote(gate.task)
    return {
        "gates": "/",
        "a gate": f"/gates/{gate.id}",
        "tasks": "/tasks",
        "tasks, searched": "/tasks?q=heat&state=waiting",
        "a task": f"/task?id={task}",
        "a turn": f"/task/turn?id={task}&row=3",
        "overview": "/overview",
        "rules": "/rules",
        "settings": "/settings",
        "webhooks": "/webhooks",
        "health": "/health",
    }


def measure(store_dir: Path) -> bool:
    """Print how long each page takes; return whether all keep the promise."""
    print(f"{'page':16} {'first':>8} {'median':>8} {'kB':>6}   ms; promised: {PAGE_MS_MAX}")
    keeps = True
    with (
        serving(store_dir) as server,
        httpx.Client(base_url=server.address, trust_env=False) as client,
    ):
        client.get("/rules")  # The templates are read once.
        time.sleep(2)
        for name, path in pages(store_dir).items():
            took_ms = []
            for _ in range(ROUNDS + 1):
                began_s = time.perf_counter()
                answer = client.get(path, timeout=60)
                took_ms.append((time.perf_counter() - began_s) * _MS_PER_S)
                answer.raise_for_status()
            first, median = took_ms[0], statistics.median(took_ms[1:])
            keeps = keeps and median <= PAGE_MS_MAX
            print(f"{name:16} {first:8.0f} {median:8.0f} {len(answer.content) // 1024:6}")
    return keeps


def main() -> None:
    """Make a store, or use an existing one, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, help="a store that was made before")
    parser.add_argument("--tasks", type=int, default=TASKS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store_dir = arguments.store or Path(folder) / "store"
        if not store_dir.exists():
            make_store(store_dir, arguments.tasks)
        sys.exit(0 if measure(store_dir) else 1)


if __name__ == "__main__":
    main()
