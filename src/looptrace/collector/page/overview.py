"""The overview: how often tasks loop, the cost, and the decisions that worked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from looptrace import queries
from looptrace.collector.page.rendering import Renderer
from looptrace.collector.server.gates_api import GatesApi
from looptrace.collector.store import reader
from looptrace.collector.store.gate_metrics import metrics_of
from looptrace.collector.store.sql import ask_each

# The queries that ship for `looptrace query`.
QUERIES = (
    "gates_by_day",
    "loop_cost_by_day",
    "findings_by_rule_and_agent",
    "agents_that_loop",
    "decisions_that_worked",
    "interventions",
)
ROWS_MAX = 15
DAYS_MAX = 60


# A visitor waits no longer for figures as of now; the last ones are shown then, with their time.
WAIT_S = 2.0


@dataclass(slots=True)
class Overview:
    """The page of figures, which are computed again when the store has changed."""

    api: GatesApi
    renderer: Renderer
    version: Callable[[], Hashable]
    _version: Hashable = None
    _figures: dict[str, Any] | None = None
    _began_s: float = 0.0  # when the last figures began to be computed
    _computing: asyncio.Task[None] | None = None

    async def show(self, request: Request) -> Response:
        """Show the figures of now, or the last ones where those take long; they follow then."""
        state = await run_in_threadpool(self.renderer.state)
        is_current = await self.prepare()
        figures = self._figures or {}
        if is_current:
            figures = figures | {"as_of_ns": time.time_ns()}
        return await self.renderer.answer(
            request, "overview.html.j2", state=state, is_current=is_current, **figures
        )

    async def prepare(self) -> bool:
        """Bring the figures up to now; return whether they are, as a large store takes longer.

        Only the first figures are waited for however long they take.

        Raises:
            StoreError: if the store cannot be read.
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
            self._figures = await run_in_threadpool(self._computed)
            self._version, self._began_s = version, began_s
        finally:
            self._computing = None

    def _computed(self) -> dict[str, Any]:
        store_dir = self.api.store_dir
        loaded = {name: queries.load(name) for name in QUERIES}
        answers = ask_each(store_dir, {name: query.sql for name, query in loaded.items()})
        with reader.open_gates(store_dir) as gates:
            metrics = metrics_of(gates, reader.worked(store_dir), reader.read_loops(store_dir))
            # These include tasks whose turns were deleted, or are not in the store yet.
            open_count = gates.count("open")
            opened_count = open_count + gates.count("resolved")
        agents = [row for row in answers["agents_that_loop"] if row["looping_tasks"]]
        return {
            "as_of_ns": time.time_ns(),
            "metrics": metrics,
            "open_count": open_count,
            "opened_count": opened_count,
            "purposes": {name: query.purpose for name, query in loaded.items()},
            "gates_by_day": answers["gates_by_day"][-DAYS_MAX:],
            "cost_by_day": answers["loop_cost_by_day"][-DAYS_MAX:],
            "rules": answers["findings_by_rule_and_agent"][:ROWS_MAX],
            "agents": agents[:ROWS_MAX],
            "decisions": answers["decisions_that_worked"],
            "interventions": answers["interventions"][:ROWS_MAX],
        }
