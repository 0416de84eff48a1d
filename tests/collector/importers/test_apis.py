"""APIs of tracing systems: real servers on loopback that answer as the systems document it."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans
from looptrace.collector.importers import apis
from tests.collector.importers.exported_run import spans
from tests.collector.importers.exports import EXPORTS
from tests.http_threads import QuietHandler, answering

Answer = tuple[int, Any, dict[str, str]]
RUN = spans("loop")


@dataclass
class System:
    """A system that answers by a function of the path and the parameters."""

    answer: Callable[[str, dict[str, str]], Any]
    asked: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    address: str = ""


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[str, dict[str, str]], Any]], System]]:
    """Start systems on loopback."""
    servers = ExitStack()

    def start(answer: Callable[[str, dict[str, str]], Any]) -> System:
        system = System(answer)

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                system.asked.append(self.path)
                system.tokens.append(self.headers.get("Authorization"))
                said = system.answer(
                    parts.path, {name: each[-1] for name, each in parse_qs(parts.query).items()}
                )
                status, body, headers = said if isinstance(said, tuple) else (200, said, {})
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.answer(status, data, headers)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.enter_context(answering(server))
        system.address = f"http://127.0.0.1:{server.server_port}"
        return system

    with servers:
        yield start


def tempo(path: str, _asked: dict[str, str]) -> Any:
    """Answer as Tempo."""
    if path == "/api/search":
        return {"traces": [{"traceID": "5b8a"}], "metrics": {}}
    return EXPORTS["tempo"](RUN) if path == "/api/traces/5b8a" else (404, {}, {})


def jaeger(path: str, asked: dict[str, str]) -> Any:
    """Answer as Jaeger."""
    if path == "/api/services":
        return {"data": ["depot", "idle"]}
    return EXPORTS["jaeger"](RUN) if asked["service"] == "depot" else {"data": []}


def phoenix(path: str, asked: dict[str, str]) -> Any:
    """Answer as Phoenix, in two pages."""
    assert path == "/v1/projects/packing%20line/spans"
    page = EXPORTS["phoenix"](RUN)
    first = "cursor" not in asked
    page["data"] = page["data"][:7] if first else page["data"][7:]
    return page | {"next_cursor": "c7" if first else None}


def langfuse(path: str, asked: dict[str, str]) -> Any:
    """Answer as Langfuse, in two pages of which the second has the trace."""
    if path == "/api/public/traces":
        traces = [{"id": "t1", "observations": ["a"]}] if asked["page"] == "2" else []
        return {"data": traces, "meta": {"page": int(asked["page"]), "totalPages": 2}}
    return EXPORTS["langfuse"](RUN) if path == "/api/public/traces/t1" else (404, {}, {})


@pytest.mark.parametrize(
    ("answer", "query"),
    [
        (tempo, "?since=2h&service=depot"),
        (jaeger, ""),
        (phoenix, "?project=packing%20line"),
        (langfuse, "?since=7d"),
    ],
)
def test_the_loop_is_found_behind_each_api(
    answer: Callable[[str, dict[str, str]], Any], query: str, serve: Any
) -> None:
    """All pages are read, and those spans are what a file would hold."""
    system = serve(answer)
    read = read_spans([f"{answer.__name__}+{system.address}/{query}"])
    assert (read.skipped, read.spans.height) == ((), len(RUN))
    attempts = {each.rule: each.attempts for each in analyse(read.spans).findings}
    assert attempts["repeated_call"] == 5


def test_a_service_is_asked_for_by_name(serve: Any) -> None:
    """A name is quoted, and the time range is that of `since`."""
    system = serve(tempo)
    read_spans([f'tempo+{system.address}?service=a"b&since=30m'])
    asked = {name: value[0] for name, value in parse_qs(urlsplit(system.asked[0]).query).items()}
    assert asked["q"] == r'{ resource.service.name = "a\"b" }'
    assert 1800 <= int(asked["end"]) - int(asked["start"]) <= 1802


def test_a_range_with_too_many_traces_is_halved(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jaeger answers with the newest traces and says nothing of the others."""
    monkeypatch.setattr(apis, "LIMIT", 2)
    trace = EXPORTS["jaeger"](RUN)["data"][0]
    starts: list[int] = []

    def answer(_path: str, asked: dict[str, str]) -> Any:
        if not starts:  # Five traces, ten minutes apart.
            starts.extend(int(asked["end"]) - minute * 60_000_000 for minute in (5, 15, 25, 35, 45))
        found = [
            trace
            | {
                "traceID": f"{number + 1:032x}",
                "spans": [s | {"traceID": f"{number + 1:032x}"} for s in trace["spans"]],
            }
            for number, start in enumerate(starts)
            if int(asked["start"]) <= start < int(asked["end"])
        ]
        return {"data": found[:2]}

    system = serve(answer)
    read = read_spans([f"jaeger+{system.address}?service=depot&since=1h"])
    assert read.skipped == ()
    assert read.spans["trace_id"].n_unique() == 5


def test_what_may_come_later_is_asked_for_again(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on requests is waited for, as long as the system says."""
    waited: list[float] = []
    own, sleep = threading.get_ident(), time.sleep

    def wait(seconds: float) -> None:
        # Threads of earlier tests may still sleep, too.
        waited.append(seconds) if threading.get_ident() == own else sleep(seconds)

    monkeypatch.setattr(time, "sleep", wait)
    left: Iterator[Answer] = iter([(429, {}, {"Retry-After": "3"}), (503, {}, {})])
    system = serve(lambda path, asked: next(left, None) or jaeger(path, asked))
    read = read_spans([f"jaeger+{system.address}"])
    assert (read.skipped, read.spans.height, waited) == ((), len(RUN), [3.0, 2.0])


def test_the_token_goes_along_and_follows_no_redirect(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Langfuse takes two keys, the others a bearer token."""
    monkeypatch.setenv(apis.TOKEN_VARIABLE, "pk:sk")
    asked = serve(langfuse)
    read_spans([f"langfuse+{asked.address}"])
    assert set(asked.tokens) == {"Basic cGs6c2s="}
    other = serve(jaeger)
    system = serve(lambda path, _: (302, {}, {"Location": f"{other.address}{path}"}))
    ((skipped),) = read_spans([f"jaeger+{system.address}"]).skipped
    assert skipped.why == "answered with status 302; ask for less, or later"
    assert (set(system.tokens), other.asked) == ({"Bearer pk:sk"}, [])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((401, {}, {}), "refuses (status 401); set LOOPTRACE_SOURCE_TOKEN"),
        ((404, {}, {}), "has no /api/services; is this jaeger?"),
        ((200, b"<html>", {}), "does not answer in JSON at /api/services; check the address"),
        ({"data": []}, "has no traces of that time; ask with a longer `since`, as in ?since=7d"),
    ],
)
def test_what_cannot_be_had_is_said(answer: Any, why: str, serve: Any) -> None:
    """One line, with what to do."""
    system = serve(lambda _path, _asked: answer)
    ((skipped),) = read_spans([f"jaeger+{system.address}"]).skipped
    assert (skipped.where, skipped.why) == (f"jaeger+{system.address}", why)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (
            "http://127.0.0.1:1",
            "name the system that answers there: jaeger+http://… or langfuse+http://… or "
            "phoenix+http://… or tempo+http://…",
        ),
        ("jaeger+http://h?since=soon", "since must be a number and a unit, such as 30m, 12h or 7d"),
        (
            "phoenix+http://h?service=a",
            "phoenix has no parameter 'service' here; it has project, since",
        ),
    ],
)
def test_a_wrong_address_is_refused(path: str, why: str) -> None:
    """Nothing is asked."""
    assert [each.why for each in read_spans([path]).skipped] == [why]


def test_a_system_that_is_away_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for some time."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    ((skipped),) = read_spans(["tempo+http://127.0.0.1:9"]).skipped
    assert skipped.why.startswith("does not answer: ")
