"""`looptrace doctor`: whether looptrace can work here, and what to do if it cannot."""

import os
import platform
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

import click
from packaging.requirements import Requirement

from looptrace import __version__
from looptrace.analyzer.report.verdict import little_text, seen_lines
from looptrace.analyzer.report.wording import counted
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.text.display import plain
from looptrace.cli import EXIT_UNREADABLE
from looptrace.cli.config import config_option
from looptrace.cli.shared.stores import store_option
from looptrace.collector.client_tls import connection_to
from looptrace.collector.sdk.instrument import DISABLED_VARIABLE, ENDPOINT_VARIABLE, OTLP_VARIABLES
from looptrace.collector.sdk.server_watch import reason_of
from looptrace.collector.store import layout, reader
from looptrace.collector.store.objects.snapshot import stored_at
from looptrace.collector.store.publishing.publisher import left_overs
from looptrace.collector.store_analysis import understood_in
from looptrace.errors import LooptraceError
from looptrace.installation import how_to_install

Verdict = Literal["ok", "note", "FAIL"]

_PORTS = {4318: "OTLP over HTTP", 4317: "OTLP over gRPC"}
_HOST = "127.0.0.1"
_CONNECT_S = 2.0
_FREE_BYTES_MIN = 1 << 30  # `serve` needs room for its ingest log and the files of a day
_CLOCK_OFF_S_MAX = 60  # the time within which events of loops are expected
_LIMIT_VARIABLES = ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT")
# A message takes some seven attributes, and a conversation has many messages.
_ATTRIBUTES_MIN = 1_000
_SAMPLER_VARIABLE = "OTEL_TRACES_SAMPLER"
_TEXT_CHARS_MAX = 300
_LEFT_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its subject, its verdict, and what to do."""

    what: str
    verdict: Verdict
    text: str


@click.command()
@store_option("written", "Folder of the store to check, or s3://BUCKET/PREFIX.", required=False)
@config_option
@click.pass_context
def doctor(context: click.Context, store: Path | str | None, settings: Settings) -> None:
    """Check the installation, the provider, the ports, the store, the endpoints and the clock.

    Exits with 2 if a check fails. Requests go only to the endpoints that the environment names,
    and contain none of your data.
    """
    failed = False
    for check in _checks(store, settings):
        failed |= check.verdict == "FAIL"
        click.echo(f"{check.verdict:4}  {check.what}: {plain(check.text, _TEXT_CHARS_MAX)}")
    context.exit(EXIT_UNREADABLE if failed else 0)


def _checks(store: Path | str | None, settings: Settings) -> Iterator[Check]:
    yield from _installation()
    yield Check("settings", "ok", f"profile {settings.profile}")
    yield from _provider()
    for port, use in _PORTS.items():
        yield _port(port, use)
    if store is not None:
        yield from _store(store, settings) if isinstance(store, Path) else _objects(store)
    yield from _endpoints()


def _installation() -> Iterator[Check]:
    about = f"looptrace {__version__}, Python {platform.python_version()}"
    yield Check("installation", "ok", about)
    missing: dict[str, list[str]] = {}
    for line in requires("looptrace") or ():
        requirement = Requirement(line)
        extra = _extra_of(requirement)
        if extra not in ("all", None) and not _fits(requirement):
            missing.setdefault(str(extra), []).append(requirement.name)
    for extra, names in missing.items():
        how = f"not installed: {', '.join(names)}; {how_to_install(extra)} if you need it"
        yield Check(f"extra {extra}", "note", how)


def _extra_of(requirement: Requirement) -> str | None:
    """Return the extra that requires a distribution; None if this Python does not need it."""
    marker = requirement.marker
    if marker is None:
        return "base"
    single = "analyzer judge server semantic train columns mcp objects ray"
    names = ("", *single.split(), "all")  # `all` is a sum of the others.
    extra = next((name for name in names if marker.evaluate({"extra": name})), None)
    return "base" if extra == "" else extra


def _fits(requirement: Requirement) -> bool:
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


def _provider() -> Iterator[Check]:
    """Yield checks of the environment of the provider that `instrument()` sets."""
    if os.environ.get(DISABLED_VARIABLE, "").lower() == "true":
        advice = f"{DISABLED_VARIABLE} is true: looptrace watches no agent; unset it"
        yield Check("provider", "FAIL", advice)
        return
    sampler = os.environ.get(_SAMPLER_VARIABLE, "parentbased_always_on")
    if "always_on" not in sampler:
        advice = (
            f"{_SAMPLER_VARIABLE} is {sampler}: looptrace's processor sees all turns of tracers "
            "made after it was added; a server behind another exporter sees the sampled ones alone"
        )
        yield Check("provider", "note", advice)
    for name in _LIMIT_VARIABLES:
        limit = os.environ.get(name, "")
        if limit.isdigit() and int(limit) < _ATTRIBUTES_MIN:
            advice = f"{name} is {limit}: long conversations lose attributes; unset it or raise it"
            yield Check("provider", "note", advice)
    yield Check("provider", "ok", f"OpenTelemetry SDK {version('opentelemetry-sdk')}")


def _port(port: int, use: str) -> Check:
    what = f"port {port}"
    try:
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((_HOST, port))
    except OSError as error:
        advice = f"taken ({error.strerror}); `looptrace serve` needs another port for {use}"
        return Check(what, "note", advice)
    return Check(what, "ok", f"free for {use}")


def _store(store_dir: Path, settings: Settings) -> Iterator[Check]:
    try:
        layout.require_store(store_dir)
        counts = reader.counts(store_dir)
    except (LooptraceError, OSError) as error:
        yield Check("store", "FAIL", str(error))
        return
    free = shutil.disk_usage(store_dir).free
    text = f"{store_dir}: {counted(counts.sessions, 'session')}, {counted(counts.spans, 'span')}"
    yield Check("store", "ok", text)
    seen = understood_in(store_dir, settings.policy.dialects)
    if lines := seen_lines(seen):
        verdict: Verdict = "note" if seen.unread else "ok"
        yield Check("understood", verdict, little_text(seen) or " ".join(lines))
    if not os.access(store_dir, os.W_OK):
        yield Check("store", "FAIL", f"{store_dir} cannot be written by this user")
    if free < _FREE_BYTES_MIN:
        yield Check("disk", "FAIL", f"{free >> 20} MiB are free at {store_dir}; make room")


def _objects(url: str) -> Iterator[Check]:
    """Check a store on object storage, and name what killed writers left there."""
    try:
        snapshot = stored_at(url)
        left = left_overs(snapshot)
    except LooptraceError as error:
        yield Check("store", "FAIL", str(error))
        return
    files = snapshot.manifest.files.values() if snapshot.manifest else ()
    size = sum(file.bytes for file in files)
    text = f"{url}: {counted(len(files), 'file')}, {size:,} bytes"
    yield Check("store", "ok", text)
    if left:
        named = ", ".join(each.name for each in left[:_LEFT_SHOWN_MAX])
        advice = (
            f"{counted(len(left), 'object')} of writers that were killed or are at work "
            f"({sum(each.bytes for each in left):,} bytes), among them {named}; the first ingest "
            "after a day deletes them"
        )
        yield Check("left over", "note", advice)


def _endpoints() -> Iterator[Check]:
    names = [name for name in (ENDPOINT_VARIABLE, *OTLP_VARIABLES) if os.environ.get(name)]
    if not names:
        server = f"set {ENDPOINT_VARIABLE} for a looptrace server"
        advice = f"none; {server}, {OTLP_VARIABLES[0]} for any other"
        yield Check("endpoint", "note", advice)
        yield Check("clock", "note", "not compared, because there is no endpoint")
    for name in names:
        yield from _endpoint(name, os.environ[name])


def _endpoint(name: str, url: str) -> Iterator[Check]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        yield Check(name, "FAIL", "is not an address such as http://localhost:4318")
        return
    where = f"{parts.scheme}://{parts.hostname}"  # neither user nor password is shown
    try:
        date = _date_of(parts)
    except HTTPException:
        yield Check(name, "ok", f"{where} answers, but not over HTTP/1.1, as gRPC does not")
        return
    except (OSError, ValueError) as error:
        why = reason_of(error)
        yield Check(name, "FAIL", f"{where} does not answer ({why}); is the server running?")
        return
    yield Check(name, "ok", f"{where} answers")
    if date:
        yield _clock(where, date)


def _date_of(parts: SplitResult) -> str:
    connection = connection_to(parts, _CONNECT_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().headers.get("date", "")
    finally:
        connection.close()


def _clock(where: str, date: str) -> Check:
    try:
        off_s = time.time() - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return Check("clock", "note", f"not compared, because {where} sends no valid time")
    if abs(off_s) > _CLOCK_OFF_S_MAX:
        advice = f"{off_s:+.0f} s from the clock of {where}; synchronise both with a time server"
        return Check("clock", "FAIL", advice)
    return Check("clock", "ok", f"same time as {where}")
