"""The form that a signed link of a message leads to: one decision on one gate, to be confirmed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from looptrace.analyzer.gates.decisions import DECISION_TEXTS, DECISIONS, GateError
from looptrace.collector.decision_links import DecisionLinks
from looptrace.collector.page.gate_pages import GatePages
from looptrace.collector.page.rendering import Renderer

_NO_LINK = (
    "This link is not from this server, or it has expired. Nothing was changed. "
    "Open the gate itself, and sign in with the token of the server."
)
# Who resolved a gate, where nobody gave a name.
_BY_LINK = "somebody with the link of a message"
# A form has a sign of its own beside that of the link.
_LINK_SIGN = "link_sign"
_SIGNED = ("decision", "until", _LINK_SIGN)


@dataclass(frozen=True, slots=True)
class DecisionPages:
    """The pages of decisions by link; nobody signs in to see them."""

    gates: GatePages
    renderer: Renderer
    links: DecisionLinks

    async def ask(self, request: Request) -> Response:
        """Show what a link decides, and ask for a confirmation; nothing is changed."""
        given = dict(request.query_params)
        return await self._shown(request, given | {_LINK_SIGN: given.get("sign", "")})

    async def decide(self, request: Request, form: Mapping[str, str]) -> Response:
        """Resolve the gate as the link says."""
        gate_id = request.path_params["id"]
        if not self._holds(gate_id, form):
            return self._refused(request)
        note = form.get("note", "").replace("\r\n", "\n").strip() or None
        who = form.get("who", "").strip() or _BY_LINK
        try:
            api = self.gates.api
            await run_in_threadpool(api.resolve_gate, gate_id, form["decision"], note, who)
        except GateError as error:
            return await self._shown(request, form, HTTPStatus.CONFLICT, str(error))
        return await self._shown(request, form)

    def _holds(self, gate_id: str, given: Mapping[str, str]) -> bool:
        link = dict(given) | {"sign": given.get(_LINK_SIGN, "")}
        return self.links.holds(gate_id, link, time.time())

    def _refused(self, request: Request) -> Response:
        return self.renderer.error(request, HTTPStatus.FORBIDDEN, _NO_LINK)

    async def _shown(
        self,
        request: Request,
        given: Mapping[str, str],
        status: int = HTTPStatus.OK,
        error: str = "",
    ) -> Response:
        gate_id = request.path_params["id"]
        if not self._holds(gate_id, given):
            return self._refused(request)
        try:
            card = await run_in_threadpool(self.gates.card, gate_id)
        except GateError as missing:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, str(missing))
        decision = next(name for name in DECISIONS if name == given["decision"])
        content: dict[str, Any] = self.gates.shared(request) | {
            "card": card,
            "chosen": DECISION_TEXTS[decision],
            "signed": {name: given[name] for name in _SIGNED},
            "error": error,
            "note": given.get("note", ""),
        }
        return await self.renderer.answer(request, "decide.html.j2", status=status, **content)
