"""The overview: how often tasks loop, the cost, and the decisions that worked."""

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from looptrace import queries
from looptrace.collector.page.figures.periods import (
    PERIODS,
    Period,
    StoredFigures,
    bars_of,
    figures_in,
    stored_figures,
)
from looptrace.collector.page.rendering import Renderer
from looptrace.collector.page.task_list import TaskIndex
from looptrace.collector.server.gates_api import GatesApi
from looptrace.collector.store import reader
from looptrace.collector.store.sql.connection import ask_each

# The queries that ship for `looptrace query`.
QUERIES = (
    "findings_by_rule_and_agent",
    "agents_that_loop",
    "decisions_that_worked",
    "interventions",
)
ROWS_MAX = 15
# A visitor waits no longer for figures as of now; the last ones are shown then, with their time.
WAIT_S = 2.0


@dataclass(slots=True)
class Overview:
    """The page of figures, which are computed again when the store has changed."""

    api: GatesApi
    renderer: Renderer
    version: Callable[[], Hashable]
    tasks: TaskIndex
    _version: Hashable = None
    _figures: dict[str, Any] | None = None
    _began_s: float = 0.0  # when the last figures began to be computed
    _computing: asyncio.Task[None] | None = None

    async def show(self, request: Request) -> Response:
        """Show the figures of now, or the last ones where those take long; they follow then."""
        state = await run_in_threadpool(self.renderer.state)
        is_current = await self.prepare()
        figures = dict(self._figures or {})
        if is_current:
            figures["as_of_ns"] = time.time_ns()
        hours = request.query_params.get("hours", "")
        period = PERIODS.get(hours, PERIODS[""])
        stored = figures.pop("stored")
        content = await run_in_threadpool(_in_period, stored, period, time.time_ns())
        return await self.renderer.answer(
            request,
            "overview.html.j2",
            state=state,
            is_current=is_current,
            hours=hours if hours in PERIODS else "",
            periods=PERIODS,
            period=period,
            **figures,
            **content,
        )

    async def prepare(self) -> bool:
        """Bring the figures up to now; return whether they are, as a large store takes longer.

        Only the first figures are waited for however long they take.
        """
        asked_s = time.monotonic()
        try:
            async with asyncio.timeout(WAIT_S if self._figures else None):
                while await run_in_threadpool(self.version) != self._version:
                    if self._began_s >= asked_s:
                        break
                    if self._computing is None:
                        self._computing = asyncio.create_task(self._compute())
                    await asyncio.shield(self._computing)
        except TimeoutError:
            return False
        return True

    async def _compute(self) -> None:
        try:
            began_s, version = time.monotonic(), await run_in_threadpool(self.version)
            self._figures = await run_in_threadpool(self._computed, version)
            self._version, self._began_s = version, began_s
        finally:
            self._computing = None

    def _computed(self, version: Hashable) -> dict[str, Any]:
        store_dir = self.api.store_dir
        loaded = {name: queries.load(name) for name in QUERIES}
        prices = self.api.settings.prices
        asked = {name: query.sql for name, query in loaded.items()}
        answers = ask_each(store_dir, asked, prices)
        listed = self.tasks.every(version)
        with reader.open_gates(store_dir) as gates:
            open_count = gates.count("open")
        agents = [row for row in answers["agents_that_loop"] if row["looping_tasks"]]
        return {
            "as_of_ns": time.time_ns(),
            "stored": stored_figures(store_dir, listed),
            "open_count": open_count,
            "rules": answers["findings_by_rule_and_agent"][:ROWS_MAX],
            "agents": agents[:ROWS_MAX],
            "decisions": answers["decisions_that_worked"],
            # A column of money where prices are known.
            "money": {"money": (prices.currency, "money")} if prices else {},
            "interventions": answers["interventions"][:ROWS_MAX],
        }


def _in_period(stored: StoredFigures, period: Period, now_ns: int) -> dict[str, Any]:
    """Return the figures of a period and of the time before it, and its bars."""
    bars = bars_of(stored, period, now_ns)
    start_ns, end_ns = bars[0].start_ns, bars[-1].end_ns
    before = figures_in(stored, 2 * start_ns - end_ns, start_ns) if period.bars else None
    since_ns = start_ns if period.bars else 0
    return {
        "now": figures_in(stored, since_ns, end_ns),
        "before": before,
        "bars": bars,
        "since_ns": since_ns,
        "until_ns": end_ns,
    }
