"""Gate events for followers: each is read once, and passed to the followers of its task.

The cost of an event depends on its own followers, and not on the number of others.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, TypeVar

from looptrace.analyzer.gates.agent_states import AgentKey, keys_of, session_key
from looptrace.analyzer.gates.directives import Directives, notice_of
from looptrace.analyzer.gates.events import EventType, GateEvent
from looptrace.analyzer.text.session_names import service_of
from looptrace.collector.server.asked_tasks import Asked
from looptrace.collector.server.streams.hearing import NO_WAITS, Hearing, Waits
from looptrace.collector.store import reader
from looptrace.collector.store.gates import GateStore
from looptrace.collector.store.sqlite_file import json_of

T = TypeVar("T")

# A stream sends a sign of life at least this often; clients wait four times as long.
SILENCE_S = 15.0
# A follower that is so many events behind is disconnected, and returns with the last number.
EVENTS_WAITING_MAX = 1_000
# The events kept in memory for followers that ask for their trace a moment later.
RECENT_MAX = 2_000
# A follower that asks for more on one stream is disconnected.
STREAM_KEYS_MAX = 5_000
# A follower waits for a task or trace, a session without its service, or all (None).
_FeedKey = AgentKey | None
_HERE, _STILL_HERE = ": here\n\n", ": still here\n\n"


class Changes:
    """Wakes the followers of gates on new events; made on the event loop."""

    def __init__(self) -> None:
        self.is_over = False
        self.count = 0  # news so far
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def tell(self) -> None:
        """Wake all waiting followers, from any thread."""
        self._loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """End all waits."""
        self.is_over = True
        self._wake()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for new events up to a time; return whether there are any."""
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
    """An event in the form that is sent, with its number and its keys."""

    seq: int
    id: str
    kind: EventType
    gate: str
    task: str
    session: str | None  # of the task, where it belongs to a service
    keys: frozenset[_FeedKey]
    body: str  # as sent, without its number

    @property
    def text(self) -> str:
        return f"id: {self.seq}\n{self.body}"


class _Recent:
    """The last events that were sent, by their keys."""

    def __init__(self) -> None:
        self.after_seq = 0  # It holds all events from this number on.
        self._in_order: deque[_News] = deque()
        self._by_key: defaultdict[_FeedKey, deque[_News]] = defaultdict(deque)

    def add(self, news: _News) -> None:
        self._in_order.append(news)
        for key in news.keys:
            self._by_key[key].append(news)
        if len(self._in_order) > RECENT_MAX:
            oldest = self._in_order.popleft()
            self.after_seq = oldest.seq
            for key in oldest.keys:
                self._by_key[key].popleft()
                if not self._by_key[key]:
                    del self._by_key[key]

    def begin(self, after_seq: int) -> None:
        """Drop all events, and keep those after a number."""
        self.after_seq = after_seq
        self._in_order.clear()
        self._by_key.clear()

    def of(self, keys: Iterable[_FeedKey], after_seq: int) -> list[_News]:
        """Return the events of some keys after a number, in their order."""
        held = chain.from_iterable(self._by_key.get(key, ()) for key in keys)
        news = {each.seq: each for each in held if each.seq > after_seq}
        return [news[seq] for seq in sorted(news)]


@dataclass(eq=False, slots=True)
class _Follower:
    """A follower: its names, and the events that wait for it."""

    sessions: dict[str, str | None] = field(default_factory=dict)
    keys: set[_FeedKey] = field(default_factory=set)
    waiting: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def put(self, news: _News) -> None:
        """Take an event, unless it is of a second service with a requested session."""
        if news.session in self.sessions:
            self.is_over |= self.sessions[news.session] not in (None, news.task)
            self.sessions[news.session] = news.task
        self.is_over |= len(self.waiting) >= EVENTS_WAITING_MAX
        if not self.is_over:
            self.waiting.append(news.text)
        self.news.set()

    async def take(self) -> list[str]:
        """Return the waiting events, none after SILENCE_S."""
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
        """Read the gates of a store when `changes` reports news."""
        self._store_dir = store_dir
        self._changes = changes
        self._directives = directives
        self.hearing = Hearing(changes.tell)
        self._thread = ThreadPoolExecutor(1, "looptrace-feed")
        self._gates: GateStore | None = None  # used on the thread alone
        self._seq = 0  # of the last event that was passed on
        self._recent = _Recent()
        self._work: asyncio.Task[None] | None = None
        self._followers: dict[_FeedKey, set[_Follower]] = defaultdict(set)
        self._all: set[_Follower] = set()
        self.open_streams = 0
        self._streams: dict[str, _Follower] = {}  # followers that may change their request

    async def follow(
        self, asked: Asked, after_seq: int | None, stream_id: str = "", waits: Waits = NO_WAITS
    ) -> AsyncGenerator[str, None]:
        """Yield server-sent events for a request, after a number.

        They begin with the open gates, except for followers of all after a number; without a number
        they also have recent events of the traces. They end where a second service turns out to
        have a session that was requested without a service. The id of a stream allows to change its
        request, and what its process waits for.
        """
        follower = _Follower()
        self.hearing.waits(stream_id, waits)
        self.open_streams += 1
        try:
            for text in await self._add(follower, asked, after_seq):
                yield text
            if stream_id:
                self._streams[stream_id] = follower
            yield _HERE
            while not (self._changes.is_over or follower.is_over):
                texts = await follower.take()
                for text in texts:
                    yield text
                if not texts and not follower.is_over:
                    # A follower that returns begins after the last event, even if that was not its
                    # own.
                    yield (_STILL_HERE if follower.waiting else f"id: {self._seq}\n{_STILL_HERE}")
        finally:
            self.open_streams -= 1
            follower.is_over = True
            self._streams.pop(stream_id, None)
            self.hearing.waits(stream_id, NO_WAITS)
            self._all.discard(follower)
            self._forget(follower, follower.keys)

    async def change(
        self, stream_id: str, asked: Asked, dropped: Collection[str], waits: Waits = NO_WAITS
    ) -> bool:
        """Add to the request of a stream, and remove some traces; return whether the stream exists.

        The added part begins like a stream.
        """
        follower = self._streams.get(stream_id)
        if follower is None:
            return False
        self.hearing.waits(stream_id, waits)
        self._forget(follower, follower.keys & {*dropped})
        texts = await self._add(follower, asked, None)
        # The list is read here, because it is another one by now.
        follower.waiting += [*texts, _STILL_HERE]
        follower.is_over |= len(follower.keys) > STREAM_KEYS_MAX
        follower.news.set()
        return True

    def end(self, stream_id: str, at_ns: int) -> bool:
        """Note that the process of a stream ends; return whether the stream exists."""
        follower = self._streams.get(stream_id)
        if follower is None:
            return False
        self.hearing.ends(follower.keys, at_ns)
        follower.is_over = True
        follower.news.set()
        return True

    def close(self) -> None:
        """End the thread."""
        self._thread.submit(self._close)
        self._thread.shutdown()

    async def _add(self, follower: _Follower, asked: Asked, after_seq: int | None) -> list[str]:
        """Add to the request of a follower; return the beginning of its stream, up to a comment.

        In this order: the events after the number, or recent ones of the traces; the open gates;
        and the events since these were read. Later events wait for the follower.
        """
        keys = _keys_of(asked)
        opens = after_seq is None or not asked.is_all
        opened_at, opened, came = await self._in_thread(
            self._begin, asked if opens else Asked(), self._seq
        )
        self._hand_on(came)
        since, old = after_seq, list[_News]()
        while since is not None and since < self._recent.after_seq:
            before = self._recent.after_seq
            old += await self._in_thread(self._between, since, before, keys)
            since = before
        # Nothing is awaited from here on, so that no event comes in between.
        if follower.is_over:
            return []
        old += self._recent.of(keys, since) if since is not None else self._past(asked.traces)
        # For a task that is already followed, events must not be older than the ones sent before.
        # Events since the gates were read come after them, as the end of one of them may be there.
        old = [
            each for each in old if each.seq <= opened_at and each.keys.isdisjoint(follower.keys)
        ]
        self._register(follower, asked, keys)
        new = self._recent.of(keys, opened_at)
        ids = {each.id for each in (*old, *new)}
        opened = [each for each in opened if each.id not in ids]
        if since is not None:
            texts = [each.text for each in old] + [each.body for each in opened]
            return [*texts, *(each.text for each in new), f"id: {self._seq}\n"]
        # A follower that is cut off before the last event returns with the earlier number.
        *bodies, last = [each.body for each in (*old, *opened, *new)] or [""]
        return [*bodies, f"id: {self._seq}\n{last}"]

    def _past(self, traces: Iterable[str]) -> list[_News]:
        """Return the recent events of traces, without the openings of gates that have ended.

        An agent that stands at another gate by now, or is cut off here, would take one for open.
        """
        past = self._recent.of(traces, 0)
        ended = {each.gate for each in past if each.kind == "gate_resolved"}
        return [each for each in past if each.kind != "gate_opened" or each.gate not in ended]

    def _register(self, follower: _Follower, asked: Asked, keys: set[_FeedKey]) -> None:
        self._all.add(follower)
        self.hearing.begins(keys)
        if self._work is None:
            self._work = asyncio.create_task(self._distribute())
        follower.sessions |= asked.sessions
        for key in keys - follower.keys:
            self._followers[key].add(follower)
        follower.keys |= keys

    def _forget(self, follower: _Follower, keys: Collection[_FeedKey]) -> None:
        for key in tuple(keys):
            follower.keys.discard(key)
            self._followers[key].discard(follower)
            if not self._followers[key]:
                del self._followers[key]

    def _hand_on(self, news: Iterable[_News]) -> None:
        """Pass events to the followers that they concern, each once."""
        for each in news:
            if each.seq <= self._seq:
                continue
            if each.seq > self._seq + 1:  # These came while there were no followers.
                self._recent.begin(each.seq - 1)
            self._seq = each.seq
            self._recent.add(each)
            concerned = (self._followers.get(key, ()) for key in each.keys)
            for follower in set().union(*concerned):
                follower.put(each)

    async def _distribute(self) -> None:
        """Pass on new events while there are followers."""
        try:
            while self._all and not self._changes.is_over:
                seen = self._changes.count
                self._hand_on(await self._in_thread(self._after, self._seq))
                if seen == self._changes.count:
                    await self._changes.wait(SILENCE_S)
        finally:
            self._work = None
            for follower in self._all:
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

    def _begin(self, asked: Asked, seq: int) -> tuple[int, list[_News], list[_News]]:
        """Return a number, the gates open at it, and the events after another number."""
        gates = self._store()
        opened_at = gates.last_seq()
        wanted = [None] if asked.is_all else asked.tasks
        ids = [gate.id for task in wanted for gate in gates.gates("open", task)]
        opened = [self._news(opened_at, gates.gate(gate_id).event) for gate_id in ids]
        return opened_at, opened, self._after(max(seq, opened_at - RECENT_MAX))

    def _between(self, seq: int, up_to_seq: int, keys: Collection[_FeedKey]) -> list[_News]:
        news = takewhile(lambda each: each.seq <= up_to_seq, self._after(seq))
        return [each for each in news if not each.keys.isdisjoint(keys)]

    def _after(self, seq: int) -> list[_News]:
        return [self._news(number, event) for number, event in self._store().events(seq)]

    def _news(self, seq: int, event: GateEvent) -> _News:
        """Return an event as it is sent; a late name of an open gate is its opening once more."""
        kind, is_for_nobody = event.type, event.is_left_alone
        if event.type == "gate_renamed":
            details = self._store().gate(event.gate)
            event, is_for_nobody = details.event, details.gate.status != "open"
        names = tuple(self._store().names_of(event.task))
        notice = notice_of(event, self._directives, names)
        session = None if service_of(event.task, event.session) is None else event.session
        keys: set[_FeedKey] = {None, *keys_of(event, names)}
        return _News(
            seq=seq,
            id=event.id,
            kind=kind,
            gate=event.gate,
            task=event.task,
            session=session,
            keys=frozenset(() if is_for_nobody else keys),
            body=f"event: {kind}\ndata: {json_of(asdict(notice))}\n\n",
        )


def _keys_of(asked: Asked) -> set[_FeedKey]:
    sessions = map(session_key, asked.sessions)
    return {*asked.tasks, *asked.traces, *sessions, *([None] if asked.is_all else ())}
