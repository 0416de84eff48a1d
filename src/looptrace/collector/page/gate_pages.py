"""Gates: the open ones, the facts for a decision on one, and the form for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from looptrace.analyzer.gates.agent_states import by_agent
from looptrace.analyzer.gates.decisions import (
    DECISION_TEXTS,
    NOTE_CHARS_MAX,
    GateError,
    NoGateError,
)
from looptrace.collector.page.gate_cards import GateCard, cards_of
from looptrace.collector.page.other_servers import OtherServers
from looptrace.collector.page.refusals import (
    NOT_REFUSED,
    DecisionForm,
    Refusals,
    RefusedDecision,
    why_late,
)
from looptrace.collector.page.rendering import Renderer, url
from looptrace.collector.server.access import WHO
from looptrace.collector.server.gates_api import GatesApi
from looptrace.collector.store.gate_file.silences import WHO_CHARS_MAX
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.collector.trace_links import TraceLinks
from looptrace.rules.vocabulary import NS_PER_S

# The most open gates shown in full; the others are listed.
CARDS_MAX = 8
# The most of those.
MORE_MAX = 100
# The most gates that are not open, the newest first.
PAST_MAX = 20
# Gates that have been open for longer are shown apart from those of tonight.
STALE_S = 86_400


@dataclass(frozen=True, slots=True)
class GatePages:
    """The pages of gates."""

    api: GatesApi
    renderer: Renderer
    links: TraceLinks
    store_soon: Callable[[], None]  # has the turns stored soon
    others: OtherServers
    is_empty: Callable[[], bool]  # whether the store has no task
    refusals: Refusals = field(default_factory=Refusals)

    async def gates(self, request: Request) -> Response:
        """Show the open gates with all facts for a decision, and earlier gates."""
        content = await run_in_threadpool(self._gates, request)
        return await self.renderer.answer(request, "gates.html.j2", **content)

    def _gates(self, request: Request) -> dict[str, Any]:
        state = self.renderer.state()  # Read first, so that later changes count as news.
        listed = self.api.gate_list("open", limit=CARDS_MAX + MORE_MAX)
        waiting = [gate for gate in listed.gates if gate.decision is None]
        waiting.sort(key=lambda gate: by_agent(gate.agent_state))
        decided = [gate for gate in listed.gates if gate.decision is not None]
        past = self.api.gate_list("resolved", limit=PAST_MAX)
        cards = self._cards(waiting[:CARDS_MAX])
        stale_ns = time.time_ns() - STALE_S * NS_PER_S
        others = self.others.look()
        return self.shared(request) | {
            "state": state,
            "others": others,
            "elsewhere_count": sum(len(each.gates) for each in others),
            "cards": cards,
            "fresh": [card for card in cards if card.gate.opened_ns > stale_ns],
            "stale": [card for card in cards if card.gate.opened_ns <= stale_ns],
            # The list of tasks is looked at only where there was never a gate.
            "is_empty": not (listed.gates or past.gates) and self.is_empty(),
            "refusal": NOT_REFUSED,
            "more": waiting[CARDS_MAX:],
            "past": decided + past.gates,
            "past_count": len(decided) + past.total,
            "open_count": listed.total - len(decided),
        }

    async def gate(self, request: Request) -> Response:
        """Show one gate."""
        state = await run_in_threadpool(self.renderer.state)
        try:
            card = await run_in_threadpool(self.card, request.path_params["id"])
        except GateError as missing:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, str(missing))
        refusal = self.refusal(request)
        here = url(f"/gates/{card.gate.id}", refused=request.query_params.get("refused"))
        about = {"card": card, "state": state, "refusal": refusal, "here": here}
        content = self.shared(request) | about
        return await self.renderer.answer(request, "gate.html.j2", **content)

    async def resolve(self, request: Request, form: Mapping[str, str]) -> Response:
        """Decide on a gate, and redirect to it; it shows a refusal, and keeps the note."""
        gate_id, sent = request.path_params["id"], DecisionForm.of(form)
        try:
            key = await run_in_threadpool(self.decide, gate_id, sent, request.scope.get(WHO))
        except NoGateError as error:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, str(error))
        response = RedirectResponse(url(f"/gates/{gate_id}", refused=key), HTTPStatus.SEE_OTHER)
        self.renderer.sessions.keep_name(request, response, sent.who)
        return response

    def decide(self, gate_id: str, sent: DecisionForm, who: str | None) -> str:
        """Decide on a gate; return the key of the refusal, empty after success.

        Raises:
            NoGateError: if there is no such gate.
        """
        try:
            sent.check()
            note = sent.note.strip() or None
            self.api.resolve_gate(gate_id, sent.decision, note, who or sent.who or None)
        except NoGateError:
            raise
        except GateError as error:
            gate = self.api.gate_details(gate_id).gate
            is_over = gate.status != "open" or gate.decision is not None
            why = why_late(gate, sent.decision) if is_over else str(error)
            return self.refusals.keep(gate_id, RefusedDecision(why, sent))
        return ""

    async def to_gate(self, request: Request) -> Response:
        """Redirect a visit to the address of a form to the gate of the form."""
        return RedirectResponse(f"/gates/{request.path_params['id']}", HTTPStatus.SEE_OTHER)

    def refusal(self, request: Request) -> RefusedDecision:
        """Return the refusal that led to a page."""
        key = request.query_params.get("refused", "")
        return self.refusals.of(request.path_params["id"], key)

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
        """Return the template variables of all pages of gates."""
        bounds = {"note_max": NOTE_CHARS_MAX, "who_max": WHO_CHARS_MAX}
        about = {
            "decisions": DECISION_TEXTS,
            "links": self.links,
            "who": request.scope.get(WHO),
            "typed_name": self.renderer.sessions.name_of(request),
        }
        return about | bounds
