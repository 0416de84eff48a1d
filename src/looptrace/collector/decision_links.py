"""Links that let their holder decide on one gate, until a time and after a confirmation.

A link is signed with the key of the store. It shows a form and changes nothing by itself, so a
program that fetches it for a preview decides nothing.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import quote, urlencode

from looptrace.analyzer.gates.decisions import DECISIONS, Decision

PATH = "/decide"
_USE = b"looptrace decision link "
_DIGITS_MAX = 12  # of a time in seconds


@dataclass(frozen=True, slots=True)
class DecisionLinks:
    """Makes such links, and recognises its own."""

    key: bytes = field(repr=False)

    def link(self, base_url: str, gate: str, decision: Decision, until_s: int) -> str:
        """Return the link for one decision on a gate, which is valid until a time."""
        sign = self._sign(gate, decision, str(until_s))
        query = urlencode({"decision": decision, "until": until_s, "sign": sign})
        return f"{base_url.rstrip('/')}{PATH}/{quote(gate, safe='')}?{query}"

    def holds(self, gate: str, given: Mapping[str, str], now_s: float) -> bool:
        """Return whether the values of a link to a gate were signed here, and are still valid."""
        decision, until = given.get("decision", ""), given.get("until", "")
        if decision not in DECISIONS or not (until.isdecimal() and len(until) <= _DIGITS_MAX):
            return False
        sign = self._sign(gate, decision, until)
        return hmac.compare_digest(given.get("sign", "").encode(), sign.encode()) and (
            int(until) > now_s
        )

    def _sign(self, gate: str, decision: str, until: str) -> str:
        text = f"{until} {decision} {gate}".encode("utf-8", "surrogateescape")
        return hmac.new(self.key, _USE + text, sha256).hexdigest()
