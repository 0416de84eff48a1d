"""The server's own metrics: one set of instruments, for Prometheus and OTLP.

The parts of the server count for themselves, and are read on request. The names and label keys are
fixed here, and the number of label sets has a limit, whatever clients send.
"""

import logging
import math
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from looptrace import __version__
from looptrace.collector.api_bodies import Readiness
from looptrace.collector.server.openapi import JSON, TEXT, Answer, operation
from looptrace.collector.server.receiver.receiver_metrics import (
    CLOSED,
    REFUSED,
    SUM,
    TAKEN,
    Instrument,
    InstrumentKind,
    ReceiverCounts,
    Values,
    age_s,
    counter,
    gauge,
    histogram,
)
from looptrace.collector.store.layout import GATES_FILE
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.outbox import Endpoint, Outbox
from looptrace.collector.store.tables.parquet import ANYWHERE, TABLES

_logger = logging.getLogger(__name__)

# The most label sets of one instrument; the first ones are shown.
LABEL_SETS_MAX = 100
# How often the sizes of all files are looked at.
SIZES_EVERY_S = 30.0
_OTHER = "other"
_SCOPE = "looptrace"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_NO_LABEL = re.compile("[^a-zA-Z0-9]+")
_FAMILIES: Mapping[InstrumentKind, type[CounterMetricFamily | GaugeMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}

HealthCheck = Callable[[], bool]


class Metrics:
    """The instruments of one server: Prometheus reads them here, and OTLP sends them.

    OpenTelemetry's own exporter for Prometheus is not used, because each of its releases needs one
    release of the SDK, and an agent in the same environment may need another.
    """

    def __init__(self, instruments: Iterable[Instrument], environ: Mapping[str, str]) -> None:
        """Show the instruments, and send them as the standard variables of `environ` say."""
        self._instruments = tuple(instruments)
        resource = Resource.create({SERVICE_NAME: environ.get("OTEL_SERVICE_NAME", _SCOPE)})
        self._target = {
            _NO_LABEL.sub("_", key): str(value)
            for key, value in sorted(resource.attributes.items())
        }
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)  # process_*: memory, CPU, files, start
        self._registry.register(self)
        self._provider = MeterProvider(
            metric_readers=_otlp_readers(environ), resource=resource, shutdown_on_exit=False
        )
        meter = self._provider.get_meter(_SCOPE)
        for instrument in self._instruments:
            _observe(meter, instrument)

    def collect(self) -> Iterator[Metric]:
        """Yield each instrument in the form of Prometheus, with its current values."""
        yield InfoMetricFamily("target", "Target metadata", value=self._target)
        build = {"version": __version__, "python": platform.python_version()}
        yield InfoMetricFamily("looptrace_build", "Versions of looptrace and Python", value=build)
        for instrument in self._instruments:
            name = instrument.name.replace(".", "_")
            if instrument.kind == "histogram":
                yield _histogram(name, instrument)
                continue
            family = _FAMILIES[instrument.kind](name, instrument.doc, labels=instrument.labels)
            for values, number in _read(instrument):
                family.add_metric(values, number)
            yield family

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, so that registering reads no values."""
        yield from ()

    def page(self) -> bytes:
        """Return the page that Prometheus reads."""
        return generate_latest(self._registry)

    def close(self, timeout_s: float) -> None:
        """Send the remaining values, and end."""
        self._provider.shutdown(timeout_s * 1_000)


def of_counts(counts: ReceiverCounts) -> list[Instrument]:
    """Return the instruments of the receiver."""

    def of(name: str) -> Callable[[], Values]:
        return lambda: {(): counts.read()[name]}

    def by_reason(part: str, names: Iterable[str]) -> Callable[[], Values]:
        return lambda: {
            (name.removeprefix(f"{part}_"),): count
            for name, count in counts.read().items()
            if name in names
        }

    taken = [counter(f"looptrace.receiver.{name}", doc, of(name)) for name, doc in TAKEN.items()]
    parts = (
        ("refused", REFUSED, "Refused requests, by reason."),
        ("closed", CLOSED, "Connections closed before a request, by reason."),
    )
    return [
        *taken,
        histogram(
            "looptrace.receiver.acknowledgement_seconds",
            "Time from the whole body of a request to its spans on disk.",
            counts.acknowledged.read,
        ),
        gauge(
            "looptrace.receiver.connections",
            "Open HTTP connections.",
            lambda: len(counts.connections),
        ),
        *(
            counter(f"looptrace.receiver.{part}", doc, by_reason(part, names), "reason")
            for part, names, doc in parts
        ),
    ]


def of_fields(part: str, state: object) -> list[Instrument]:
    """Return an instrument for each `number` field of a part's dataclass of counts."""
    if not is_dataclass(state):
        raise TypeError(f"{state!r} is no dataclass")

    def of(name: str) -> Callable[[], Values]:
        return lambda: {(): float(getattr(state, name))}

    return [
        Instrument(
            f"looptrace.{part}.{each.name}",
            each.metadata["doc"],
            of(each.name),
            each.metadata["kind"],
        )
        for each in fields(state)
    ]


def of_webhooks(store_dir: Path, results: Callable[[], Values]) -> list[Instrument]:
    """Return the instruments of webhooks, whose tries have `results`."""

    def endpoints() -> list[Endpoint]:
        try:
            with Outbox.open(store_dir / GATES_FILE) as outbox:
                return outbox.endpoints()
        except StoreError as error:
            _logger.warning("%s", error)
            return []

    return [
        counter(
            "looptrace.webhooks.results",
            "Results of tries: delivered, failed, dead, disabled; error is the server's own.",
            results,
            "endpoint",
            "result",
        ),
        gauge(
            "looptrace.webhooks.waiting",
            "Waiting events.",
            lambda: {(each.name,): each.pending for each in endpoints()},
            "endpoint",
        ),
        gauge(
            "looptrace.webhooks.oldest_waiting_seconds",
            "Age of the oldest waiting event; 0 if there is none.",
            lambda: {(each.name,): age_s(each.oldest_ns) for each in endpoints()},
            "endpoint",
        ),
        gauge(
            "looptrace.webhooks.is_disabled",
            "1 while an endpoint is disabled, until a person enables it.",
            lambda: {(each.name,): float(each.disabled_ns is not None) for each in endpoints()},
            "endpoint",
        ),
    ]


def of_store(store_dir: Path) -> list[Instrument]:
    """Return the instruments of the size of a store, and of the room that it has."""

    def free() -> Values:
        try:
            return {(): float(shutil.disk_usage(store_dir).free)}
        except OSError as error:
            _logger.warning("%s: its free space is not known (%s)", store_dir, error.strerror)
            return {}

    return [
        gauge(
            "looptrace.store.bytes",
            "Size of the store's files, in bytes, by table; `other` is the log, gates and notes.",
            _Sizes(store_dir).read,
            "table",
        ),
        gauge("looptrace.store.free_bytes", "Free space of the store's disk, in bytes.", free),
    ]


class _Sizes:
    """The sizes of a store's files, which are looked at again after a while."""

    def __init__(self, store_dir: Path) -> None:
        self._dir = store_dir
        self._sizes: Values = {}
        self._looked_s = -math.inf

    def read(self) -> Values:
        """Return the bytes of each table, and of the other files."""
        if time.monotonic() - self._looked_s > SIZES_EVERY_S:
            files = {table: (self._dir / table).glob(ANYWHERE) for table in TABLES}
            files[_OTHER] = self._dir.glob("*")
            self._sizes = {(name,): _bytes_in(paths) for name, paths in files.items()}
            self._looked_s = time.monotonic()
        return self._sizes


def _bytes_in(paths: Iterable[Path]) -> float:
    """Return the size of files, of which some may go meanwhile."""
    size = 0
    for path in paths:
        with suppress(FileNotFoundError):
            size += path.stat().st_size if path.is_file() else 0
    return float(size)


def routes(
    metrics: Metrics,
    ready: Mapping[str, HealthCheck],
    backlog_spans: Callable[[], int],
    ages_s: Callable[[], dict[str, float]],
) -> list[Route]:
    """Return the routes `/metrics`, `/healthz` (it answers) and `/readyz` (all checks hold)."""

    @operation("metrics", Answer("The text format of Prometheus.", {TEXT: str}))
    def show(_request: Request) -> Response:
        """Show counters and gauges for Prometheus (docs/metrics.md)."""
        return Response(metrics.page(), media_type=CONTENT_TYPE_LATEST)

    @operation("health", Answer("It is.", {TEXT: str}))
    def health(_request: Request) -> Response:
        """Answer while the process is alive."""
        return PlainTextResponse("ok\n")

    @operation(
        "readiness",
        Answer("All parts work.", {JSON: Readiness}),
        {HTTPStatus.SERVICE_UNAVAILABLE: Answer("One part does not work.", {JSON: Readiness})},
    )
    def readiness(_request: Request) -> Response:
        """Show whether all parts work, and how far a restart has caught up."""
        checks = {name: holds(name, check) for name, check in ready.items()}
        status = HTTPStatus.OK if all(checks.values()) else HTTPStatus.SERVICE_UNAVAILABLE
        body = Readiness(checks, backlog_spans(), ages_s())
        return Response(msgspec.json.encode(body), status, media_type=JSON)

    paths = {"/metrics": show, "/healthz": health, "/readyz": readiness}
    return [Route(path, endpoint, methods=["GET"]) for path, endpoint in paths.items()]


def holds(name: str, check: HealthCheck) -> bool:
    """Return whether a part works; a part whose check raises does not."""
    try:
        return check()
    except Exception:
        # After any failure of a check the server is not ready.
        _logger.exception("the check %s failed", name)
        return False


def _read(instrument: Instrument) -> Iterable[tuple[tuple[str, ...], float]]:
    """Return the first label sets of an instrument, each with its value."""
    return islice(instrument.read().items(), LABEL_SETS_MAX)


def _histogram(name: str, instrument: Instrument) -> HistogramMetricFamily:
    """Return a histogram; its values are counts up to each bound, and the sum."""
    values = {bound: number for (bound,), number in _read(instrument)}
    family = HistogramMetricFamily(name, instrument.doc)
    if values:
        total = values.pop(SUM)
        family.add_metric((), list(values.items()), total)
    return family


def _observe(meter: Meter, instrument: Instrument) -> None:
    def callback(_options: CallbackOptions) -> Iterable[Observation]:
        for values, number in _read(instrument):
            if instrument.kind == "histogram" and values == (SUM,):
                continue
            yield Observation(number, dict(zip(instrument.labels, values, strict=True)))

    create: dict[str, Callable[..., Any]] = {
        "counter": meter.create_observable_counter,
        "gauge": meter.create_observable_gauge,
        # OTLP has no observable histogram, so that the counts have the bounds as a label.
        "histogram": meter.create_observable_counter,
    }
    create[instrument.kind](instrument.name, [callback], description=instrument.doc)


def _otlp_readers(environ: Mapping[str, str]) -> list[MetricReader]:
    """Return the reader that sends by OTLP, where an endpoint is given and nothing disables it."""
    wanted = environ.get("OTEL_METRICS_EXPORTER", "otlp") == "otlp"
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if off or not wanted or not any(environ.get(name) for name in _ENDPOINTS):
        return []
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), "")
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # type: ignore[assignment] # noqa: PLC0415
    return [PeriodicExportingMetricReader(OTLPMetricExporter())]
