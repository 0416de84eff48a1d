"""P24: a store on a file system that is mounted to be read only is served, and not written."""

import json
import shutil
from pathlib import Path
from subprocess import run

import grpc  # type: ignore[import-untyped]
import pytest

from looptrace.collector.store import writer
from tests.collector.store.earlier_stores import ARCHIVE
from tests.collector.store.stored import looping as looping_spans
from tests.collector.store.stored import spans_of
from tests.collector.store.test_read_only import mounted
from tests.reliability.receivers import EXPORT, sample
from tests.reliability.serving import DEADLINE_S, OK, SERVE, Served, looping, served, until

CONFLICT, UNAVAILABLE = 409, 503
PAGES = (
    *("/", "/tasks", "/overview", "/rules", "/settings", "/webhooks", "/health"),
    *("/healthz", "/metrics", "/v1/gates/metrics"),
)


def make(store: Path, made_by: str) -> None:
    """Make a store with a gate, which a server, an ingest or an earlier version leaves."""
    if made_by == "ingest":
        writer.ingest(spans_of(looping_spans("s1")), store)
    elif made_by == "gates_3":
        shutil.unpack_archive(ARCHIVE, store.parent, filter="data")
        shutil.copytree(store.parent / made_by, store)
    else:
        with served(store, "--no-grpc") as server:
            assert server.send(looping("s1", 6).request()) == OK
            until(server.gates)
            server.kill()


def refusal_over_grpc(server: Served) -> grpc.StatusCode:
    """Send a span over gRPC; returns why it was refused."""
    assert server.grpc
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(EXPORT)(sample().SerializeToString(), timeout=DEADLINE_S)
    return refused.value.code()


@pytest.mark.parametrize("made_by", ["killed server", "ingest", "gates_3"])
def test_a_store_on_a_read_only_mount_is_served(
    tmp_path: Path, made_by: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Everything is shown, and what would be written is refused in so many words."""
    make(tmp_path / "store", made_by)
    capfd.readouterr()
    with mounted(tmp_path / "store", tmp_path / "fixed") as fixed, served(fixed) as server:
        gate, *_ = server.gates()
        path = f"/v1/gates/{gate['id']}"
        assert server.ask("GET", "/v1/tasks")[1]["tasks"]
        pages = [*PAGES, f"/gates/{gate['id']}"]
        assert [page for page in pages if server.get(page)[0] != OK] == []
        ready = {"checks": {"writable": False}, "backlog_spans": 0, "spending_age_s": {}}
        assert server.ask("GET", "/readyz") == (UNAVAILABLE, ready)
        assert server.number("looptrace_log_is_blocked") == 1
        assert server.send(looping("s2", 6).request()) == UNAVAILABLE
        assert refusal_over_grpc(server) is grpc.StatusCode.UNAVAILABLE
        body = b'{"decision": "continue"}'
        code, answer = server.ask("POST", f"{path}/resolve", body)
        assert (code, "read-only file system" in answer["error"]) == (CONFLICT, True)
        assert server.ask("GET", path)[1]["gate"] == gate
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    (line,) = [line["message"] for line in lines if line["level"] != "info"]
    assert line.startswith(f"{fixed}: is on a read-only file system")


def test_a_folder_without_a_store_on_a_read_only_mount_is_refused(tmp_path: Path) -> None:
    """Nothing can be made there, and a server of nothing would only look as if it worked."""
    (tmp_path / "empty").mkdir()
    with mounted(tmp_path / "empty", tmp_path / "fixed") as fixed:
        command = [*SERVE, "--store", str(fixed), "--http-port", "0", "--no-grpc"]
        ended = run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "is not a store" in ended.stderr
