"""Every figure in one table: `make bench`, or `python -m benchmarks.speed.table --quick`.

Each row is measured three times, each time in a process of its own, and the median counts. The
table compares looptrace with the plain reader and loop (`benchmarks.speed.plain_reader`) and with
other installed detectors (`benchmarks.peers`). `--write FILE` writes the data for
docs/benchmarks.md.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.speed import rows, served
from benchmarks.speed.figures import PEAK, Figure, Measured, Row
from benchmarks.speed.processes import ROOT

RUNS = 3
QUICK_SHARE = 0.05
PACKAGES = ("looptrace", "polars", "numpy", "msgspec")

ROWS = (*rows.ROWS, *served.ROWS)
BY_NAME: Mapping[str, Row] = {row.name: row for row in (*ROWS, *rows.FULL_ROWS)}
_WIDTHS = (46, 48, 12, 10, 5, 12, 8)


def main() -> None:
    """Measure the rows, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, once: seconds a row")
    parser.add_argument("--full", action="store_true", help="ten million turns too")
    parser.add_argument("--row", action="append", choices=BY_NAME, help="this row alone")
    parser.add_argument("--runs", type=int, help="of each row; three, with --quick one")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        name, folder, share = options.run
        print(json.dumps(asdict(BY_NAME[name].measure(Path(folder), float(share)))))
        return
    chosen = options.row or [row.name for row in (*ROWS, *(rows.FULL_ROWS * options.full))]
    share = QUICK_SHARE if options.quick else 1.0
    began_s = time.perf_counter()
    print(about(share), flush=True)
    _print_line(("", "", "measured", "target", "", "plain", "ratio"))
    runs = options.runs or (1 if options.quick else RUNS)
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            figures = measure(BY_NAME[name], Path(folder), share, runs)
            if options.write:
                write(options.write, {name: {"about": about(share), **figures}})
    print(f"{time.perf_counter() - began_s:.0f} s")


def about(share: float) -> dict[str, Any]:
    """Return the machine, the versions, and the share of the full size of the figures."""
    return {
        "share": share,
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


def measure(row: Row, folder: Path, share: float, runs: int) -> dict[str, Any]:
    """Measure a row several times, print its figures, and return their medians and all runs."""
    every = [_run(row.name, folder, share) for _ in range(runs)]
    values = _medians(each.values for each in every)
    plain = _medians(each.plain for each in every)
    peers = {key: _medians(each.peers.get(key, {}) for each in every) for key in every[0].peers}
    for line in lines(row, values, plain, peers, is_full=share == 1):
        _print_line(line)
    spread = {key: [each.values[key] for each in every if key in each.values] for key in values}
    return {"values": values, "plain": plain, "peers": peers, "runs": spread}


def _run(name: str, folder: Path, share: float) -> Measured:
    """Measure a row once, in a process of its own; its errors are shown where it fails."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.speed.table",
        "--run",
        name,
        str(folder),
        str(share),
    ]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-2_000:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def _medians(runs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    every = list(runs)
    keys = dict.fromkeys(key for values in every for key in values)
    return {key: median(values[key] for values in every if key in values) for key in keys}


Cells = Sequence[str]


def lines(
    row: Row,
    values: Mapping[str, float],
    plain: Mapping[str, float],
    peers: Mapping[str, Mapping[str, float]],
    *,
    is_full: bool,
) -> list[Cells]:
    """Return the cells of a line for each figure of a row, and for each of its peers.

    Targets apply only to full sizes.
    """
    every: list[Cells] = []
    for key, figure in row.figures.items():
        if key not in values:
            continue
        title = "" if every else row.title
        met = {True: "ok", False: "miss", None: ""}[figure.is_met(values[key]) if is_full else None]
        cells = [title, figure.unit, number(values[key]), _target(figure), met]
        if key in plain:
            ratio = figure.ratio(values[key], plain[key])
            cells += [number(plain[key]), "" if key == PEAK else f"{ratio:.2g}"]
        every.append(cells)
        for name, value in peers.get(key, {}).items():
            ratio = figure.ratio(values[key], value)
            every.append(["", f"  {name}", number(value), "", "", "", f"{ratio:.2g}"])
    return every


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≥' if figure.more_is_better else '≤'} {number(figure.target)}"


def number(value: float) -> str:
    """Write a figure with its significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _print_line(cells: Cells) -> None:
    aligned = [
        f"{cell:<{width}}" if place < 2 else f"{cell:>{width}}"
        for place, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=False))
    ]
    print(" ".join(aligned).rstrip(), flush=True)


def write(path: Path, measured: Mapping[str, Any]) -> None:
    """Write the figures of rows; what else the file has stays."""
    written = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    written["rows"] = written.get("rows", {}) | dict(measured)
    path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
