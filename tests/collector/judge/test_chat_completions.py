from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from email.utils import formatdate
from http.server import ThreadingHTTPServer
from threading import Event
from typing import Any

import pytest

from looptrace.analyzer.llm_judge import ANSWER_SCHEMA, NoOpinion, Opinion, Question, ask
from looptrace.analyzer.settings.judge import ChatSettings
from looptrace.analyzer.testing.notation import turns_in
from looptrace.collector.judge.chat_completions import ChatJudge
from looptrace.rules.contract import SettingError
from tests.analyzer.test_llm_judge import ANSWER, OPINION
from tests.drivers import batch
from tests.http_threads import QuietHandler, answering, lowered
from tests.ports import closed_port

requirement = pytest.mark.requirement

VARIABLE = "LOOPTRACE_TEST_JUDGE_KEY"
KEY = "sk-test-0123456789abcdef"
SHORT_S = 0.3  # for what must be cut off; all else has the time of a loaded machine
DRIP_S = 0.02

QUESTION = Question("t", "monologue", "it talks", "Mend it.", ("1. say", "2. say é\ud800"))


@dataclass(frozen=True)
class Reply:
    """What the endpoint answers once."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    how: Callable[[QuietHandler, Reply], None] | None = None


def completion(message: dict[str, Any], finish_reason: str = "stop") -> Reply:
    """Answer as a chat endpoint does."""
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1773480000,
        "model": "small",
        "choices": [choice],
        "usage": {"prompt_tokens": 300, "completion_tokens": 40, "total_tokens": 340},
    }
    return Reply(json.dumps(body).encode())


def said(content: object, finish_reason: str = "stop") -> Reply:
    """Answer with the words of a model."""
    message = {"role": "assistant", "content": content, "refusal": None, "annotations": []}
    return completion(message, finish_reason)


def failed(status: int, message: str = "no", **headers: str) -> Reply:
    """Answer with an error as chat endpoints write them."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return Reply(json.dumps({"error": error}).encode(), status, headers)


GOOD = said(json.dumps(ANSWER))


class Endpoint(ThreadingHTTPServer):
    """A chat endpoint on the loopback that answers by a script and repeats the last reply."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Reply] = [GOOD]
        self.requests: list[dict[str, Any]] = []
        self.stopping = Event()
        self.left = Event()  # the client has closed a connection that was still in use

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def reply(self) -> Reply:
        """Return what comes next in the script."""
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]


class Handler(QuietHandler):
    """One request to the endpoint."""

    server: Endpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Note the request and answer it."""
        body = json.loads(self.body())
        self.server.requests.append({"path": self.path, "headers": self.headers, "body": body})
        reply = self.server.reply()
        (reply.how or whole)(self, reply)


def whole(handler: QuietHandler, reply: Reply) -> None:
    """Send the headers and the whole body."""
    headers = {"content-type": "application/json"} | lowered(reply.headers)
    handler.answer(reply.status, reply.body, headers)


def silent(handler: QuietHandler, _: Reply) -> None:
    """Answer nothing."""
    server = handler.server
    assert isinstance(server, Endpoint)
    server.stopping.wait()
    handler.close_connection = True


def dripping(handler: QuietHandler, reply: Reply) -> None:
    """Send byte after byte, each long before anyone would call a read late."""
    server = handler.server
    assert isinstance(server, Endpoint)
    handler.close_connection = True
    try:
        for i in range(len(reply.body)):
            handler.wfile.write(reply.body[i : i + 1])
            if server.stopping.wait(DRIP_S):
                return
    except OSError:
        server.left.set()


def endless(handler: QuietHandler, _: Reply) -> None:
    """Send more and more, as fast as it goes."""
    server = handler.server
    assert isinstance(server, Endpoint)
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    try:
        while not server.stopping.is_set():
            handler.wfile.write(b" " * 65_536)
    except OSError:
        server.left.set()


def broken_off(handler: QuietHandler, reply: Reply) -> None:
    """Promise more than is sent."""
    handler.close_connection = True
    whole(handler, replace(reply, headers={"Content-Length": "9999"}))


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """Run an endpoint, and put the key into the environment."""
    monkeypatch.setenv(VARIABLE, KEY)
    with answering(Endpoint()) as server:
        yield server
        server.stopping.set()


def judge_at(endpoint: Endpoint, *script: Reply, **settings: Any) -> ChatJudge:
    """Let the endpoint answer by a script, and return a judge that asks it."""
    endpoint.script = list(script) or [GOOD]
    given = {"model": "small", "api_key_variable": VARIABLE, **settings}
    return ChatJudge(ChatSettings(endpoint.url, **given))


@requirement("A13")
def test_request_is_what_chat_endpoints_expect(endpoint: Endpoint) -> None:
    """The path, the key, the strict schema, and all of the question, are what is sent."""
    assert judge_at(endpoint, tokens_max=99).opinion(QUESTION) == OPINION

    (request,) = endpoint.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert request["headers"]["Content-Type"] == "application/json"
    body = request["body"]
    system, user = body.pop("messages")
    strict = {"name": "opinion", "strict": True, "schema": ANSWER_SCHEMA}
    assert body == {
        "model": "small",
        "temperature": 0,
        "max_tokens": 99,
        "response_format": {"type": "json_schema", "json_schema": strict},
    }
    assert (system["role"], user["role"]) == ("system", "user")
    assert all(name in system["content"] for name in ANSWER)
    assert json.loads(user["content"]) == asdict(QUESTION) | {"history": list(QUESTION.history)}


@requirement("A13")
def test_finding_is_judged(endpoint: Endpoint) -> None:
    """From a finding to an opinion, over the wire."""
    turns = turns_in('user("Mend it.") say("I would look at part {n}.", given="Go on.") x8')
    (finding,) = batch(turns)

    assert ask(judge_at(endpoint), finding, turns) == OPINION


def test_a_local_server_needs_no_key(endpoint: Endpoint) -> None:
    """Where no variable is named, no key is sent, whatever the environment holds."""
    assert judge_at(endpoint, api_key_variable=None).opinion(QUESTION) == OPINION
    assert "Authorization" not in endpoint.requests[0]["headers"]


def test_asks_from_within_an_event_loop(endpoint: Endpoint) -> None:
    """An agent's process often runs one, and a second cannot be started on its thread."""
    judge = judge_at(endpoint)

    async def asked() -> Opinion | NoOpinion:
        return judge.opinion(QUESTION)

    assert asyncio.run(asked()) == OPINION


def test_proxies_of_the_environment_are_not_used(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent goes where the settings say, and nowhere else."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    assert judge_at(endpoint).opinion(QUESTION) == OPINION


@requirement("A13")
@pytest.mark.parametrize(
    ("script", "tries"),
    [
        ([said("```json\n" + json.dumps(ANSWER) + "\n```")], 1),
        ([replace(GOOD, headers={"Content-Type": "application/json; charset=utf-8"})], 1),
        ([failed(500), failed(500), GOOD], 3),
        ([failed(503), GOOD], 2),
        ([failed(429, **{"Retry-After": "0"}), GOOD], 2),
        ([failed(429, **{"Retry-After": formatdate(0, usegmt=True)}), GOOD], 2),
        ([failed(429, **{"Retry-After": "soon"}), GOOD], 2),
    ],
)
def test_good_answers(endpoint: Endpoint, script: list[Reply], tries: int) -> None:
    """A fenced answer is one, and a server that was busy is asked again."""
    assert judge_at(endpoint, *script).opinion(QUESTION) == OPINION
    assert len(endpoint.requests) == tries


@requirement("A13")
def test_servers_without_strict_schemas_are_asked_for_any_object(endpoint: Endpoint) -> None:
    """Many know only json_object; what comes is held to the same keys and types."""
    refused = failed(400, "'response_format.type' : value must be json_object")
    judge = judge_at(endpoint, refused, GOOD)

    assert judge.opinion(QUESTION) == OPINION
    formats = [request["body"]["response_format"]["type"] for request in endpoint.requests]
    assert formats == ["json_schema", "json_object"]


BIG = b'{"choices":[],"x":"' + b"x" * 2_000 + b'"}'
NONSENSE: list[tuple[Reply, str]] = [
    (said("It loops."), "the answer is not one JSON object: It loops."),
    (said(json.dumps(ANSWER | {"confidence": 1})), "the answer has unknown keys: confidence."),
    (said(json.dumps(ANSWER | {"no_progress": "yes"})), "no_progress is 'yes'; it must be true or"),
    (said(json.dumps(ANSWER)[:40], "length"), "the answer was cut off at 400 tokens_max."),
    (said(None, "content_filter"), "the message is empty; it ended with content_filter."),
    (said([{"type": "text"}]), "the response is not a chat completion: Expected `str | null`, got"),
    (
        completion({"role": "assistant", "content": None, "refusal": "I cannot say."}),
        "the model refused: I cannot say.",
    ),
    (Reply(b'{"choices":[]}'), "the response has no choices."),
    (Reply(b'{"choices":[{}]}'), "the response is not a chat completion: Object missing required"),
    (Reply(b"null"), "the response is not a chat completion: Expected `object`, got `null`"),
    (Reply(b"{"), "the response is not a chat completion: Input data was truncated"),
    (Reply(b""), "the response is not a chat completion"),
    (Reply(b'{"x":' + b"[" * 100_000), "the response is not a chat completion"),
    (Reply(GOOD.body.replace(b"announces", b"\xff\xfe")), "the response is not a chat completion"),
    (replace(GOOD, headers={"Content-Type": "text/html"}), "the server answered text/html and no"),
    (replace(GOOD, headers={"Content-Type": ""}), "the server answered without a type and not"),
    (
        Reply(gzip.compress(GOOD.body), headers={"Content-Encoding": "gzip"}),
        "the response is not a ch",
    ),
    (Reply(BIG), "the response has more than 1024 bytes."),
    (Reply(BIG, 400), "the response has more than 1024 bytes."),
    (Reply(how=endless), "the response has more than 1024 bytes."),
    (Reply(b"{}", how=broken_off), "the connection broke off (RemoteProtocolError)."),
    (Reply(b"220 mail ready\r\n", how=dripping), "the connection broke off (RemoteProtocolError)."),
    (
        failed(400, "no such field"),
        'the server answered 400: {"error": {"message": "no such field"',
    ),
    (failed(400, "response_format: no"), "the server answered 400: "),
    (failed(401), f"the server refused the key in {VARIABLE} (401)."),
    (failed(403), f"the server refused the key in {VARIABLE} (403)."),
    (failed(404, "no model small"), 'the server answered 404: {"error": {"message": "no model s'),
    (
        failed(302, Location="/elsewhere"),
        "the server redirects (302), which is not followed; correct",
    ),
    (failed(502, "bad gateway"), "tried 2 times; the server answered 502: "),
    (failed(429, "slow down", **{"Retry-After": "60"}), "no time for another try in 60 s; the ser"),
]


@requirement("A13")
@pytest.mark.parametrize(("reply", "why"), NONSENSE, ids=[why for _, why in NONSENSE])
def test_nonsense_and_failures_are_no_opinion(endpoint: Endpoint, reply: Reply, why: str) -> None:
    """Whatever a server answers, there is one line that says what was wrong, and no exception."""
    limit = 1_024 if "bytes" in why else 262_144
    given = judge_at(endpoint, reply, tries=2, response_bytes_max=limit).opinion(QUESTION)

    assert isinstance(given, NoOpinion)
    assert given.why.startswith(why)
    assert given.why.isprintable()
    assert all(request["path"] == "/v1/chat/completions" for request in endpoint.requests)


HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


@requirement("A13")
@pytest.mark.parametrize(
    "reply",
    [
        Reply(how=silent),
        Reply(HEADERS + GOOD.body, how=dripping),
        Reply(HEADERS[:-2] + b"X: " + b"x" * 2_000, how=dripping),
    ],
    ids=["silent", "dripping", "dripping headers"],
)
def test_slow_answers_are_cut_off(endpoint: Endpoint, reply: Reply) -> None:
    """The time is for the whole question: each byte may come soon, and the last one never."""
    given = judge_at(endpoint, reply, timeout_s=SHORT_S).opinion(QUESTION)

    assert given == NoOpinion("no answer within 0.3 s.")
    # On a busy machine the time is over before the request is read.
    assert len(endpoint.requests) <= 1
    if reply.how is dripping and endpoint.requests:
        assert endpoint.left.wait(5), "the connection was left open"


@requirement("A13")
def test_a_server_that_is_not_there_is_no_opinion(endpoint: Endpoint) -> None:
    """A closed port is tried again, and then given up."""
    with closed_port() as port:
        url = f"http://127.0.0.1:{port}"
        settings = replace(judge_at(endpoint).settings, base_url=url, tries=2)
        given = ChatJudge(settings).opinion(QUESTION)

    assert isinstance(given, NoOpinion)
    assert given.why.startswith("tried 2 times; there is no connection to base_url: ")


@requirement("A13")
@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", f"the environment variable {VARIABLE} of the key is not set."),
        (f"{KEY}\n", f"the environment variable {VARIABLE} holds white space or other"),
        (f"{KEY} x", f"the environment variable {VARIABLE} holds white space or other"),
        (f"{KEY}é", f"the environment variable {VARIABLE} holds white space or other"),
    ],
)
def test_without_a_usable_key_nothing_is_sent(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, key: str, why: str
) -> None:
    """A question without its key would be refused, and a broken header quoted in an error."""
    monkeypatch.setenv(VARIABLE, key)
    given = judge_at(endpoint).opinion(QUESTION)

    assert isinstance(given, NoOpinion)
    assert given.why.startswith(why)
    assert KEY not in given.why
    assert endpoint.requests == []


def test_a_key_that_is_wanted_and_not_named_is_said(endpoint: Endpoint) -> None:
    """The error for a forgotten key says which setting names it."""
    given = judge_at(endpoint, failed(401), api_key_variable=None).opinion(QUESTION)

    assert given == NoOpinion("the server requires a key (401); set api_key_variable.")


ESCAPED = "".join(f"\\u{ord(character):04x}" for character in KEY)


@requirement("A13")
@pytest.mark.parametrize(
    "reply",
    [
        failed(400, f"{KEY} is no good"),
        failed(400, f"{'x' * 12}{KEY * 30}"),  # Shortening a text may cut a key in two.
        said(KEY * 30),
        failed(401, f"Incorrect API key provided: {KEY}"),
        failed(500, f"{'x' * 60} {KEY} {'x' * 60}"),
        said(f"Your key is {KEY}."),
        said(json.dumps(ANSWER | {"reasoning": f"Its key is {KEY}."})),
        said(json.dumps(ANSWER).replace("It only", ESCAPED)),
        said(json.dumps(ANSWER | {KEY: 1})),
        said(json.dumps(ANSWER).replace('{"', f'{{"{ESCAPED}": 1, "', 1)),
        completion({"content": None, "refusal": f"I refuse {KEY}."}),
        Reply(how=broken_off, body=KEY.encode()),
        Reply(b"{}", headers={"Content-Type": f"text/{KEY}"}),
    ],
)
def test_the_key_is_never_shown(
    endpoint: Endpoint, reply: Reply, capfd: pytest.CaptureFixture[str]
) -> None:
    """A server may echo the key; it is in no answer, error, repr or output."""
    judge = judge_at(endpoint, reply, tries=1)
    given = judge.opinion(QUESTION)
    shown = "".join((repr(judge), repr(given), *capfd.readouterr()))

    assert endpoint.requests[0]["headers"]["Authorization"] == f"Bearer {KEY}"
    assert KEY[:12] not in shown


@requirement("A13")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": "http://judge.example/v1"}, "judge.base_url must be https://HOST/PATH, or"),
        ({"base_url": "http://localhost.example/v1"}, "judge.base_url must be"),
        ({"base_url": "http://localhost@judge.example/v1"}, "judge.base_url must be"),
        ({"base_url": f"https://me:{KEY}@judge.example/v1"}, "judge.base_url must be"),
        ({"base_url": f"https://judge.example/v1?key={KEY}"}, "judge.base_url must be"),
        ({"base_url": "https://judge.example:99999/v1"}, "judge.base_url must be"),
        ({"base_url": f"https://{'x' * 70}.example/v1"}, "judge.base_url must be"),
        ({"base_url": "file:///etc/passwd"}, "judge.base_url must be"),
        ({"base_url": "https://[::1/v1"}, "judge.base_url must be"),
        ({"base_url": ""}, "judge.base_url must be"),
        ({"model": ""}, "judge.model is empty"),
        ({"api_key_variable": KEY}, "judge.api_key_variable must be the name of an environment"),
        ({"timeout_s": 0.0}, "judge.timeout_s is 0.0; it must be between 0.1 and 300.0."),
        ({"timeout_s": float("nan")}, "judge.timeout_s is nan; it must be between"),
        ({"tries": 0}, "judge.tries is 0; it must be between 1 and 10."),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    """One line says which setting is wrong; it quotes nothing in which a key may stand."""
    with pytest.raises(SettingError) as caught:
        ChatSettings(**{"base_url": "https://judge.example/v1", "model": "small"} | settings)

    assert str(caught.value).startswith(message)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "base_url",
    ["https://judge.example/v1", "http://localhost:8000/v1", "http://127.0.0.2", "http://[::1]/"],
)
def test_safe_addresses_are_taken(base_url: str) -> None:
    """Elsewhere over TLS, on this machine without."""
    assert ChatSettings(base_url, "small").base_url == base_url
