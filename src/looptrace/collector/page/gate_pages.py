"""Gates: which are open, what a person needs to decide on one, and the form for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from looptrace.analyzer.gates.decisions import (
    DECISION_TEXTS,
    NOTE_CHARS_MAX,
    GateError,
    NoGateError,
)
from looptrace.collector.page.gate_cards import GateCard, cards_of
from looptrace.collector.page.rendering import Renderer
from looptrace.collector.server.access import WHO
from looptrace.collector.server.gates_api import GatesApi
from looptrace.collector.store.gates import WHO_CHARS_MAX, StoredGate
from looptrace.collector.trace_links import TraceLinks

# Open gates that are shown in full; of more, the rest is listed.
CARDS_MAX = 8
# Of those so many.
MORE_MAX = 100
# Gates that are not open, the newest first.
PAST_MAX = 20


@dataclass(frozen=True, slots=True)
class GatePages:
    """The pages of gates."""

    api: GatesApi
    renderer: Renderer
    links: TraceLinks
    store_soon: Callable[[], None]  # lets the turns come into the store

    async def gates(self, request: Request) -> Response:
        """Show the open gates with all that is needed to decide, and those before them."""
        content = await run_in_threadpool(self._gates, request)
        return await self.renderer.answer(request, "gates.html.j2", **content)

    def _gates(self, request: Request) -> dict[str, Any]:
        state = self.renderer.state()  # First: what comes meanwhile is news.
        listed = self.api.gate_list("open", limit=CARDS_MAX + MORE_MAX)
        waiting = [gate for gate in listed.gates if gate.decision is None]
        decided = [gate for gate in listed.gates if gate.decision is not None]
        past = self.api.gate_list("resolved", limit=PAST_MAX)
        return self.shared(request) | {
            "state": state,
            "cards": self._cards(waiting[:CARDS_MAX]),
            "more": waiting[CARDS_MAX:],
            "past": decided + past.gates,
            "past_count": len(decided) + past.total,
            "open_count": listed.total - len(decided),
        }

    async def gate(self, request: Request) -> Response:
        """Show one gate."""
        return await self._shown(request)

    async def resolve(self, request: Request, form: Mapping[str, str]) -> Response:
        """Decide on a gate, and show it; what cannot be is said, and the note is kept."""
        gate_id, note = request.path_params["id"], form.get("note", "").replace("\r\n", "\n")
        who = request.scope.get(WHO) or form.get("who", "").strip() or None
        said = (gate_id, form.get("decision", ""), note.strip() or None, who)
        try:
            await run_in_threadpool(self.api.resolve_gate, *said)
        except NoGateError as error:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, str(error))
        except GateError as error:
            return await self._shown(request, HTTPStatus.CONFLICT, str(error), note)
        return RedirectResponse(f"/gates/{gate_id}", HTTPStatus.SEE_OTHER)

    async def _shown(
        self, request: Request, status: int = HTTPStatus.OK, error: str = "", note: str = ""
    ) -> Response:
        state = await run_in_threadpool(self.renderer.state)
        try:
            card = await run_in_threadpool(self.card, request.path_params["id"])
        except GateError as missing:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, str(missing))
        content = self.shared(request) | {
            "card": card,
            "error": error,
            "note": note,
            "state": state,
        }
        return await self.renderer.answer(request, "gate.html.j2", status=status, **content)

    def card(self, gate_id: str) -> GateCard:
        """Return the card of a gate.

        Raises:
            GateError: if there is none with this id.
        """
        (card,) = self._cards([self.api.gate_details(gate_id).gate])
        return card

    def _cards(self, gates: Sequence[StoredGate]) -> list[GateCard]:
        cards = cards_of(self.api, gates)
        if not all(card.is_whole and (not card.since or card.since.turns) for card in cards):
            self.store_soon()
        return cards

    def shared(self, request: Request) -> dict[str, Any]:
        """Return what every page of a gate is made with."""
        bounds = {"note_max": NOTE_CHARS_MAX, "who_max": WHO_CHARS_MAX}
        who = request.scope.get(WHO)
        return {"decisions": DECISION_TEXTS, "links": self.links, "who": who} | bounds
