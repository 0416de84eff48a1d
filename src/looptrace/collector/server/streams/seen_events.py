"""Streams and what processes say on them, kept to the services of a token."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import msgspec
from starlette.concurrency import run_in_threadpool

from looptrace.collector.server.asked_tasks import Asked
from looptrace.collector.server.streams.hearing import NO_WAITS, Waits
from looptrace.collector.server.tokens.sight import Sight
from looptrace.typed_json import decoded

_ID, _DATA = "id: ", "data: "


class _OfTask(msgspec.Struct):
    """What of a notice names its task."""

    task: str


async def seen_events(
    store_dir: Path, sight: Sight, texts: AsyncGenerator[str, None]
) -> AsyncGenerator[str, None]:
    """Yield a stream without the events that are not seen; their numbers stay."""
    async with aclosing(texts):
        async for text in texts:
            if shown := await run_in_threadpool(_seen_text, store_dir, sight, text):
                yield shown


def _seen_text(store_dir: Path, sight: Sight, text: str) -> str:
    """Return a piece of a stream, which has one event at most, as it is seen."""
    lines = text.splitlines(keepends=True)
    data = [line.removeprefix(_DATA) for line in lines if line.startswith(_DATA)]
    tasks = {decoded(each, _OfTask).task for each in data}
    if tasks == sight.tasks(store_dir, tasks):
        return text
    return "".join(line for line in lines if line.startswith(_ID))


def seen_request(store_dir: Path, sight: Sight, asked: Asked) -> Asked:
    """Return a request without the tasks that are there and not seen."""
    hidden = sight.hidden(store_dir, asked.tasks)
    return replace(asked, tasks=tuple(task for task in asked.tasks if task not in hidden))


def seen_waits(store_dir: Path, sight: Sight, service: str | None, waits: Waits) -> Waits:
    """Return what a process of a service may say that it waits for."""
    if sight.services is None:
        return waits
    if service not in sight.services:
        return NO_WAITS
    hidden = sight.hidden(store_dir, (key for key in waits if isinstance(key, str)))
    # A session without its service may be one of another.
    return {key: wait for key, wait in waits.items() if isinstance(key, str) and key not in hidden}
