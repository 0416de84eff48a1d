"""P23: the same spans give the same bytes, whatever hashes, threads and order there are."""

import os
import random
import subprocess
import sys
from itertools import product
from pathlib import Path

EXAMPLES = sorted(map(str, Path("examples/traces").iterdir()))
HASH_SEEDS, THREADS = ("0", "7", "random"), ("1", "3")


def test_findings_depend_on_nothing_but_the_spans() -> None:
    """P23: with each of these hash seeds and thread counts, files in any order."""
    reports = set[bytes]()
    for number, (seed, threads) in enumerate(product(HASH_SEEDS, THREADS)):
        files = random.Random(number).sample(EXAMPLES, len(EXAMPLES))
        environment = {**os.environ, "PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": threads}
        command = [sys.executable, "-m", "looptrace", "analyze", *files, "--format", "json"]
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        reports.add(done.stdout)
    assert len(reports) == 1
    assert b"repeated_call" in reports.pop()
