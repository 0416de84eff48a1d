"""Many agents behind one address that connect at the same moment, and who keeps them out."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.otlp import as_json
from tests.reliability.receivers import sample
from tests.reliability.serving import Served, served, until

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

TOKEN = "a-token-of-sixteen-characters"  # noqa: S105
AGENTS = 2_000
ROOM = 100
SERVED_S_MAX = 5.0


def request(server: Served, token: str) -> bytes:
    """Return a request with a span, on a connection that is closed after it."""
    body = as_json(sample())
    return b"POST /v1/traces HTTP/1.1\r\nhost: %s\r\n%s%s\r\n\r\n%s" % (
        server.address.encode(),
        b"authorization: Bearer %s\r\n" % token.encode() if token else b"",
        b"content-type: application/json\r\ncontent-length: %d" % len(body),
        body,
    )


async def connected(server: Served, count: int) -> list[Connection]:
    """Connect at once, all from one address."""
    host, _, port = server.address.partition(":")
    opening = (asyncio.open_connection(host, int(port)) for _ in range(count))
    return list(await asyncio.gather(*opening))


async def statuses(connections: list[Connection], sent: bytes) -> Counter[str]:
    """Send the same on each connection at once, and count the statuses of the answers."""
    for _, writer in connections:
        writer.write(sent)

    async def status(reader: asyncio.StreamReader) -> str:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        except (ConnectionError, asyncio.IncompleteReadError):
            return "closed"
        return head[9:12].decode()

    return Counter(await asyncio.gather(*(status(reader) for reader, _ in connections)))


def close(connections: list[Connection]) -> None:
    """Close connections."""
    for _, writer in connections:
        writer.close()


@pytest.mark.parametrize("token", ["", TOKEN], ids=["without a token", "with a token"])
def test_all_agents_of_one_address_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """P29: 2,000 that connect at the same moment cost less than 5 s, and none is sent away."""
    monkeypatch.setenv("LOOPTRACE_TOKENS", token)

    async def go(server: Served) -> None:
        agents = await connected(server, AGENTS)
        assert await statuses(agents, request(server, token)) == {"200": AGENTS}
        close(agents)

    with served(tmp_path / "store", "--no-grpc") as server:
        until(server.is_ready)
        # The time of its processor, because other tests run beside this one.
        before_s = server.cpu_s
        asyncio.run(go(server))
        assert server.cpu_s - before_s < SERVED_S_MAX


def test_strangers_make_room_for_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """P29: who shows no token is closed first and counted; agents keep their connections."""
    monkeypatch.setenv("LOOPTRACE_TOKENS", TOKEN)
    config = f"[server]\nconnections_max = {ROOM}\nretry_after_s = 9\n"

    async def go(server: Served) -> None:
        friend, half = request(server, TOKEN), ROOM // 2
        early = await connected(server, half)
        assert await statuses(early, friend) == {"200": half}
        silent = await connected(server, 2 * ROOM)
        late = await connected(server, half)
        assert await statuses(late, friend) == {"200": half}, "the oldest go"
        assert await statuses(early, friend) == {"200": half}, "who is known stays"
        too_many = await connected(server, 1)
        assert await statuses(too_many, friend) == {"503": 1}
        close(early)
        await asyncio.to_thread(until, lambda: server.ask("GET", "/v1/gates")[0] in {200, 401})
        again = await connected(server, half)
        assert await statuses(again, friend) == {"200": half}
        close(silent + late + too_many + again)

    with served(tmp_path / "store", "--no-grpc", config=config) as server:
        until(server.is_ready)
        asyncio.run(go(server))
        until(server.is_ready)
    said = capfd.readouterr().err
    assert said.count("it had no accepted request (see server.connections_max)") == 1
