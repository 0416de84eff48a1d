"""Answers as HTML: templates, headers that forbid unused features, and static files."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment
from markupsafe import Markup, escape
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from looptrace import __version__
from looptrace.analyzer.gates.decisions import decision_text
from looptrace.analyzer.normalize.understanding import Understood
from looptrace.analyzer.report import templating
from looptrace.analyzer.report.verdict import little_text, seen_lines
from looptrace.analyzer.report.wording import counted
from looptrace.analyzer.text.times import is_known, utc_s
from looptrace.collector.page.sessions import SignIns
from looptrace.collector.server.tokens.seen_routes import RouteScope, seen_on
from looptrace.collector.server.tokens.sight import sight_of
from looptrace.collector.store.promises.withdrawn import WithdrawnPromise
from looptrace.collector.store.retention import Retention, texts_of
from looptrace.rules.vocabulary import NS_PER_S

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    # Without the header a form could not be distinguished from that of another site.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGES = {
    "Gates": "/",
    "Incidents": "/incidents",
    "Tasks": "/tasks",
    "Overview": "/overview",
    "Rules": "/rules",
    "Webhooks": "/webhooks",
    "Settings": "/settings",
    "Health": "/health",
}
# The most characters of an unfolded text.
_BLOCK_LENGTH_MAX = 100_000
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
ASSETS = ("page.css", "page.js", "htmx.min.js", "icon.svg")
_ASSET_KEPT = "public, max-age=31536000, immutable"
_DIGEST_CHARS = 12
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
# Line breaks and tabs are kept where a text has room.
_LAYOUT = re.compile(r"[\n\t]")


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders pages for visitors who may see them."""

    sessions: SignIns
    state: Callable[[], str]  # the current state, as one text
    retention: Callable[[], Retention]
    understood: Callable[[], Understood]
    withdrawn: Sequence[WithdrawnPromise]  # of learned limits that only warn
    url: str = ""  # of the server, as agents and people reach it; the visitor's where it is unset

    def page(
        self, request: Request, name: str, status: int = HTTPStatus.OK, **content: Any
    ) -> Response:
        """Render a page from a template."""
        nonce, sight = self.sessions.nonce_of(request), sight_of(request)
        shared = {
            "sign": self.sessions.form_sign(nonce),
            "signs_out": self.sessions.access.is_asked,
            "decides": self.sessions.may_decide(request, time.time()),
            "state": "",
            "path": request.scope["path"],
            "now_ns": time.time_ns(),
            "retention": self.retention() if sight.is_whole else Retention(),
            "understood": self.understood() if sight.is_whole else Understood(),
            "sight": sight,
            "pages": {
                n: to
                for n, to in PAGES.items()
                if sight.is_whole or seen_on("GET", to) is not RouteScope.NEVER
            },
            "withdrawn": self.withdrawn if sight.is_whole else (),
            "endpoint": self.url or str(request.base_url).rstrip("/"),
        }
        response = HTMLResponse(environment().get_template(name).render(shared | content), status)
        self.sessions.keep_nonce(request, response, nonce)
        return response

    async def answer(self, request: Request, name: str, **content: Any) -> Response:
        """Render a page on another thread, so that arriving spans do not wait for it."""
        return await run_in_threadpool(partial(self.page, request, name, **content))

    def error(self, request: Request, status: int, why: str) -> Response:
        """Render a page with an error."""
        about = {"title": HTTPStatus(status).phrase, "to": "/", "to_text": "To the gates"}
        return self.page(request, "error.html.j2", status, why=why, **about)


@cache
def environment() -> Environment:
    """Return the templates of the page, including shared ones of the report."""
    environment = templating.environment("looptrace.collector.page", "looptrace.analyzer.report")
    environment.globals |= {"asset": asset_url, "url": url, "version": __version__}
    environment.filters |= {
        "block": block,
        "code_spans": code_spans,
        "decision": decision_text,
        "expiring": texts_of,
        "hardly_watched": little_text,
        "seen_lines": seen_lines,
        "instant": instant,
        "money": "{:,.2f}".format,
        "since": since,
        "utc": utc_s,
        "zip_same": lambda values: [(value, value) for value in values],
    }
    return environment


def url(path: str, **query: Any) -> str:
    """Return a path with a query, without empty parameters."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def code_spans(text: str) -> Markup:
    """Return a text of looptrace's own, with the parts between backticks as code."""
    parts = [escape(part) for part in text.split("`")]
    shown = [Markup("<code>{}</code>").format(part) for part in parts[1::2]]
    parts[1::2] = shown
    return Markup("").join(parts)


def block(text: str) -> str:
    """Return a text of several lines without control characters, cut where it is very long."""
    shown = text[:_BLOCK_LENGTH_MAX]
    clean = "".join(
        each if each.isprintable() or _LAYOUT.match(each) else "\N{REPLACEMENT CHARACTER}"
        for each in shown.replace("\r\n", "\n")
    )
    left_out = len(text) - len(shown)
    return clean + (f"\n… {counted(left_out, 'more character')}" if left_out else "")


def since(now_ns: int, at_ns: int) -> str:
    """Return the time since a moment: `40 s`, `12 min`, `3 h 5 min`, `2 d`."""
    seconds = max(now_ns - at_ns, 0) // NS_PER_S
    minutes, hours, days = (seconds // each for each in (_MINUTE_S, _HOUR_S, _DAY_S))
    if days:
        return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"
    if hours:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{minutes} min" if minutes else f"{seconds} s"


def instant(at_ns: int) -> str:
    """Write `2026-03-14T02:11:09Z`, as the attribute of a time; empty without a time."""
    return utc_s(at_ns).replace(" ", "T") + "Z" if is_known(at_ns) else ""


def asset_url(name: str) -> str:
    """Return the path of a file, which changes with its content, so that browsers may cache it."""
    return f"/assets/{_digest(name)}/{name}"


def asset(request: Request) -> Response:
    """Return a stylesheet, a script or a picture."""
    name = request.path_params["name"]
    if name not in ASSETS or request.path_params["digest"] != _digest(name):
        return Response("There is no such file.\n", HTTPStatus.NOT_FOUND, media_type="text/plain")
    headers: Mapping[str, str] = {"Cache-Control": _ASSET_KEPT}
    return Response(_content(name), headers=headers, media_type=_MEDIA_TYPES[name.split(".")[-1]])


@cache
def _content(name: str) -> bytes:
    own = (files("looptrace.collector.page") / "assets" / name).read_bytes()
    if name != "page.css":
        return own
    shared = files("looptrace.analyzer.report") / "templates" / "strip.css"
    return shared.read_bytes() + own


@cache
def _digest(name: str) -> str:
    return sha256(_content(name)).hexdigest()[:_DIGEST_CHARS]
