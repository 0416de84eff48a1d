"""Gate events for those who follow them: read once, and handed to whoever asked for their task.

What an event costs goes by those whom it concerns, however many others follow.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from looptrace.analyzer.gates.directives import Directives, notice_of
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.text.session_names import service_of
from looptrace.collector.server.asked_tasks import Asked
from looptrace.collector.store import reader
from looptrace.collector.store.gates import GateStore

T = TypeVar("T")

# A stream says that it is there at least this often; clients wait four times as long.
SILENCE_S = 15.0
# Whoever is so many events behind is let go, and comes back with the number of the last one.
EVENTS_WAITING_MAX = 1_000
# What a follower waits for: a task, a session whose service was not named, or all (None).
_SESSION = "session"
_Key = str | tuple[str, str | None] | None
_HERE, _STILL_HERE = ": here\n\n", ": still here\n\n"


class Changes:
    """Tells those who follow the gates that there is news; made on the event loop."""

    def __init__(self) -> None:
        self.is_over = False
        self.count = 0  # of news so far
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def tell(self) -> None:
        """Wake all who wait; from any thread."""
        self._loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """Let nobody wait any more."""
        self.is_over = True
        self._wake()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for news, or for so long; says whether there is news."""
        try:
            return await asyncio.wait_for(self._news.wait(), timeout_s)
        except TimeoutError:
            return False

    def _wake(self) -> None:
        self.count += 1
        self._news.set()
        self._news = asyncio.Event()


@dataclass(frozen=True, slots=True)
class _News:
    """An event as it is sent, by its number, its task, and other names that this is asked by."""

    seq: int
    task: str
    names: tuple[str, ...]
    session: str | None  # whose task it is, where it belongs to a service
    text: str


@dataclass(eq=False, slots=True)
class _Follower:
    """Who follows: the events that wait for it, with their numbers."""

    sessions: dict[str, str | None]
    waiting: list[tuple[int, str]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def put(self, news: _News) -> None:
        """Take an event; of a second service with a session that it asked for, it takes none."""
        if news.session in self.sessions:
            self.is_over |= self.sessions[news.session] not in (None, news.task)
            self.sessions[news.session] = news.task
        self.is_over |= len(self.waiting) >= EVENTS_WAITING_MAX
        if not self.is_over:
            self.waiting.append((news.seq, news.text))
        self.news.set()

    async def take(self) -> list[tuple[int, str]]:
        """Return what waits, after SILENCE_S also nothing."""
        try:
            async with asyncio.timeout(SILENCE_S):
                await self.news.wait()
        except TimeoutError:
            return []
        self.news.clear()
        taken, self.waiting = self.waiting, []
        return taken


class EventFeed:
    """The events of one store; made and used on the event loop."""

    def __init__(self, store_dir: Path, changes: Changes, directives: Directives) -> None:
        """Read the gates of a store when `changes` tells of news."""
        self._store_dir = store_dir
        self._changes = changes
        self._directives = directives
        self._thread = ThreadPoolExecutor(1, "looptrace-feed")
        self._gates: GateStore | None = None  # used on the thread alone
        self._seq = 0
        self._work: asyncio.Task[None] | None = None
        self._followers: dict[_Key, set[_Follower]] = defaultdict(set)

    async def follow(self, asked: Asked, after_seq: int | None) -> AsyncIterator[str]:
        """Yield server-sent events of some tasks, or of all, after a number.

        Without a number they begin with the gates that are open now. Where a second service turns
        out to have a session that was asked for without a service, the events end.
        """
        follower = _Follower(dict(asked.sessions))
        keys: list[_Key] = [*asked.tasks, *((_SESSION, each) for each in asked.sessions)] or [None]
        for key in keys:
            self._followers[key].add(follower)
        try:
            seq, texts = await self._in_thread(self._begin, asked.tasks, after_seq)
            if self._work is None:  # Before anybody whose stream begins later.
                self._seq = seq
                self._work = asyncio.create_task(self._distribute())
            for text in texts:
                yield text
            yield _HERE
            while not (self._changes.is_over or follower.is_over):
                news = await follower.take()
                for number, text in news:
                    if number > seq:
                        yield text
                if not news and not follower.is_over:
                    yield _STILL_HERE
        finally:
            for key in keys:
                self._forget(key, follower)

    def close(self) -> None:
        """End the thread."""
        self._thread.submit(self._close)
        self._thread.shutdown()

    def _concerned(self, news: _News) -> set[_Follower]:
        keys: tuple[_Key, ...] = (None, news.task, *news.names, (_SESSION, news.session))
        return set().union(*(self._followers.get(key, ()) for key in keys))

    def _forget(self, key: _Key, follower: _Follower) -> None:
        self._followers[key].discard(follower)
        if not self._followers[key]:
            del self._followers[key]

    async def _distribute(self) -> None:
        """Hand on what is new, for as long as anybody follows."""
        try:
            while self._followers and not self._changes.is_over:
                seen = self._changes.count
                for news in await self._in_thread(self._after, self._seq):
                    self._seq = news.seq
                    for follower in self._concerned(news):
                        follower.put(news)
                if seen == self._changes.count:
                    await self._changes.wait(SILENCE_S)
        finally:
            self._work = None
            for follower in {each for those in self._followers.values() for each in those}:
                follower.is_over = True
                follower.news.set()

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    def _store(self) -> GateStore:
        if self._gates is None:
            self._gates = reader.open_gates(self._store_dir)
        return self._gates

    def _close(self) -> None:
        if self._gates is not None:
            self._gates.close()

    def _begin(self, tasks: Collection[str], after_seq: int | None) -> tuple[int, list[str]]:
        """Return the number that a stream begins after, and its first events."""
        gates = self._store()
        wanted: list[str | None] = [*tasks] or [None]
        seq = gates.last_seq()
        if after_seq is None:
            ids = [gate.id for task in wanted for gate in gates.gates("open", task)]
            opened = [(seq, gates.gate(gate_id).event) for gate_id in ids]
        else:
            events = (pair for task in wanted for pair in gates.events(after_seq, task))
            # What comes meanwhile is handed on after these.
            opened = sorted((pair for pair in events if pair[0] <= seq), key=itemgetter(0))
        return seq, [self._news(number, event).text for number, event in opened]

    def _after(self, seq: int) -> list[_News]:
        return [self._news(number, event) for number, event in self._store().events(seq)]

    def _news(self, seq: int, event: GateEvent) -> _News:
        names = tuple(self._store().names_of(event.task))
        notice = notice_of(event, self._directives, names)
        text = f"id: {seq}\nevent: {event.type}\ndata: {_json(notice)}\n\n"
        is_of_service = service_of(event.task, event.session) is not None
        return _News(seq, event.task, names, event.session if is_of_service else None, text)


def _json(notice: GateNotice) -> str:
    return msgspec.json.encode(asdict(notice)).decode()
