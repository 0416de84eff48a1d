"""P8: metrics of the server have fixed names and few labels; P17: and no content."""

import io
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import HTTPServer

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from starlette.applications import Starlette

from looptrace.collector.server.logs import log_to
from looptrace.collector.server.metrics import (
    LABEL_SETS_MAX,
    HealthCheck,
    Metrics,
    of_counts,
    of_fields,
    routes,
)
from looptrace.collector.server.receiver.receiver_metrics import (
    Instrument,
    Reason,
    ReceiverCounts,
    number,
)
from tests.http_threads import QuietHandler, answering
from tests.reliability.asgi import serving

SAID = "what the agent said"


@dataclass(slots=True)
class Judged:
    """A part of the server that counts."""

    spans: int = number("Spans.")
    tasks: int = number("Tasks.", "gauge")


class Receiver(HTTPServer):
    """Takes metrics on loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[bytes] = []


class Handler(QuietHandler):
    """Keeps what is posted."""

    server: Receiver

    def do_POST(self) -> None:
        """Take one request."""
        self.server.bodies.append(self.body())
        self.send_response(200)
        self.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Serve on loopback until the test ends."""
    with answering(Receiver()) as server:
        yield server


def counted() -> list[Instrument]:
    """Return instruments of all kinds."""
    counts = ReceiverCounts()
    counts.add("spans", 5)
    counts.add_refused(Reason.SLOW)
    return [*of_counts(counts), *of_fields("detection", Judged(7, 3))]


def samples(page: bytes) -> dict[str, float]:
    """Read what Prometheus would read."""
    lines = [line for line in page.decode().splitlines() if not line.startswith("#")]
    return {name: float(number) for name, number in (line.rsplit(" ", 1) for line in lines)}


def test_prometheus_reads_what_is_counted() -> None:
    """P8: each count is there under a fixed name, with the reasons of refusals as labels."""
    metrics = Metrics(counted(), {})

    page = samples(metrics.page())

    assert page["looptrace_receiver_spans_total"] == 5
    assert page['looptrace_receiver_refused_total{reason="slow"}'] == 1
    assert page['looptrace_receiver_refused_total{reason="method"}'] == 0
    assert page["looptrace_detection_spans_total"] == 7
    assert page["looptrace_detection_tasks"] == 3
    metrics.close(1)


def test_otlp_is_sent_what_prometheus_reads(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: one set of instruments serves both, where the standard variables ask for OTLP."""
    url = f"http://127.0.0.1:{receiver.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    metrics = Metrics(counted(), os.environ)
    shown = {name.partition("{")[0] for name in samples(metrics.page())}

    metrics.close(5)

    request = ExportMetricsServiceRequest.FromString(receiver.bodies[0])
    scopes = [scope for resource in request.resource_metrics for scope in resource.scope_metrics]
    sent = {metric.name: metric for scope in scopes for metric in scope.metrics}
    assert sent["looptrace.detection.tasks"].gauge.data_points[0].as_double == 3
    for name in sent:
        assert {name.replace(".", "_") + ending for ending in ("", "_total", "_bucket")} & shown


@pytest.mark.parametrize(
    "variables", [{}, {"OTEL_METRICS_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}]
)
def test_nothing_is_sent_unasked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]
) -> None:
    """Nothing leaves the machine unless the variables ask for it."""
    if variables:
        url = f"http://127.0.0.1:{receiver.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    Metrics(counted(), os.environ).close(1)

    assert receiver.bodies == []


def test_labels_have_an_end() -> None:
    """P8: however many values a label has, 100 of them are shown."""
    many: dict[tuple[str, ...], float] = {(f"session-{number}",): 1.0 for number in range(10_000)}
    metrics = Metrics(
        [Instrument("looptrace.test", "Many.", lambda: many, labels=("session",))], {}
    )

    page = samples(metrics.page())

    assert len([name for name in page if name.startswith("looptrace_test")]) == LABEL_SETS_MAX


@contextmanager
def probed(ready: Mapping[str, HealthCheck]) -> Iterator[httpx.Client]:
    """Serve the routes."""
    app = Starlette(routes=routes(Metrics(counted(), {}), ready, lambda: 7, dict))
    with serving(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        yield client


def test_health_and_readiness() -> None:
    """It is healthy while it answers, and ready when all of its parts are."""
    state = {"detection": True, "disk": False}
    with probed({"detection": lambda: state["detection"], "disk": lambda: state["disk"]}) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        assert client.get("/readyz").json() == {
            "checks": {"detection": True, "disk": False},
            "backlog_spans": 7,
            "spending_age_s": {},
        }
        state["disk"] = True
        assert client.get("/readyz").status_code == 200
        page = client.get("/metrics")

    assert page.headers["content-type"].startswith("text/plain")
    assert b"looptrace_receiver_spans_total 5.0" in page.content


def test_a_check_that_fails_is_not_ready_and_says_no_more() -> None:
    """P17: the text of an inner failure may have content, and is not shown to clients."""

    def broken() -> bool:
        raise ValueError(SAID)

    with probed({"detection": broken}) as client:
        answer = client.get("/readyz")

    assert (answer.status_code, answer.json()) == (
        503,
        {"checks": {"detection": False}, "backlog_spans": 7, "spending_age_s": {}},
    )


def test_logs_are_json_without_content() -> None:
    """P17: a traceback says where, and never what."""
    stream = io.StringIO()
    handler = log_to(stream)
    logger = logging.getLogger("looptrace.test")
    try:
        logger.info("listens at %s", "127.0.0.1")
        try:
            json.loads(SAID)
        except ValueError:
            logger.exception("it failed")
        logging.getLogger("uvicorn.access").info("GET /?%s", SAID)
    finally:
        for name in ("looptrace", "uvicorn", "uvicorn.error", "opentelemetry"):
            logging.getLogger(name).removeHandler(handler)
            logging.getLogger(name).propagate = True
        logging.getLogger("uvicorn.access").disabled = False

    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["message"]) == ("info", "listens at 127.0.0.1")
    assert (second["message"], second["error"]) == ("it failed", "JSONDecodeError")
    assert "test_metrics.py" in second["at"][0]
    assert SAID not in stream.getvalue()
