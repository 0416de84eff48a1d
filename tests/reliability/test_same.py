"""P23: the same spans give the same bytes, whatever hashes, threads and order there are."""

import os
import random
import subprocess
import sys
from pathlib import Path

EXAMPLES = sorted(map(str, Path("examples/traces").iterdir()))
HASH_SEEDS_AND_THREADS = ("0", "1"), ("7", "3"), ("random", "3")


def test_findings_depend_on_nothing_but_the_spans() -> None:
    """P23: with other hash seeds and thread counts, files in any order."""
    reports = set[bytes]()
    for number, (seed, threads) in enumerate(HASH_SEEDS_AND_THREADS):
        files = random.Random(number).sample(EXAMPLES, len(EXAMPLES))
        environment = {**os.environ, "PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": threads}
        command = [sys.executable, "-m", "looptrace", "analyze", *files, "--format", "json"]
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        reports.add(done.stdout)
    assert len(reports) == 1
    assert b"repeated_call" in reports.pop()
