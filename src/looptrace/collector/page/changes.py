"""What tells an open page that it is behind: server-sent events, without any content."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from looptrace.collector.server.gates_api import SILENCE_S, Changes, GatesApi
from looptrace.collector.store import reader

# How often the turns are looked at; gates are told of at once.
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class ChangeStream:
    """Follows gate events and turns; `turns_seen` counts those that the rules have seen."""

    api: GatesApi
    changes: Changes
    turns_seen: Callable[[], int]

    def state(self) -> str:
        """Return what a page that is made now shows, to be compared with what there is later."""
        return f"{self._last_seq()}-{self.turns_seen()}"

    async def follow(self, _request: Request) -> Response:
        """Send `gates` when something was decided, and `turns` when agents took turns."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(), headers=headers, media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        turns, seq = self.turns_seen(), await run_in_threadpool(self._last_seq)
        # A page may have been made before something that happened until now.
        yield f"retry: 1000\nevent: begun\ndata: {seq}-{turns}\n\n"
        silent_s = 0.0
        while not self.changes.is_over:
            is_told = await self.changes.wait(LOOK_S)
            silent_s += LOOK_S
            if is_told and (last := await run_in_threadpool(self._last_seq)) != seq:
                seq, silent_s = last, 0.0
                yield f"event: gates\ndata: {seq}\n\n"
            if (now := self.turns_seen()) != turns:
                turns, silent_s = now, 0.0
                yield f"event: turns\ndata: {turns}\n\n"
            if silent_s >= SILENCE_S:
                silent_s = 0.0
                yield ": still here\n\n"

    def _last_seq(self) -> int:
        with reader.open_gates(self.api.store_dir) as gates:
            return gates.last_seq()
