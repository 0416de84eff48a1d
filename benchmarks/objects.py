"""A store on a real S3 server beside the same on disk, its writers killed at random by a seed.

The store is filled part by part; writers are killed at any moment, and two write at once. Its final
rows are compared with those of the store on disk.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import polars as pl

from looptrace.collector.store.objects.snapshot import folder_of, snapshot_at, stored_at
from looptrace.collector.store.publishing.publisher import left_overs
from looptrace.collector.store.tables.parquet import TABLES, table_files
from tests.paths import ROOT
from tests.s3 import BUCKET, S3Server, s3_server
from tests.s3_proxy import proxy_of

PARTS = 4
KILLS_A_PART = 2
RUNS = 3  # of each, by turns; the least counts
NEW_TRACE = ROOT / "examples/traces/flaky_import_loop.jsonl"
Cluster = Callable[[], AbstractContextManager[None]]  # of Ray
URL = f"s3://{BUCKET}/scale"


@dataclass(frozen=True, slots=True)
class Timed:
    """The output of a command, its duration, and its processor time."""

    output: bytes
    seconds: float
    processor_s: float


def on_objects(folder: Path, traces: Path, store: Path, seed: int, cluster: Cluster) -> bool:
    """Fill a store on S3 with the traces of one on disk; print and return whether they agree."""
    (folder / "s3").mkdir()
    with s3_server(folder / "s3") as server:
        os.environ.update(server.environment)
        parts = split(traces)
        killed, refused, whole = filled(parts, random.Random(seed))
        left = left_overs(stored_at(URL))
        same = {table: digests(store, table) == digests_at(table) for table in TABLES}
        print(
            f"\nS3: {len(parts)} parts, {killed} writers killed, {refused} that others were "
            f"faster than; after each kill the store was {'whole' if whole else 'NOT WHOLE'}; "
            f"{len(left)} objects left over, {sum(each.bytes for each in left):,} bytes"
        )
        print(
            "; ".join(f"{n}: {'same rows' if is_same else 'DIFFER'}" for n, is_same in same.items())
        )
        reports = compared(store, cluster)
        for name, requests in requests_of(server).items():
            print(f"requests of {name}: {dict(requests)}")
    return whole and reports and all(same.values())


def split(traces: Path) -> list[Path]:
    """Share the lines of a file between some files."""
    paths = [traces.with_name(f"part-{number}.jsonl") for number in range(PARTS)]
    files = [path.open("wb") for path in paths]
    with traces.open("rb") as lines:
        for number, line in enumerate(lines):
            files[number % PARTS].write(line)
    for file in files:
        file.close()
    return paths


def filled(parts: Sequence[Path], chance: random.Random) -> tuple[int, int, bool]:
    """Ingest all parts, the last two at once; return the numbers of killed and refused writers.

    Also return whether the store had only whole parts after each kill.
    """
    killed, whole, needs_s = 0, True, 1.0
    for part in parts[:-2]:
        for _ in range(KILLS_A_PART):
            before = spans_at()
            victim = ingesting(part)
            time.sleep(chance.uniform(0, needs_s))
            if victim.poll() is None:
                victim.kill()
                killed += 1
            victim.wait()
            # The part of a killed writer is there whole, or not at all.
            whole &= spans_at() in (before, before + spans_in(part))
        began_s = time.monotonic()
        ended(ingesting(part))
        needs_s = time.monotonic() - began_s
    refused, waiting = 0, list(parts[-2:])
    while waiting:
        running = [(part, ingesting(part)) for part in waiting]
        waiting = [part for part, process in running if not ended(process)]
        refused += len(waiting)
    return killed, refused, whole and spans_at() == sum(map(spans_in, parts))


def ingesting(part: Path) -> subprocess.Popen[bytes]:
    """Start an ingest of a part."""
    options = ["--store", URL, "--content", "full", "--jobs", "1"]
    command = [sys.executable, "-m", "looptrace", "ingest", str(part), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait for an ingest; return False where another one was first."""
    _, errors = process.communicate()
    if process.returncode and b"another writer was first" not in errors:
        raise SystemExit(errors.decode())
    return process.returncode == 0


def spans_in(part: Path) -> int:
    """Return how many spans a part has."""
    return part.read_bytes().count(b'"spanId"')


def spans_at() -> int:
    """Return the number of spans of the store, from its manifest."""
    manifest = snapshot_at(URL).manifest
    files = manifest.files.items() if manifest else ()
    return sum(file.rows for name, file in files if name.startswith("spans/"))


def digests(store: Path, table: str) -> dict[str, str]:
    """Return the digests of a table's rows on disk, by day and bucket.

    In which file of a day a row lies depends on what came before it.
    """
    hashes = defaultdict[str, list[pl.Series]](list)
    for path in table_files(store, table):
        rows = pl.read_parquet(path, glob=False, hive_partitioning=False).hash_rows()
        hashes[path.parent.relative_to(store).as_posix()].append(rows)
    found = {folder: pl.concat(each).sort().to_numpy() for folder, each in hashes.items()}
    return {name: sha256(each.tobytes()).hexdigest() for name, each in found.items() if each.size}


def digests_at(table: str) -> dict[str, str]:
    """Return the digests of a table's rows on S3."""
    with folder_of(stored_at(URL)) as folder:
        return digests(folder, table)


def compared(store: Path, cluster: Cluster) -> bool:
    """Print how long `analyze` takes for each store; return whether the reports are the same."""
    report = ("--format", "json")
    runs: dict[str, list[Timed]] = {str(store): [], URL: []}
    for _ in range(RUNS):
        for where, times in runs.items():
            times.append(timed("analyze", where, *report, "--jobs", "1"))
    disk_s, objects_s = (min(run.seconds for run in times) for times in runs.values())
    disk_cpu, objects_cpu = (min(run.processor_s for run in times) for times in runs.values())
    outputs = {run.output for times in runs.values() for run in times}
    with cluster():
        outputs.add(timed("analyze", URL, *report, "--engine", "ray").output)
    same = "same bytes" if len(outputs) == 1 else "DIFFER"
    print(
        f"analyze: disk {disk_s:.2f} s, S3 {objects_s:.2f} s, ratio {objects_s / disk_s:.2f}; "
        f"of a processor {disk_cpu:.2f} and {objects_cpu:.2f} s, {objects_cpu / disk_cpu:.2f}; "
        f"reports, and that of a Ray cluster over S3: {same}"
    )
    return len(outputs) == 1


def timed(*arguments: str) -> Timed:
    """Run looptrace."""
    began_s, before = time.monotonic(), os.times()
    command = [sys.executable, "-m", "looptrace", *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr.decode())
    after = os.times()
    processor_s = (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )
    return Timed(done.stdout, time.monotonic() - began_s, processor_s)


def requests_of(server: S3Server) -> dict[str, Counter[str]]:
    """Return the requests of some commands, by their methods."""
    with proxy_of(server.endpoint) as proxy:
        os.environ["AWS_ENDPOINT_URL"] = proxy.endpoint
        counts = {}
        commands = (
            ("analyze", URL, "--format", "json"),
            ("query", "--store", URL, "--sql", "SELECT count(*) FROM turns"),
            ("gates", "list", "--store", URL),
            ("ingest", str(NEW_TRACE), "--store", URL),
        )
        for command in commands:
            proxy.requests.clear()
            timed(*command)
            counts[command[0]] = Counter(proxy.requests)
    return counts
