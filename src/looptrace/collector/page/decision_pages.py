"""The form behind a signed link of a message: one decision on one gate, with a confirmation."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from looptrace.analyzer.gates.decisions import DECISION_TEXTS, DECISIONS
from looptrace.collector.decision_links import PATH, DecisionLinks
from looptrace.collector.page.gate_pages import GatePages
from looptrace.collector.page.refusals import DecisionForm
from looptrace.collector.page.rendering import Renderer, url
from looptrace.collector.server.access import WHO
from looptrace.collector.server.tokens.sight import sight_of

_NO_LINK = (
    "This link is not from this server, or it has expired. Nothing was changed. "
    "Open the gate itself, and sign in with the token of the server."
)
# The resolver of a gate, where nobody gave a name.
_BY_LINK = "somebody with the link of a message"
# A form has its own signature, beside that of the link.
_LINK_SIGN = "link_sign"
_SIGNED = ("decision", "until", _LINK_SIGN)


@dataclass(frozen=True, slots=True)
class DecisionPages:
    """The pages of decisions by link; they need no sign-in."""

    gates: GatePages
    renderer: Renderer
    links: DecisionLinks

    def ask(self, request: Request) -> Response:
        """Show the decision of a link, and ask for a confirmation, without any change."""
        given = dict(request.query_params)
        return self._shown(request, given | {_LINK_SIGN: given.get("sign", "")})

    def decide(self, request: Request, form: Mapping[str, str]) -> Response:
        """Resolve the gate with the decision of the link."""
        gate_id = request.path_params["id"]
        if not self._holds(gate_id, form):
            return self._refused(request)
        sent = DecisionForm.of(form)
        who = request.scope.get(WHO) or sent.who or _BY_LINK
        key = self.gates.decide(gate_id, sent, who)
        given = {name: form.get(name, "") for name in ("decision", "until")}
        to = url(f"{PATH}/{gate_id}", **given, sign=form.get(_LINK_SIGN, ""), refused=key)
        return RedirectResponse(to, HTTPStatus.SEE_OTHER)

    def _holds(self, gate_id: str, given: Mapping[str, str]) -> bool:
        link = dict(given) | {"sign": given.get(_LINK_SIGN, "")}
        return self.links.holds(gate_id, link, time.time())

    def _refused(self, request: Request) -> Response:
        return self.renderer.error(request, HTTPStatus.FORBIDDEN, _NO_LINK)

    def _shown(self, request: Request, given: Mapping[str, str]) -> Response:
        gate_id = request.path_params["id"]
        if not self._holds(gate_id, given):
            return self._refused(request)
        card = self.gates.card(gate_id, sight_of(request))
        decision = next(name for name in DECISIONS if name == given["decision"])
        content: dict[str, Any] = self.gates.shared(request) | {
            "card": card,
            "decision": decision,
            "chosen": DECISION_TEXTS[decision],
            "signed": {name: given[name] for name in _SIGNED},
            "refusal": self.gates.refusal(request),
        }
        return self.renderer.page(request, "decide.html.j2", **content)
