"""Sign-in and forms of browsers: two cookies, neither of which contains a token.

The cookie of a sign-in has its end, signed with a key from the token and the store: removing a
token signs out all browsers that used it. A form has the signature of a cookie that no other site
can read or set, so that no other site can send the form.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from looptrace.analyzer.text.display import plain
from looptrace.collector.server.access import Access, address_of, known_token, token_of
from looptrace.collector.server.tokens.roles import roles_for
from looptrace.collector.server.tokens.token_file import Holder
from looptrace.collector.store.gate_file.silences import WHO_CHARS_MAX

SESSION_COOKIE, FORM_COOKIE = "looptrace_session", "looptrace_form"
# The cookie of the name typed with a decision, which the next form shows.
NAME_COOKIE = "looptrace_name"
_SESSION_USE, _FORM_USE = b"looptrace page session ", b"looptrace page form "
_HOUR_S = 3_600
_NONCE_BYTES = 18
_DIGITS_MAX = 12  # of a time in seconds
# Forms older than this were opened before the cookie expired.
_FORM_S = 400 * 24 * _HOUR_S


@dataclass(frozen=True, slots=True)
class SignIns:
    """Signs browsers in and out, and recognises its own forms.

    `key` is the store's, so that a form can be sent after a restart of the server.
    """

    access: Access
    key: bytes
    hours: int

    def may_enter(self, request: Request, now_s: float) -> bool:
        """Return whether a request has a token, as for the API, or is signed in."""
        return self._asking(request, now_s) is not None

    def who(self, request: Request, now_s: float) -> str | None:
        """Return the name of a request's token, None where it has none."""
        return self.holder(request, now_s).name or None

    def holder(self, request: Request, now_s: float) -> Holder:
        """Return whose the token of a request is."""
        return self._asking(request, now_s) or Holder()

    def may_decide(self, request: Request, now_s: float) -> bool:
        """Return whether a visitor may decide; who sees only what needs no token may sign in."""
        asking = self._asking(request, now_s)
        return asking is None or asking.role in roles_for("POST", request.scope["path"])

    def _asking(self, request: Request, now_s: float) -> Holder | None:
        token = self._token(request, now_s)
        if token is not None:
            return self.access.holder(token)
        headers = {name: request.headers.getlist(name) for name in request.headers}
        return self.access.asking(headers, address_of(request.scope))

    def _token(self, request: Request, now_s: float) -> str | None:
        """Return the token of a request, or the one that its browser signed in with."""
        given = request.headers.getlist("authorization")
        if given and (token := token_of(given, self.access)):
            return token
        until, _, sign = request.cookies.get(SESSION_COOKIE, "").partition(".")
        if not (until.isdecimal() and len(until) <= _DIGITS_MAX and int(until) > now_s):
            return None
        # All tokens are compared, so that the time reveals nothing.
        same = [
            token
            for token in self.access.valid
            if hmac.compare_digest(sign.encode(), self._session_sign(token, until).encode())
        ]
        return same[0] if same else None

    def sign_in(self, response: Response, token: str, now_s: float) -> bool:
        """Set the cookie of a browser that gives a token; return whether the token is valid."""
        own = known_token(token, self.access)
        if own is None:
            return False
        until = str(int(now_s) + self.hours * _HOUR_S)
        value = f"{until}.{self._session_sign(own, until)}"
        response.set_cookie(SESSION_COOKIE, value, self.hours * _HOUR_S, **self._attributes())
        return True

    def _session_sign(self, token: str, until: str) -> str:
        """Return the signature of a sign-in; who knows the file of tokens cannot make it."""
        return _sign(self.key + token.encode(), _SESSION_USE, until)

    def sign_out(self, response: Response) -> None:
        """Delete the personal cookies."""
        for name in (SESSION_COOKIE, NAME_COOKIE):
            response.delete_cookie(name, **self._attributes())

    def form_sign(self, nonce: str) -> str:
        """Return the signature in a form for the browser with this cookie."""
        return _sign(self.key, _FORM_USE, nonce)

    def is_own_form(self, request: Request, form: Mapping[str, str]) -> bool:
        """Return whether a form comes from a page of this browser."""
        nonce, sign = request.cookies.get(FORM_COOKIE, ""), form.get("sign", "")
        # Browsers send the origin of a form; the server has already refused foreign ones.
        site = request.headers.get("sec-fetch-site", "same-origin")
        is_same = hmac.compare_digest(sign.encode(), self.form_sign(nonce).encode())
        return bool(nonce) and is_same and site == "same-origin"

    def nonce_of(self, request: Request) -> str:
        """Return the browser's cookie of forms, or a new one."""
        return request.cookies.get(FORM_COOKIE) or secrets.token_urlsafe(_NONCE_BYTES)

    def keep_nonce(self, request: Request, response: Response, nonce: str) -> None:
        """Set the cookie of forms, where the browser has none."""
        if request.cookies.get(FORM_COOKIE) != nonce:
            response.set_cookie(FORM_COOKIE, nonce, _FORM_S, **self._attributes())

    def name_of(self, request: Request) -> str:
        """Return the name typed in this browser with the last decision."""
        return plain(unquote(request.cookies.get(NAME_COOKIE, "")), WHO_CHARS_MAX)

    def keep_name(self, request: Request, response: Response, name: str) -> None:
        """Set the cookie of a typed name."""
        if name and name != self.name_of(request):
            value = quote(name[:WHO_CHARS_MAX].encode("utf-8", "replace"))
            response.set_cookie(NAME_COOKIE, value, _FORM_S, **self._attributes())

    def _attributes(self) -> dict[str, Any]:
        secure = self.access.cert_file is not None
        return {"path": "/", "httponly": True, "samesite": "strict", "secure": secure}


def _sign(key: bytes, use: bytes, value: str) -> str:
    return hmac.new(key, use + value.encode("utf-8", "surrogateescape"), sha256).hexdigest()
