"""A store analysed by a Ray cluster: two nodes, worker processes, and faults midway.

Ray listens on all addresses of its machine, and runs any code that it receives. So the cluster has
its own network with only a loopback, and its own process namespace, which ends with the test.
"""

import importlib.util
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from looptrace.cli.main import main
from looptrace.collector.files.reader import read_spans
from looptrace.collector.store import reader, writer
from looptrace.installation import how_to_install
from tests.commands import ended
from tests.otlp import Trace, tool_call
from tests.paths import ROOT
from tests.reliability.serving import DEADLINE_S

SPACES = ("--user", "--map-root-user", "--net", "--pid", "--mount")
# Two nodes of the cluster, with one worker each; the first is the head.
BEGIN = """
set -e
ip link set lo up
mkdir -p "$1" && mount -t tmpfs ray "$1"
start() { python -m ray.scripts.scripts start --num-cpus=1 --disable-usage-stats "$@"; }
start --head --port=6379 --include-dashboard=false --object-store-memory=80000000 --temp-dir="$1"
start --address=127.0.0.1:6379 --object-store-memory=80000000
ss -Hltn
echo begun
cat >/dev/null # It ends when the test does, however that ends.
"""
# Of Ray's processes the names are looked up in /proc, which has to be that of the test's own.
UNSHARE = ("unshare", *SPACES, "--fork", "--kill-child", "--mount-proc")
# It warns of a network without an address.
OF_RAY = re.compile(r"^\[[^\]]+\] network_util\.cc:.*\n", re.MULTILINE)
LOOPBACK = ("127.0.0.1:", "[::ffff:127.0.0.1]:", "[::1]:")
WIDTH = {"COLUMNS": "120"}  # Tables are as wide on both sides.
EMPTY, SKEWED = 3, 5  # buckets
SESSIONS_TRIED = 200


def _why_not() -> str | None:
    """Return what the tests lack here."""
    if importlib.util.find_spec("ray") is None:
        return f"Ray is not installed: {how_to_install('ray')}"
    if not all(map(shutil.which, ("unshare", "nsenter", "ip", "ss"))):
        return "a network of Ray's own needs unshare, nsenter, ip and ss"
    tried = ended(*UNSHARE, "ip", "link", "set", "lo", "up")
    return f"a network of Ray's own is refused: {tried.stderr}" if tried.returncode else None


WHY_NOT = _why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Start the cluster, and return how a program is run beside it."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),  # Workers import the faults.
        **WIDTH,
        "RAY_USAGE_STATS_ENABLED": "0",
        # A token of its own, so that none of whoever runs the tests is looked for.
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    environment.pop("RAY_ADDRESS", None)
    # The path is short, because sockets below it have at most 107 characters; it is a file system
    # of the cluster's own, which goes with it.
    begin = ["sh", "-c", BEGIN, "sh", "/tmp/looptrace-ray"]  # noqa: S108
    with subprocess.Popen(
        [*UNSHARE, *begin],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as cluster:
        assert cluster.stdout is not None
        lines = []
        for line in cluster.stdout:
            lines.append(line)
            if line == "begun\n":
                break
        try:
            assert lines[-1:] == ["begun\n"], "".join(lines)
            listening = [line.split()[3] for line in lines if line.startswith("LISTEN")]
            assert listening
            assert all(address.startswith(LOOPBACK) for address in listening), listening
            inner = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text().split()[0]

            def running(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
                spaces = ("--target", inner, *SPACES[:1], *SPACES[2:], "--preserve-credentials")
                within = ("nsenter", *spaces, f"--wdns={ROOT}", "python")
                env = {**environment, **more}
                done = ended(*within, *command, env=env, timeout=3 * DEADLINE_S)
                done.stderr = OF_RAY.sub("", done.stderr)
                return done

            yield running
        finally:
            cluster.kill()


def write_session(name: str, steps: int) -> str:
    """Return the trace of an agent whose call fails again and again, and of one that works."""
    trace = Trace(name, service="agents")
    for step in range(steps):
        argument = {"path": "a.py" if step % 3 else f"{name}-{step}.py"}
        trace.span(
            "execute_tool read",
            attributes=tool_call("read", json.dumps(argument), result=f"line {step // 9}"),
            status="error" if step % 7 == 6 else "ok",
            message="connection refused",
        )
    return trace.lines()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with an empty bucket, and one that has most of the turns."""
    folder = tmp_path_factory.mktemp("stores")
    traces, drawn, chosen = folder / "traces.jsonl", folder / "drawn", folder / "chosen"
    names = [f"session-{number}" for number in range(SESSIONS_TRIED)]
    traces.write_text("".join(write_session(name, 1) for name in names), encoding="utf-8")
    writer.ingest(read_spans([str(traces)]).spans, drawn)
    text = []
    for bucket in reader.buckets(drawn):
        sessions = reader.read_turns_in(drawn, bucket.number)["session"].unique().sort()
        steps, count = (300, 8) if bucket.number == SKEWED else (20, 3)
        if bucket.number != EMPTY:
            text += [write_session(session, steps) for session in sessions[:count]]
    traces.write_text("".join(text), encoding="utf-8")
    writer.ingest(read_spans([str(traces)]).spans, chosen)
    turns = [reader.read_turns_in(chosen, n.number).height for n in reader.buckets(chosen)]
    assert turns[EMPTY] == 0
    assert turns[SKEWED] > sum(turns) / 2
    assert min(turns[:EMPTY] + turns[EMPTY + 1 :]) > 0
    return chosen


def local(*command: str) -> Result:
    """Run a command on this machine alone."""
    return CliRunner(env=WIDTH).invoke(main, command)


# `analyze` is compared where workers are killed.
ANALYZE = ("analyze", "--format", "json", "--fail-on", "gate")
COMMANDS = {
    "backtest": ("backtest", "STORE", "--a", "balanced", "--b", "conservative", "--format", "json"),
    "calibrate": ("calibrate", "STORE"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_cluster_reports_what_one_machine_reports(name: str, run: Run, store: Path) -> None:
    """Findings, gates and reports are the same to the byte, and so is the exit code."""
    command = [str(store) if word == "STORE" else word for word in COMMANDS[name]]
    here = local(*command)
    there = run("-m", "looptrace", *command, "--engine", "ray", "--address", "127.0.0.1:6379")

    assert here.exit_code == 0, here.stderr
    assert (there.returncode, there.stdout, there.stderr) == (0, here.stdout, here.stderr)
    assert len(here.stdout) > 100


def with_faults(
    run: Run, store: Path, faults: Path, *names: str
) -> subprocess.CompletedProcess[str]:
    """Analyse on the cluster, where workers fail as these files say."""
    for name in names:
        (faults / name).touch()
    script = "from tests.cli.ray_faults import run; run()"
    return run("-c", script, str(faults), *ANALYZE, str(store), "--engine", "ray")


def test_killed_workers_change_nothing(run: Run, store: Path, tmp_path: Path) -> None:
    """A part whose worker ends before it, or with its result in hand, is done once more."""
    here = local(*ANALYZE, str(store))
    faults = ("once-before-0", f"once-before-{SKEWED}", f"once-after-{EMPTY}", "once-after-9")
    there = with_faults(run, store, tmp_path, *faults)

    assert json.loads(here.stdout)["findings"]
    assert (there.returncode, there.stdout) == (here.exit_code, here.stdout), there.stderr
    assert here.exit_code == 1
    assert not list(tmp_path.glob("once-*"))
    for bucket in (0, SKEWED, EMPTY, 9):
        begun = (tmp_path / f"begun-{bucket}").read_text(encoding="utf-8").split()
        assert len(set(begun)) == 2, bucket


def test_a_part_that_always_ends_its_worker_is_an_error(
    run: Run, store: Path, tmp_path: Path
) -> None:
    """The command ends with a line, after all retries, and never with a part missing."""
    there = with_faults(run, store, tmp_path, "always-before-7")

    assert there.stdout == ""
    assert "Error: Ray gave up on a part after 3 retries" in there.stderr.splitlines()[-1]
    assert (tmp_path / "begun-7").read_text(encoding="utf-8").count("\n") == 4


def test_a_damaged_file_is_named_as_on_one_machine(run: Run, store: Path, tmp_path: Path) -> None:
    """An error of a worker is that of the command, and is not tried again."""
    copy = shutil.copytree(store, tmp_path / "copy")
    bucket = next(bucket for bucket in reader.buckets(copy) if bucket.number == SKEWED)
    bucket.files[0].write_bytes(b"no Parquet")
    here = local("analyze", str(copy))
    there = run("-m", "looptrace", "analyze", str(copy), "--engine", "ray")

    assert here.exit_code == there.returncode == 2
    assert str(bucket.files[0]) in here.stderr
    # Ray may log lines of its own before it.
    assert there.stderr.endswith(here.stderr)


def test_without_a_cluster_the_command_says_so(store: Path) -> None:
    """Looptrace starts no cluster of its own; here it looks where none of the test's is seen."""
    analyse = ("-m", "looptrace", "analyze", str(store), "--engine", "ray")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    command, env = (*UNSHARE, sys.executable, *analyse), {**os.environ, **token}
    done = ended(*command, env=env, timeout=3 * DEADLINE_S)

    assert done.returncode == 2
    assert "Error: no Ray cluster answers at auto" in done.stderr
