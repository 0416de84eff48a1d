"""A real OpenTelemetry Collector between agents and a server, with the files of `deploy/`.

`make test-collector` builds the Collector and runs these tests.
"""

import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.paths import ROOT
from tests.ports import free_ports
from tests.producers.recorder import BUILD, TRACES, spans_of, tapped
from tests.reliability.serving import DEADLINE_S, Served, served, until

COLLECTOR = BUILD / "collector" / "build" / "otelcol"
SHOWN = "a-token-for-the-collector-0123456789abcdef"
LOOP, OK = (TRACES / f"vercel-otel-{script}.json.gz" for script in ("loop", "ok"))

pytestmark = pytest.mark.skipif(
    not COLLECTOR.exists(), reason="there is no Collector: make test-collector builds one"
)


@contextmanager
def collector(folder: Path, name: str, **changes: str) -> Iterator[str]:
    """Run a Collector with a file of `deploy/` in which some texts differ; return its address."""
    text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
    grpc, http, metrics = free_ports(3)
    changes |= {"0.0.0.0:4317": f"127.0.0.1:{grpc}", "0.0.0.0:4318": f"127.0.0.1:{http}"}
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    reader = f"{{ pull: {{ exporter: {{ prometheus: {{ host: 127.0.0.1, port: {metrics} }} }} }} }}"
    text += f"  telemetry: {{ metrics: {{ readers: [{reader}] }} }}\n"
    (folder / "collector.yml").write_text(text, encoding="utf-8")
    command = [str(COLLECTOR), "--config", str(folder / "collector.yml")]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            until(lambda: "Everything is ready" in (folder / "log").read_text())
            yield f"http://127.0.0.1:{http}"
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


def metric(server: Served, name: str, token: str = "") -> float:
    """Return a number of the server's metrics over all labels, 0 where it is not there yet."""
    request = Request(f"http://{server.address}/metrics")
    request.add_header("Authorization", f"Bearer {token}")
    with urlopen(request, timeout=DEADLINE_S) as answer:  # noqa: S310 - on loopback.
        page = answer.read().decode()
    return sum(map(float, re.findall(rf"^{name}(?:{{.*}})? (\S+)", page, re.MULTILINE)))


def send(address: str, path: Path) -> set[str]:
    """Send a trace that is kept; return the ids of its spans."""
    body = gzip.decompress(path.read_bytes())
    headers = {"Content-Type": "application/json"}
    request = Request(f"{address}/v1/traces", body, headers)  # noqa: S310 - on loopback.
    with urlopen(request, timeout=DEADLINE_S) as answer:  # noqa: S310 - on loopback.
        assert answer.status == HTTPStatus.OK
    return {span["spanId"] for span in spans_of(json.loads(body))}


def test_a_loop_opens_its_gate_behind_the_collector(tmp_path: Path) -> None:
    """The file of compose.yml, with its token: what went in comes out at the server."""
    token = tmp_path / "token"
    token.write_text(f"{SHOWN}\n", encoding="utf-8")
    changes = {"/run/secrets/token": str(token)}
    with served(tmp_path / "store", "--token-file", str(token)) as server:
        changes |= {"server:4318": server.address}
        with collector(tmp_path, "collector.yml", **changes) as address:
            sent = send(address, LOOP) | send(address, OK)
            until(lambda: metric(server, "looptrace_receiver_spans_total", SHOWN) == len(sent))
            until(lambda: metric(server, "looptrace_gates_opened_total", SHOWN) >= 1)


def test_the_sampler_keeps_the_loop_and_the_server_has_all(tmp_path: Path) -> None:
    """The share is nothing here, so that only failed traces reach the tracing system."""
    with served(tmp_path / "store") as server, tapped(None) as tracing:
        changes = {
            "http://server:4318": f"http://{server.address}",
            "http://tracing:4318": tracing.url,
            "decision_wait: 30s": "decision_wait: 1s",
            "sampling_percentage: 10": "sampling_percentage: 0",
        }
        with collector(tmp_path, "collector-sampling.yml", **changes) as address:
            healthy, looping = send(address, OK), send(address, LOOP)
            sent = len(healthy | looping)
            until(lambda: metric(server, "looptrace_receiver_spans_total") == sent)
            until(lambda: metric(server, "looptrace_gates_opened_total") >= 1)
            until(lambda: looping <= kept(tracing.requests))
        assert healthy.isdisjoint(kept(tracing.requests))


def kept(requests: list[dict[str, object]]) -> set[str]:
    """Return the ids of spans that arrived."""
    return {span["spanId"] for request in requests for span in spans_of(request)}
