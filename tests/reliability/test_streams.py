"""P29: thousands follow one server, and whoever only holds connections keeps nobody from it."""

from __future__ import annotations

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

from tests.reliability.serving import OK, Served, looping, served, until

STREAMS = int(os.environ.get("LOOPTRACE_SOAK_STREAMS", "500"))
IDLE = int(os.environ.get("LOOPTRACE_SOAK_IDLE", "2000"))
TOKEN = "a-token-of-sixteen-characters"  # noqa: S105
OPENED_AT_ONCE = 50
# Of one event, with all streams beside the one that it is for: detection and all.
EVENT_CPU_S_MAX = 0.5
ANSWER_S_MAX = 2.0


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
            path = f"/v1/gates/stream?task=task-{number}&task=other-{number}"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {server.address}\r\n\r\n".encode())
            assert b" 200 " in await reader.readline()
            while b": here" not in await reader.readline():
                pass
            return reader

    try:
        yield list(await asyncio.gather(*map(follow, range(count))))
    finally:
        for writer in writers:
            writer.close()


def test_an_event_comes_to_the_stream_of_its_task_alone(tmp_path: Path) -> None:
    """P29: and what it costs does not grow with those whom it does not concern."""

    async def go(server: Served) -> tuple[float, float, list[int]]:
        async with following(server, STREAMS) as readers:
            await asyncio.sleep(0.5)
            before_s, began_s = server.cpu_s, time.monotonic()
            trace = looping("task-7", 6, at=datetime.now(UTC).isoformat())
            assert await asyncio.to_thread(server.send, trace.request()) == OK
            while not (line := await readers[7].readline()).startswith(b"data:"):
                pass
            took_s, used_s = time.monotonic() - began_s, server.cpu_s - before_s
            assert json.loads(line.removeprefix(b"data:"))["task"] == "task-7"
            await asyncio.sleep(0.5)
            others = [n for n, reader in enumerate(readers) if b"data" in bytes(reader._buffer)]  # type: ignore[attr-defined]
            return used_s, took_s, others

    with served(tmp_path / "store", "--no-grpc") as server:
        until(lambda: server.ask("GET", "/readyz")[0] == OK)
        used_s, took_s, others = asyncio.run(go(server))
        memory_kib = server.kib("VmRSS")
    assert set(others) <= {7}
    assert used_s < EVENT_CPU_S_MAX, f"{used_s:.2f} s, {took_s:.2f} s, {memory_kib} KiB"


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
            deadline_s = time.monotonic() + 20
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
