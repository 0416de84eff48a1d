"""A token for some services, at a real server whose store is full of the words of another."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote

import httpx
import pytest

from looptrace.collector.server.tokens.seen_routes import SEEN, RouteScope
from looptrace.collector.server.tokens.token_file import AccessError, Holder, add_token, read_tokens
from tests.collector.server.test_openapi import routes
from tests.otlp import Trace, tool_call
from tests.reliability.serving import NO_TLS, OK, Served, served, until

ADMIN, OURS, OUR_AGENT = "the-token-of-the-admin", "the-token-of-otters", "the-token-of-an-agent"
# In all that the other service has, but for the ids of its sessions.
SECRET, OWN = "zebra", "otter"
OUR_SERVICE, THEIR_SERVICE = "otter-shop", "zebra-bank"
FORBIDDEN, NOT_FOUND = 403, 404
_SERVICES = ((OUR_SERVICE, OWN), (THEIR_SERVICE, SECRET))
SETTINGS = """
[server]
retention_days = 36500
store_every_s = 1

[[webhooks]]
name = "zebra-pager"
url = "https://127.0.0.1:9/zebra"
format = "slack"

[[overrides]]
agent = "zebra-agent"
rules = { monologue = { enabled = false } }
"""


def failing(
    session: str, service: str, word: str, calls: int = 8, parent: str | None = None
) -> Trace:
    """Return a loop with a word in each text; the tools of both services fail alike."""
    trace = Trace(session, service=service)
    given = json.dumps({"of": f"{word}-argument"})
    attributes = tool_call("fetch", given, error="TimeoutError")
    attributes |= {"gen_ai.agent.name": f"{word}-agent", "enduser.note": f"{word}-attribute"}
    events = [("exception", {"exception.message": f"{word} timed out"})]
    message = f"{word} did not answer"
    for number in range(calls):
        above = parent if number else None  # The first may have its id.
        trace.span(f"{word} fetch", above, attributes, events, status="error", message=message)
    return trace


@dataclass
class Store:
    """A server with loops of two services, and the ids of both."""

    server: Served
    ids: dict[str, dict[str, str]] = field(default_factory=dict)  # of a service, by kind

    def client(self, token: str) -> httpx.Client:
        """Return a client with a token."""
        url, headers = f"http://{self.server.address}", {"authorization": f"Bearer {token}"}
        return httpx.Client(
            base_url=url, trust_env=False, verify=NO_TLS, timeout=60, headers=headers
        )

    def ask(
        self, token: str, method: str, path: str, body: object | None = None, **form: str
    ) -> httpx.Response:
        """Ask as a program does, or send a form as a browser does."""
        with self.client(token) as client:
            if not form:
                return client.request(method, path, json=body)
            shown = client.get("/rules").text + client.get("/sign-in").text
            sign = re.findall(r'name="sign" value="([0-9a-f]+)"', shown)
            own = {"origin": f"http://{self.server.address}", "sec-fetch-site": "same-origin"}
            return client.request(method, path, data={"sign": sign[0], **form}, headers=own)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Serve a store in which each of two services loops, and people have said something of both."""
    folder = tmp_path_factory.mktemp("services")
    tokens = (
        f"Admin role=admin {ADMIN}\nOlga role=admin service={OUR_SERVICE} {OURS}\n"
        f"robot role=agent service={OUR_SERVICE} {OUR_AGENT}\n"
    )
    with served(folder / "store", config=SETTINGS, tokens=tokens) as server:
        made = Store(server)
        for session, service, word in (("7", OUR_SERVICE, OWN), ("8", THEIR_SERVICE, SECRET)):
            for number in ("", "9"):  # The first gate is decided, and the second waits.
                loop = failing(f"s{session}{number}", service, word)
                assert made.ask(ADMIN, "POST", "/v1/traces", loop.request()).status_code == OK
            made.ids[service] = {"session": f"s{session}9", "trace": loop.trace_id}
        until(lambda: len(_open_gates(made)) == 4)
        for service, word in _SERVICES:
            _people_speak(made, service, word)
        for request in (*_of_both_services(), *_below_their_span()):
            assert made.ask(ADMIN, "POST", "/v1/traces", request).status_code == OK
        until(lambda: made.ask(ADMIN, "GET", "/v1/gates?status=open").text.count("s7mixed") >= 1)
        until(lambda: made.ask(ADMIN, "GET", "/v1/gates?status=open").text.count("s7below") >= 1)
        # Which services a task has is known once its turns are stored.
        until(lambda: SECRET not in begun(made, OURS, "GET", "/v1/gates/stream")[1])
        yield made


def _of_both_services() -> list[dict[str, object]]:
    """Return the spans of a session whose trace both services share, which is one task."""
    ours, theirs = (failing("s7mixed", *of, calls=16) for of in _SERVICES)
    return [*ours.requests(parents_first=True)[:8], *theirs.requests(parents_first=True)[8:]]


def _below_their_span() -> list[dict[str, object]]:
    """Return a loop of ours below a span of theirs, which is no turn."""
    above = Trace("s7below", service=THEIR_SERVICE, session_key=None)
    root = above.span(f"{SECRET} gateway", attributes={"http.route": f"/{SECRET}"})
    ours = failing("s7below", OUR_SERVICE, OWN, calls=9, parent=root)
    return [above.request(), *ours.requests(parents_first=True)[1:]]


def _open_gates(store: Store) -> list[dict[str, str]]:
    listed = store.ask(ADMIN, "GET", "/v1/gates?status=open").json()["gates"]
    return [gate for gate in listed if gate["decision"] is None]


def _people_speak(store: Store, service: str, word: str) -> None:
    """Decide on one gate of a service, speak of its incident, and silence it."""
    first, waiting = sorted(
        (gate for gate in _open_gates(store) if service in gate["task"]),
        key=lambda gate: gate["task"].count("9@"),
    )
    note = {"decision": "not_a_loop", "note": f"{word} note", "who": f"{word} person"}
    for path, body in (
        (f"/v1/gates/{first['id']}/resolve", note),
        (f"/v1/incidents/{waiting['incident']}", {"owner": f"{word} owner", "why": f"{word} why"}),
        ("/v1/silences", {"service": service, "ends_ns": _soon_ns(), "why": f"{word} silence"}),
    ):
        assert store.ask(ADMIN, "POST", path, body).status_code == OK, path
    silences = store.ask(ADMIN, "GET", "/v1/silences").json()["silences"]
    own = next(each for each in silences if each["matchers"]["service"] == service)
    store.ids[service] |= {name: waiting[name] for name in ("incident", "task")}
    store.ids[service] |= {"gate": waiting["id"], "decided": first["id"], "silence": own["id"]}


def _soon_ns() -> int:
    return time.time_ns() + 3_600 * 10**9


def test_the_file_of_tokens_has_their_services(tmp_path: Path) -> None:
    """A name with a blank would be read as two words, one of them a part of the holder's name."""
    holder = Holder("Ada Lovelace", "viewer", services=("the shop", "ü=1"))
    add_token(tmp_path / "tokens", holder)
    assert [*read_tokens(tmp_path / "tokens", {}).values()] == [holder]
    (tmp_path / "tokens").write_text("Ada role=viewer service= a-token-of-20-letters\n")
    with pytest.raises(AccessError, match="tokens:1: service= names none"):
        read_tokens(tmp_path / "tokens", {})


def test_every_route_is_in_the_table(tmp_path: Path) -> None:
    """A route that nobody thought of would be refused, and one that is gone would mislead."""
    real = {
        (method, route.path)
        for route in routes(tmp_path, with_page=True)
        for method in set(route.methods or {"POST"}) - {"HEAD"}
    }
    assert real == SEEN.keys() - {("POST", route) for route in _FORWARDED}


BODIES: dict[tuple[str, str], object] = {
    ("POST", "/v1/gates/stream/{stream}"): {"tasks": ["s8", "s89"], "traces": []},
    ("POST", "/v1/gates/{id}/resolve"): {"decision": "continue"},
    ("POST", "/v1/incidents/{id}"): {"state": "acknowledged"},
    ("POST", "/v1/incidents/{id}/decide"): {"decision": "continue"},
    ("POST", "/v1/silences"): {"rule": "repeated_call", "ends_ns": 1, "why": "it is known"},
    ("POST", "/v1/erasures"): {"kind": "session", "name": "s8"},
}
_STREAMS = {("GET", "/v1/gates/stream"), ("POST", "/v1/gates/stream"), ("GET", "/changes")}
# Routes of several servers alone.
_FORWARDED = ("/v1/forwarded/traces", "/v1/forwarded/spending")
_QUERIES = (
    "",
    "?status=resolved",
    "?q=fetch",
    "?task=s8",
    "?task=s89",
    "?state=open",
    "?sort=cost",
)


def paths_of(route: str, ids: dict[str, str]) -> list[str]:
    """Return addresses of a route with the ids of a service, and with their beginnings."""
    if "{stream}" in route or "{digest}" in route:
        return [route.format(stream="0" * 32, digest="0", name="page.css")]
    if "{name:path}" in route:
        return [route.replace("{name:path}", "zebra-pager")]
    if route.startswith("/task"):
        named = [ids["session"], ids["trace"], ids["task"]]
        queries = [f"?id={quote(each)}&row=1" for each in named] if route != "/tasks" else []
        return [route + each for each in (*queries, *(_QUERIES if route == "/tasks" else ()))]
    if "{id:path}" in route:
        named = [ids["session"], ids["trace"], ids["task"], ids["session"][:-1]]
        services = ("", f"?service={OUR_SERVICE}", f"?service={THEIR_SERVICE}")
        return [route.replace("{id:path}", quote(n)) + s for n in named for s in services]
    if "{id}" in route:
        kind = route.removeprefix("/v1").split("/")[1]
        names = {"gates": ("gate", "decided"), "decide": ("gate",), "incidents": ("incident",)}
        whole = [ids[each] for each in names.get(kind, ("silence",))]
        return [route.replace("{id}", each) for own in whole for each in (own, own[:6], own[:1])]
    beside = [f"?gate={ids['gate']}", f"?shown={ids['decided']}"] if route == "/" else []
    return [route + each for each in (*_QUERIES, *beside)]


def answer(store: Store, token: str, method: str, route: str, path: str) -> tuple[int, str]:
    """Ask for a path as a browser or a program does; return status and text."""
    if (method, route) in _STREAMS:
        return begun(store, token, method, path)
    body = BODIES.get((method, route), {} if method == "POST" else None)
    is_form = method == "POST" and not route.startswith("/v1/")
    form = {"decision": "continue", "state": "open", "hours": "1 hour", "why": "x"}
    answered = store.ask(token, method, path, body, **(form if is_form else {}))
    return answered.status_code, answered.text


def begun(store: Store, token: str, method: str, path: str) -> tuple[int, str]:
    """Return the beginning of a stream, up to its first comment."""
    body = {"tasks": ["s8", "s89"], "traces": [store.ids[THEIR_SERVICE]["trace"]]}
    sent, text = body if method == "POST" else None, ""
    with store.client(token) as client, client.stream(method, path, json=sent) as events:
        for piece in events.iter_text():
            text += piece
            if ": here" in text or "event: begun" in text or not events.is_success:
                break
    return events.status_code, text


@pytest.mark.parametrize("method_and_route", SEEN, ids=" ".join)
def test_no_answer_has_a_word_of_another_service(
    store: Store, method_and_route: tuple[str, str]
) -> None:
    """All routes are asked, with the ids of both services, in full and in part."""
    method, route = method_and_route
    for service in (THEIR_SERVICE, OUR_SERVICE):
        if service == OUR_SERVICE and method != "GET":
            continue  # It is allowed, and would change what the other tests see.
        for path in paths_of(route, store.ids[service]):
            status, text = answer(store, OURS, method, route, path)
            # What was asked for may be said again.
            said = unquote(text).replace(
                unquote(path.partition("id=")[2].partition("&")[0]) or " ", ""
            )
            assert SECRET not in said.lower(), (path, status)
            if SEEN[method_and_route] is RouteScope.NEVER and route not in _FORWARDED:
                assert status == FORBIDDEN, path


# Routes that show the words of a service, with its ids or with none.
TELLING = (
    *("/v1/gates", "/v1/gates/{id}", "/v1/gates/stream", "/v1/incidents", "/v1/incidents/{id}"),
    *("/v1/silences", "/v1/tasks", "/v1/tasks/{id:path}"),
    *("/", "/gates/{id}", "/gates/{id}/report", "/incidents", "/incidents/{id}"),
    *("/tasks", "/task", "/task/turn"),
)


@pytest.mark.parametrize("route", TELLING)
def test_the_words_are_there_for_whoever_may_see_them(store: Store, route: str) -> None:
    """Otherwise the test above would hold of a store without secrets, or of no answers at all."""
    for token, service, word in ((ADMIN, THEIR_SERVICE, SECRET), (OURS, OUR_SERVICE, OWN)):
        path = paths_of(route, store.ids[service])[0]
        status, text = answer(store, token, "GET", route, path)
        assert (status, word in text.replace("fetch", "")) == (OK, True), (path, text[:500])


def test_a_task_of_two_services_is_for_tokens_of_both(store: Store) -> None:
    """Half of a loop would be shown, or the words of the other service with it."""
    assert "s7mixed" in store.ask(ADMIN, "GET", "/v1/gates").text
    assert "s7mixed" not in store.ask(OURS, "GET", "/v1/gates").text
    incident = store.ids[OUR_SERVICE]["incident"]
    shown = store.ask(OURS, "GET", f"/v1/incidents/{incident}").json()
    assert {"s7", "s79", "s7below"} == {gate["task"].partition("@")[0] for gate in shown["gates"]}
    body = {"decision": "continue"}
    refused = store.ask(OURS, "POST", f"/v1/incidents/{incident}/decide", body)
    assert (refused.status_code, "of other services" in refused.text) == (FORBIDDEN, True)
    below = store.ask(OURS, "GET", "/task?id=s7below").text
    assert f"{OWN}-argument" in below
    assert f"{SECRET} gateway" in store.ask(ADMIN, "GET", "/task?id=s7below").text


def test_a_token_decides_on_its_services_alone(store: Store) -> None:
    """The gate of another service would go on without its own people."""
    theirs, ours = (store.ids[of]["gate"] for of, _ in reversed(_SERVICES))
    body = {"decision": "continue", "note": "go on"}
    refused = store.ask(OURS, "POST", f"/v1/gates/{theirs}/resolve", body)
    assert refused.status_code == NOT_FOUND
    silence = {"rule": "repeated_call", "ends_ns": _soon_ns(), "why": "it is known"}
    everywhere = store.ask(OURS, "POST", "/v1/silences", silence)
    assert "one of these services: otter-shop" in everywhere.text
    own = store.ask(OURS, "POST", "/v1/silences", {**silence, "service": OUR_SERVICE})
    assert own.status_code == OK
    assert [gate["id"] for gate in _open_gates(store)].count(theirs) == 1
    decided = store.ask(OURS, "POST", f"/v1/gates/{ours}/resolve", body).json()["gate"]
    assert (decided["decision"], decided["resolved_by"]) == ("continue", "Olga")


def _has_gate(store: Store, session: str) -> bool:
    return f"{session}@" in store.ask(ADMIN, "GET", "/v1/gates").text


def test_an_agent_sends_and_hears_of_its_services_alone(store: Store) -> None:
    """Its token lies on the agent's machine, from where it could be taken."""
    theirs = failing("s6", THEIR_SERVICE, SECRET).request()
    refused = store.ask(OUR_AGENT, "POST", "/v1/traces", theirs)
    assert refused.status_code == FORBIDDEN
    assert "this token sends spans of otter-shop" in refused.text
    heard, headers = "", {"authorization": f"Bearer {OUR_AGENT}"}
    url = f"http://{store.server.address}/v1/gates/stream"
    with httpx.stream("GET", url, headers=headers, trust_env=False, timeout=60) as events:
        for piece in events.iter_text():
            if ": here" in piece and "s5" not in heard:
                # The gate of the other service opens before that of this one.
                for session, (service, word) in (("s4", _SERVICES[1]), ("s5", _SERVICES[0])):
                    loop = failing(session, service, word).request()
                    assert store.ask(ADMIN, "POST", "/v1/traces", loop).status_code == OK
                    until(partial(_has_gate, store, session))
            heard += piece
            if "s5@" in heard:
                break
    assert OWN in heard
    assert SECRET not in heard


def test_a_whole_token_sees_everything(store: Store) -> None:
    """Tokens of before have no services, and their people would see nothing."""
    for (method, route), seen in SEEN.items():
        if method == "GET" and seen is RouteScope.NEVER and "{id}" not in route:
            assert store.ask(ADMIN, method, route).status_code == OK, route
