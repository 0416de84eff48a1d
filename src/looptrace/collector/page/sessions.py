"""Who is signed in, and which form was ours: two cookies, of which neither holds a token.

A signed-in browser holds the time until which it is, signed with a key that is made of the token:
whoever takes a token out of use signs all out that signed in with it. A form holds a sign of a
cookie that no other site can read or set, so that no other site can send it.
"""

from __future__ import annotations

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
from looptrace.collector.server.access import Access, known_token, token_of
from looptrace.collector.store.gates import WHO_CHARS_MAX

SESSION_COOKIE, FORM_COOKIE = "looptrace_session", "looptrace_form"
# The name that somebody typed with a decision, so that the next form has it.
NAME_COOKIE = "looptrace_name"
_SESSION_USE, _FORM_USE = b"looptrace page session ", b"looptrace page form "
_HOUR_S = 3_600
_NONCE_BYTES = 18
_DIGITS_MAX = 12  # of a time in seconds
# A form that was opened so long ago was opened before the cookie went.
_FORM_S = 400 * 24 * _HOUR_S


@dataclass(frozen=True, slots=True)
class Sessions:
    """Signs browsers in and out, and knows its own forms.

    `key` is the store's, so that a form that is open while the server restarts can be sent.
    """

    access: Access
    key: bytes
    hours: int

    @property
    def is_asked(self) -> bool:
        """Whether a token is asked for at all."""
        return bool(self.access.tokens)

    def may_enter(self, request: Request, now_s: float) -> bool:
        """Return whether a request comes with a token, as the API asks for it, or signed in."""
        return not self.is_asked or self._token(request, now_s) is not None

    def who(self, request: Request, now_s: float) -> str | None:
        """Return whose request it is, None where its token has no name."""
        return self.access.names.get(self._token(request, now_s) or "") or None

    def _token(self, request: Request, now_s: float) -> str | None:
        """Return the token that a request comes with, or that its browser signed in with."""
        given = request.headers.getlist("authorization")
        if given and (token := token_of(given, self.access)):
            return token
        until, _, sign = request.cookies.get(SESSION_COOKIE, "").partition(".")
        if not (until.isdecimal() and len(until) <= _DIGITS_MAX and int(until) > now_s):
            return None
        # Each is compared, so that the time tells nothing.
        same = [
            token
            for token in self.access.tokens
            if hmac.compare_digest(
                sign.encode(), _sign(token.encode(), _SESSION_USE, until).encode()
            )
        ]
        return same[0] if same else None

    def sign_in(self, response: Response, token: str, now_s: float) -> bool:
        """Set the cookie of a browser that gives a token; returns whether it is one."""
        own = known_token(token, self.access)
        if own is None:
            return False
        until = str(int(now_s) + self.hours * _HOUR_S)
        value = f"{until}.{_sign(own.encode(), _SESSION_USE, until)}"
        response.set_cookie(SESSION_COOKIE, value, self.hours * _HOUR_S, **self._attributes())
        return True

    def sign_out(self, response: Response) -> None:
        """Take the cookies away that are of one person."""
        for name in (SESSION_COOKIE, NAME_COOKIE):
            response.delete_cookie(name, **self._attributes())

    def form_sign(self, nonce: str) -> str:
        """Return what a form holds for the browser with this cookie."""
        return _sign(self.key, _FORM_USE, nonce)

    def is_own_form(self, request: Request, form: Mapping[str, str]) -> bool:
        """Return whether a form is of a page that this browser was given."""
        nonce, sign = request.cookies.get(FORM_COOKIE, ""), form.get("sign", "")
        # Browsers name where a form comes from; the server has refused a foreign origin already.
        site = request.headers.get("sec-fetch-site", "same-origin")
        is_same = hmac.compare_digest(sign.encode(), self.form_sign(nonce).encode())
        return bool(nonce) and is_same and site == "same-origin"

    def nonce_of(self, request: Request) -> str:
        """Return the browser's cookie of forms, or a new one."""
        return request.cookies.get(FORM_COOKIE) or secrets.token_urlsafe(_NONCE_BYTES)

    def keep_nonce(self, request: Request, response: Response, nonce: str) -> None:
        """Let the browser keep the cookie of forms, where it has none."""
        if request.cookies.get(FORM_COOKIE) != nonce:
            response.set_cookie(FORM_COOKIE, nonce, _FORM_S, **self._attributes())

    def name_of(self, request: Request) -> str:
        """Return the name that was typed in this browser with the last decision."""
        return plain(unquote(request.cookies.get(NAME_COOKIE, "")), WHO_CHARS_MAX)

    def keep_name(self, request: Request, response: Response, name: str) -> None:
        """Let the browser keep a name that was typed."""
        if name and name != self.name_of(request):
            value = quote(name[:WHO_CHARS_MAX].encode("utf-8", "replace"))
            response.set_cookie(NAME_COOKIE, value, _FORM_S, **self._attributes())

    def _attributes(self) -> dict[str, Any]:
        secure = self.access.cert_file is not None
        return {"path": "/", "httponly": True, "samesite": "strict", "secure": secure}


def _sign(key: bytes, use: bytes, value: str) -> str:
    return hmac.new(key, use + value.encode("utf-8", "surrogateescape"), sha256).hexdigest()
