"""Gates: their list, the facts for a decision on one, and the form for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from anyio import from_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

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
from looptrace.collector.page.worklist.lines import SORTS, STATE_NAMES, WAITS, GateFilter, list_of
from looptrace.collector.server.access import WHO
from looptrace.collector.server.gates_api import NO_TURNS_YET, GatesApi
from looptrace.collector.server.tokens.sight import Sight, sight_of
from looptrace.collector.store import reader
from looptrace.collector.store.gate_file.silences import WHO_CHARS_MAX
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.collector.trace_links import TraceLinks


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

    def gates(self, request: Request) -> Response:
        """Show the gates as a list, and beside it one of them with its form."""
        state = self.renderer.state()  # Read first, so that later changes count as news.
        wanted, query = GateFilter.of(request.query_params), request.query_params
        sight = sight_of(request)
        listed = list_of(self.api, wanted, sight)
        others = self.others.look() if sight.is_whole else ()
        chosen, refused = query.get("gate", ""), query.get("refused", "")
        # A gate beside the list stays there until a person chooses another one.
        shown = chosen or query.get("shown", "") or listed.first
        card = self._card_beside(shown, listed.open_gates, sight)
        beside = {"gate" if chosen else "shown": card.gate.id} if card else {}
        content = self.shared(request) | {
            "state": state,
            "others": others,
            "elsewhere_count": sum(len(each.gates) for each in others),
            "listed": listed,
            "wanted": wanted,
            "query": wanted.query(),
            "card": card,
            "is_chosen": bool(chosen and card),
            "here": url("/", **wanted.query(), **beside, refused=refused),
            # The list of tasks is looked at only where there was never a gate.
            "is_empty": not (listed.open_count or listed.past_count) and self.is_empty(),
            "refusal": self.refusals.of(card.gate.id, refused) if card else NOT_REFUSED,
            "sorts": SORTS,
            "waits": WAITS,
            "state_names": STATE_NAMES,
        }
        return self.renderer.page(request, "gates.html.j2", **content)

    def _card_beside(
        self, gate_id: str, read: Mapping[str, StoredGate], sight: Sight
    ) -> GateCard | None:
        """Return the card of a gate, which may be among those that were read; None for none."""
        if gate_id in read:
            return self._cards([read[gate_id]], sight)[0]
        try:
            card = self.card(gate_id, sight) if gate_id else None
        except GateError:
            return None
        is_seen = card and sight.gates(self.api.store_dir, [card.gate])
        return card if is_seen else None

    def gate(self, request: Request) -> Response:
        """Show one gate."""
        state = self.renderer.state()
        gate_id = request.path_params["id"]
        card = self.card(gate_id, sight_of(request))
        refusal = self.refusal(request)
        here = url(f"/gates/{card.gate.id}", refused=request.query_params.get("refused"))
        about = {"card": card, "state": state, "refusal": refusal, "here": here, "query": None}
        return self.renderer.page(request, "gate.html.j2", **self.shared(request) | about)

    def report(self, request: Request) -> Response:
        """Return the report on a gate for a debugging agent, as Markdown."""
        from_thread.run(self.api.stored)
        text = self.api.report_markdown(request.path_params["id"], sight_of(request))
        if text is None:
            return self.renderer.error(request, HTTPStatus.SERVICE_UNAVAILABLE, NO_TURNS_YET)
        return PlainTextResponse(text)

    def resolve(self, request: Request, form: Mapping[str, str]) -> Response:
        """Decide on a gate, and redirect to it; it shows a refusal, and keeps the note.

        A form beside the list leads back to the list.
        """
        gate_id, sent = request.path_params["id"], DecisionForm.of(form)
        key = self.decide(gate_id, sent, request.scope.get(WHO))
        response = RedirectResponse(_page_after(gate_id, key, form), HTTPStatus.SEE_OTHER)
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
            self.api.resolve_gate(
                gate_id, sent.decision, note, who or sent.who or None, sent.amount
            )
        except NoGateError:
            raise
        except GateError as error:
            with reader.open_gates(self.api.store_dir) as gates:
                gate = gates.gate(gate_id).gate
            is_over = gate.status != "open" or gate.decision is not None
            why = why_late(gate, sent.decision) if is_over else str(error)
            return self.refusals.keep(gate_id, RefusedDecision(why, sent))
        return ""

    def refusal(self, request: Request) -> RefusedDecision:
        """Return the refusal that led to a page."""
        key = request.query_params.get("refused", "")
        return self.refusals.of(request.path_params["id"], key)

    def card(self, gate_id: str, sight: Sight) -> GateCard:
        """Return the card of a gate.

        Raises:
            GateError: if there is none with this id.
        """
        (card,) = self._cards([self.api.gate_details(gate_id, sight).gate], sight)
        return card

    def _cards(self, gates: Sequence[StoredGate], sight: Sight) -> list[GateCard]:
        cards = cards_of(self.api, gates, sight)
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


def _page_after(gate_id: str, refused: str, form: Mapping[str, str]) -> str:
    """Return the address that shows a gate after a form: its own, or the list of the form."""
    if "list" not in form:
        return url(f"/gates/{gate_id}", refused=refused)
    wanted = GateFilter.of(dict(parse_qsl(form["list"].lstrip("?"))))
    return url("/", **wanted.query(), gate=gate_id, refused=refused)
