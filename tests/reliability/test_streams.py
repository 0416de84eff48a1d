"""P29: thousands follow one server, and idle connections block nobody."""

import asyncio
import http.client
import json
import os
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from looptrace.analyzer.gates.notice import GateNotice
from looptrace.collector.sdk.gate_stream import GateStream, Server
from looptrace.collector.sdk.server_watch import ServerWatch
from tests.reliability.serving import DEADLINE_S, OK, Served, looping, served, until

STREAMS = int(os.environ.get("LOOPTRACE_SOAK_STREAMS", "500"))
IDLE = int(os.environ.get("LOOPTRACE_SOAK_IDLE", "2000"))
TOKEN = "a-token-of-sixteen-characters"  # noqa: S105
OPENED_AT_ONCE = 50
# Of one event, with all streams beside the one that it is for: detection and all.
EVENT_CPU_S_MAX = 0.5
# Connections that are never let go would keep others out for a minute (`idle_s`).
ANSWER_S_MAX = 10.0


@pytest.fixture(autouse=True)
def _files() -> None:
    """Let the test have as many connections as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most < max(STREAMS, IDLE) + 500:
        pytest.skip(f"only {most} files may be open")


@asynccontextmanager
async def following(server: Served, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Follow the tasks `task-0`, `task-1` and so on, each on a stream of its own."""
    host, _, port = server.address.partition(":")
    free = asyncio.Semaphore(OPENED_AT_ONCE)
    writers = []

    async def follow(number: int) -> asyncio.StreamReader:
        async with free:
            reader, writer = await asyncio.open_connection(host, int(port))
            writers.append(writer)
            writer.write(post(server, "/v1/gates/stream", tasks=[f"task-{number}"]))
            stream_id = ""
            while b": here" not in (line := await reader.readline()):
                name, _, value = line.decode().partition(": ")
                stream_id = value.strip() if name.lower() == "looptrace-stream" else stream_id
            path = f"/v1/gates/stream/{stream_id}"
            assert await answered(server, post(server, path, traces=[f"{number:032x}"])) == OK
            while b": still here" not in await reader.readline():
                pass
            return reader

    try:
        yield list(await asyncio.gather(*map(follow, range(count))))
    finally:
        for writer in writers:
            writer.close()


def post(server: Served, path: str, **names: list[str]) -> bytes:
    """Return a request that asks for names."""
    body = json.dumps(names)
    head = f"POST {path} HTTP/1.1\r\nHost: {server.address}\r\nContent-Length: {len(body)}"
    return f"{head}\r\nContent-Type: application/json\r\n\r\n{body}".encode()


async def answered(server: Served, request: bytes) -> int:
    """Send a request on a connection of its own; returns the status."""
    host, _, port = server.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


def test_an_event_comes_to_the_stream_of_its_task_alone(tmp_path: Path) -> None:
    """P29: and what it costs does not grow with those whom it does not concern."""

    async def go(server: Served) -> tuple[float, float, list[int]]:
        async with following(server, STREAMS) as readers:
            # The first event of a server compiles the patterns.
            for number in (6, 7):
                await asyncio.sleep(0.5)
                before_s, began_s = server.cpu_s, time.monotonic()
                trace = looping(f"task-{number}", 6, at=now())
                assert await asyncio.to_thread(server.send, trace.request()) == OK
                while not (line := await readers[number].readline()).startswith(b"data:"):
                    pass
                took_s, used_s = time.monotonic() - began_s, server.cpu_s - before_s
                assert json.loads(line.removeprefix(b"data:"))["task"] == f"task-{number}"
            await asyncio.sleep(0.5)
            others = [n for n, reader in enumerate(readers) if b"data" in bytes(reader._buffer)]  # type: ignore[attr-defined]
            return used_s, took_s, others

    with served(tmp_path / "store", "--no-grpc") as server:
        until(server.is_ready)
        used_s, took_s, others = asyncio.run(go(server))
        memory_kib = server.kib("VmRSS")
    assert set(others) <= {6, 7}
    assert used_s < EVENT_CPU_S_MAX, f"{used_s:.2f} s, {took_s:.2f} s, {memory_kib} KiB"


def test_a_process_is_sent_what_concerns_it(tmp_path: Path) -> None:
    """P29: it asks for the traces that it runs, and for a task by its name, on one stream."""
    said: list[GateNotice] = []
    with served(tmp_path / "store", "--no-grpc") as server:
        stream = GateStream(
            Server(f"http://{server.address}"), said.append, ServerWatch(fail_closed=False)
        )
        own, named = looping("own", 6, at=now()), looping("named", 6, at=now())
        stream.follow(traces=[own.trace_id])
        until(lambda: stream.last_id)
        assert server.send(looping("other", 6, at=now()).request()) == OK
        assert server.send(own.request()) == OK
        until(lambda: any(each.task == "own" for each in said))
        stream.follow(tasks=["named"])
        assert server.send(named.request()) == OK
        until(lambda: any(each.task == "named" and each.gate for each in said))
        until(lambda: server.ask("GET", "/v1/gates")[1]["total"] == 3)
        opened = {each.task: each.gate for each in said if each.type == "gate_opened"}
        resolve = f"/v1/gates/{opened['own']}/resolve"
        assert server.ask("POST", resolve, b'{"decision": "continue"}')[0] == OK
        until(lambda: any(each.type == "gate_resolved" for each in said))
        for path, body, status in (
            ("/v1/gates/stream/none", b"{}", 404),
            ("/v1/gates/stream", b'{"tasks": 1}', 400),
            ("/v1/gates/stream", b'{"task": []}', 400),
            ("/v1/gates/stream", b'{"traces": [%s]}' % b",".join([b'"t"'] * 1_001), 400),
            ("/v1/gates/stream", b" " * 300_000, 400),
        ):
            assert server.ask("POST", path, body)[0] == status, body[:80]
        stream.close()
    assert {each.task for each in said} == {"own", "named"}
    assert len({each.id for each in said}) == len(said)


def now() -> str:
    """Return the time of day, since what is old when it comes is not at work."""
    return datetime.now(UTC).isoformat()


def test_idle_connections_keep_nobody_from_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P29: without a token they are few; agents and `/healthz` are served beside them."""
    monkeypatch.setenv("LOOPTRACE_TOKENS", TOKEN)

    async def go(server: Served) -> None:
        host, _, port = server.address.partition(":")
        agent = http.client.HTTPConnection(server.address, timeout=20)
        with closing(agent):
            assert asked(agent, "/v1/gates", TOKEN) == OK
            held = []
            for _ in range(IDLE // OPENED_AT_ONCE):
                opening = (asyncio.open_connection(host, int(port)) for _ in range(OPENED_AT_ONCE))
                held += await asyncio.gather(*opening)
            began_s = time.monotonic()
            assert asked(agent, "/v1/gates", TOKEN) == OK, "a connection that is known stays"
            with closing(http.client.HTTPConnection(server.address, timeout=20)) as new:
                assert asked(new, "/healthz", None) == OK
            with closing(http.client.HTTPConnection(server.address, timeout=20)) as new:
                assert asked(new, "/v1/gates", TOKEN) == OK
            assert time.monotonic() - began_s < ANSWER_S_MAX
            deadline_s = time.monotonic() + DEADLINE_S
            while sum(map(has_ended, held)) < IDLE - 250:
                assert time.monotonic() < deadline_s, "the oldest are let go"
                await asyncio.sleep(0.1)
            for _, writer in held:
                writer.close()

    with served(tmp_path / "store", "--no-grpc") as server:
        asyncio.run(go(server))


def has_ended(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bool:
    """Return whether the server closed a connection."""
    return connection[0].at_eof() or connection[0].exception() is not None


def asked(connection: http.client.HTTPConnection, path: str, token: str | None) -> int:
    """Ask on a connection; returns the status."""
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    answer.read()
    return answer.status
