"""What a command takes: time, processor time of all its processes, and their most memory."""

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BYTES_PER_MB = 1_000_000
# The system tells the peak of a process in kilobytes, on a Mac in bytes.
PEAK_UNIT_BYTES = 1 if sys.platform == "darwin" else 1_024
# How often the memory of all processes of a command is added up.
SAMPLED_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Used:
    """What a command took; the processor time has that of its processes, added up."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    printed: str


def run(command: Sequence[str], *, may_fail: bool = False) -> Used:
    """Run a command of this Python at the top of the tree, and measure it.

    Raises:
        CalledProcessError: if it fails and may not.
    """
    began_s = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    peaks = [0.0]
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks, ended))
    watcher.start()
    printed = process.stdout.read() if process.stdout else ""
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began_s
    ended.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not may_fail:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    peak_mb = max(peaks[0], used.ru_maxrss * PEAK_UNIT_BYTES / BYTES_PER_MB)
    return Used(wall_s, used.ru_utime + used.ru_stime, peak_mb, printed)


def own_peak_mb() -> float:
    """Return the most memory that this process has had."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_maxrss * PEAK_UNIT_BYTES / BYTES_PER_MB


def memory_mb(pid: int | str = "self") -> float:
    """Return the memory that a process has now; 0 where it has ended, or the system is no Linux."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * resource.getpagesize() / BYTES_PER_MB


def _watch(pid: int, peaks: list[float], ended: threading.Event) -> None:
    """Note the most memory that a process and those below it have together."""
    while not ended.wait(SAMPLED_EVERY_S):
        peaks[0] = max(peaks[0], sum(memory_mb(each) for each in _tree(pid)))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = [
            child
            for path in Path(f"/proc/{pid}/task").glob("*/children")
            for child in path.read_text().split()
        ]
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))
