"""Server-sent events that tell an open page to reload, without any content."""

from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from looptrace.collector.page.other_servers import OtherServers
from looptrace.collector.server.service import Service
from looptrace.collector.server.streams.event_feed import SILENCE_S
from looptrace.collector.store import reader

# The interval of looking for new turns; changes of gates are sent at once.
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class ChangeStream:
    """Follows gate events, of other servers as well, and turns as they come into the store."""

    service: Service
    others: OtherServers

    def state(self) -> str:
        """Return the current state, which a page keeps to compare it with later ones."""
        return f"{self._seen()}-{self._stored()}"

    def version(self) -> Hashable:
        """Return a version that changes with the store's turns and decisions."""
        return *self.service.archiver.version(), self._last_seq()

    async def follow(self, request: Request) -> Response:
        """Send `gates` after decisions and gate events, and `turns` when turns came into the store.

        A request for `turns` has waiting turns stored soon.
        """
        headers = {"X-Accel-Buffering": "no"}
        events = self._events(brings_turns="turns" in request.query_params)
        return StreamingResponse(events, headers=headers, media_type="text/event-stream")

    async def _events(self, *, brings_turns: bool) -> AsyncIterator[str]:
        stored, seq = self._stored(), await run_in_threadpool(self._seen)
        # Something may have happened since the page was made.
        yield f"retry: 1000\nevent: begun\ndata: {seq}-{stored}\n\n"
        silent_s = 0.0
        changes, archiver = self.service.changes, self.service.archiver
        while not changes.is_over:
            is_told = await changes.wait(LOOK_S)
            silent_s += LOOK_S
            if brings_turns and archiver.counts.seq < self.service.detector.counts.seq:
                archiver.ask()
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
        """Return what changes with each event, each wait of an agent, and news of other servers."""
        return self._last_seq() + self.others.changes + self.service.feed.hearing.changes

    def _last_seq(self) -> int:
        with reader.open_gates(self.service.gates.store_dir) as gates:
            return gates.last_seq()

    def _stored(self) -> str:
        """Return what changes with the turns of the store, also where days are deleted."""
        archiver = self.service.archiver
        return f"{archiver.counts.spans}.{archiver.expired.total()}"
