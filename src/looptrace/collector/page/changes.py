"""What tells an open page that it is behind: server-sent events, without any content."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from looptrace.collector.page.other_servers import OtherServers
from looptrace.collector.server.service import Service
from looptrace.collector.server.streams.event_feed import SILENCE_S
from looptrace.collector.store import reader

# How often the turns are looked at; gates are told of at once.
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class ChangeStream:
    """Follows gate events, of other servers as well, and turns as they come into the store."""

    service: Service
    others: OtherServers

    def state(self) -> str:
        """Return what a page that is made now shows, to be compared with what there is later."""
        return f"{self._seen()}-{self._stored()}"

    def version(self) -> Hashable:
        """Return what changes with every change of the store's turns and decisions."""
        counts = self.service.archiver.counts
        return counts.rounds, counts.expired_parts, self._last_seq()

    async def follow(self, request: Request) -> Response:
        """Send `gates` when something was decided, and `turns` when turns came into the store.

        Whoever asks for `turns` has them brought there soon.
        """
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        events = self._events(brings_turns="turns" in request.query_params)
        return StreamingResponse(events, headers=headers, media_type="text/event-stream")

    async def _events(self, *, brings_turns: bool) -> AsyncIterator[str]:
        stored, seq = self._stored(), await run_in_threadpool(self._seen)
        # A page may have been made before something that happened until now.
        yield f"retry: 1000\nevent: begun\ndata: {seq}-{stored}\n\n"
        silent_s = 0.0
        changes, archiver = self.service.changes, self.service.archiver
        while not changes.is_over:
            is_told = await changes.wait(LOOK_S)
            silent_s += LOOK_S
            if brings_turns and archiver.counts.seq < self.service.detector.counts.seq:
                archiver.wake()
            is_told |= await run_in_threadpool(self._others_differ)
            if is_told and (last := await run_in_threadpool(self._seen)) != seq:
                seq, silent_s = last, 0.0
                yield f"event: gates\ndata: {seq}\n\n"
            if (now := self._stored()) != stored:
                stored, silent_s = now, 0.0
                yield f"event: turns\ndata: {stored}\n\n"
            if silent_s >= SILENCE_S:
                silent_s = 0.0
                yield ": still here\n\n"

    def _others_differ(self) -> bool:
        before = self.others.changes
        self.others.look()
        return self.others.changes != before

    def _seen(self) -> int:
        """Return what changes with each event here, and with each answer of other servers."""
        return self._last_seq() + self.others.changes

    def _last_seq(self) -> int:
        with reader.open_gates(self.service.gates.store_dir) as gates:
            return gates.last_seq()

    def _stored(self) -> int:
        return self.service.archiver.counts.spans
