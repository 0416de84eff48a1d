"""P18: closed by default."""

import asyncio
import json
import logging
import re
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import httpx
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from looptrace.analyzer.gates.decisions import GateError
from looptrace.collector.gates_client import RemoteGates
from looptrace.collector.sdk.gate_stream import Server
from looptrace.collector.sdk.server_watch import reason_of
from looptrace.collector.server.access import (
    Access,
    AccessInterceptor,
    AccessMiddleware,
    Scope,
    Send,
    check_access,
    tls_options,
)
from looptrace.collector.server.grpc_certificates import grpc_certificates
from looptrace.collector.server.tokens.roles import ROLES
from looptrace.collector.server.tokens.token_file import (
    HASHED,
    AccessError,
    Holder,
    add_token,
    read_tokens,
    revoke_token,
)
from looptrace.collector.store.locks import StoreError
from tests.commands import printed, run
from tests.reliability.asgi import serving
from tests.reliability.receivers import EXPORT
from tests.reliability.serving import SERVE, served, until

GOOD, SHORT, OTHER = "a-token-of-20-letters", "only-15-letters", "another-token-of-letters"
START_S = 10.0
ANY = "0.0.0.0"  # noqa: S104 - that such a server does not start unasked is what is tested.


async def app(scope: Scope, _receive: Any, send: Send) -> None:
    """Answer every request with what path it asked for."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})


def guarded(access: Access) -> AbstractContextManager[int]:
    """Serve with this access; return the port."""
    return serving(AccessMiddleware(app, access), access.host, **tls_options(access))


def mutual(access: Access, folder: Path) -> Access:
    """Let clients need certificates."""
    return replace(
        access,
        cert_file=folder / "server.pem",
        key_file=folder / "server.key",
        client_ca_file=folder / "ca.pem",
    )


def client_context(folder: Path, *, own: bool) -> ssl.SSLContext:
    """Return a client's side of TLS, with a certificate of its own or without."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if own:
        context.load_cert_chain(folder / "client.pem", folder / "client.key")
    return context


@pytest.mark.parametrize("host", ["127.0.0.1", ANY])
@pytest.mark.parametrize("token", [None, SHORT, GOOD])
@pytest.mark.parametrize("tls", [False, True])
def test_every_combination(certificates: Path, host: str, token: str | None, tls: bool) -> None:
    """P18: 24 combinations of address, token, TLS and header start and answer as they should."""
    access = Access(host, (token,) if token else ())
    access = mutual(access, certificates) if tls else access
    if token == SHORT or (host == ANY and not token and not tls):
        with pytest.raises(AccessError):
            check_access(access)
        return
    check_access(access)
    context = client_context(certificates, own=True)
    with guarded(access) as port, httpx.Client(verify=context, trust_env=False) as client:
        url = f"{'https' if tls else 'http'}://localhost:{port}"
        for headers in ({}, {"authorization": f"Bearer {GOOD}"}):
            answer = client.get(f"{url}/v1/gates", headers=headers)
            assert answer.status_code == (401 if token and not headers else 200)
            assert client.get(f"{url}/healthz").status_code == 200


PATHS = (
    *("/v1/gates", "/v1/gates/none", "/v1/tasks", "/v1/gates/metrics", "/v1/nothing", "/metrics"),
    *("/healthz", "/readyz", "/", "/tasks", "/nope", "/sign-in", "/v1/traces", "/openapi.json"),
)


def test_no_answer_is_kept_or_taken_for_another_type(tmp_path: Path) -> None:
    """P18: what agents wrote is not run by a browser, and not left in a cache."""
    (tmp_path / "tokens").write_text(GOOD)
    options = ("--no-grpc", "--token-file", str(tmp_path / "tokens"))
    with served(tmp_path / "store", *options) as server, httpx.Client(trust_env=False) as client:
        url, known = f"http://{server.address}", {"authorization": f"Bearer {GOOD}"}
        answers = [client.get(url + path, headers=each) for path in PATHS for each in ({}, known)]
        answers += [
            client.post(f"{url}/v1/traces", content=b"{", headers={**known, "content-type": kind})
            for kind in ("application/json", "application/x-protobuf", "text/plain")
        ]
        answers.append(client.get(url, headers={"host": "elsewhere.example"}))
        with client.stream("GET", f"{url}/v1/gates/stream", headers=known) as stream:
            answers.append(stream)
        asset = client.get(
            url + re.findall(r'"(/[^"]+\.css[^"]*)"', client.get(f"{url}/sign-in").text)[0]
        )

    assert {answer.status_code for answer in answers} >= {200, 303, 400, 401, 403, 404, 415}
    for answer in answers:
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"], answer.url
        assert answer.headers.get_list("cache-control") == ["no-store"], answer.url
    assert asset.headers["x-content-type-options"] == "nosniff"
    assert "immutable" in asset.headers["cache-control"]


def certificate_at(port: int) -> bytes:
    """Return the certificate that a server shows on a new connection."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", port), START_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        return secured.getpeercert(binary_form=True) or b""


def test_sighup_reads_tokens_and_certificates_again(certificates: Path, tmp_path: Path) -> None:
    """P18: a token and a certificate are replaced while the server runs, and it never ends."""
    cert, key, tokens = (tmp_path / name for name in ("server.pem", "server.key", "tokens"))
    config, log = tmp_path / "looptrace.toml", tmp_path / "log"

    def use(name: str) -> bytes:
        cert.write_bytes((certificates / f"{name}.pem").read_bytes())
        key.write_bytes((certificates / f"{name}.key").read_bytes())
        return ssl.PEM_cert_to_DER_cert(cert.read_text())

    first = use("server")
    tokens.write_text(f"{GOOD}\n")
    config.write_text("[server]\nretention_days = 10\n")
    options = ("--token-file", tokens, "--config", config, "--tls-cert", cert, "--tls-key", key)
    ports = ("--http-port", "0", "--grpc-port", "0", "--store", tmp_path / "store")
    with log.open("w") as errors:
        command = [*SERVE, *map(str, (*ports, *options))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout
    with process.stdout as said:
        http, grpc_port = map(int, re.findall(r":(\d+)\b", said.readline()))

    def hup() -> str:
        before = len(answers())
        process.send_signal(signal.SIGHUP)
        return str(until(lambda: answers()[before:])[0])

    def answers() -> list[str]:
        lines = log.read_text().splitlines(keepends=True)
        return [line for line in lines if "SIGHUP:" in line and line.endswith("\n")]

    def status(token: str) -> int:
        with httpx.Client(verify=False, trust_env=False) as client:  # noqa: S501
            headers = {"authorization": f"Bearer {token}"}
            return client.get(f"https://127.0.0.1:{http}/v1/gates", headers=headers).status_code

    try:
        assert (status(GOOD), status(OTHER)) == (200, 401)
        assert certificate_at(http) == certificate_at(grpc_port) == first
        second = use("client")
        tokens.write_text(f"Ada {OTHER}\n")
        config.write_text("[server]\nretention_days = 20\n")
        line = hup()
        assert "1 tokens are valid; new connections get the certificate as it is now" in line
        assert "the settings stay as they were, and a restart applies server.retention_days" in line
        assert (status(GOOD), status(OTHER)) == (401, 200)
        assert certificate_at(http) == certificate_at(grpc_port) == second
        # What cannot be used is named, and changes nothing.
        tokens.write_text(f"{SHORT}\n")
        cert.write_text("none")
        config.write_text("[server]\nretention_days = -1\n")
        line = hup()
        for what in ("tokens", "certificates", "settings"):
            assert f"the {what} stay as they were: " in line
        assert "a token has fewer than" in line
        assert SHORT not in line
        tokens.unlink()
        config.unlink()
        assert "cannot be read" in hup()
        assert (status(GOOD), status(OTHER)) == (401, 200)
        assert certificate_at(http) == certificate_at(grpc_port) == second
    finally:
        process.terminate()
        assert process.wait() == 0


def test_clients_without_a_certificate_do_not_get_in(certificates: Path) -> None:
    """P18: where clients need a certificate, none gets in without one."""
    access = mutual(Access(ANY), certificates)
    context = client_context(certificates, own=False)

    with guarded(access) as port, pytest.raises(httpx.TransportError):
        httpx.get(f"https://localhost:{port}/v1/gates", verify=context, trust_env=False)


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch, certificates: Path) -> Callable[..., None]:
    """Return a function that sets variables of the exporters, and others of TLS to nothing."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)

    def trust(**files: str) -> None:
        for name, file in files.items():
            monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", str(certificates / file))

    return trust


OWN = {"CLIENT_CERTIFICATE": "client.pem", "CLIENT_KEY": "client.key"}


@pytest.mark.parametrize("files", [{}, OWN])
def test_gates_are_asked_for_with_the_certificates_of_the_exporters(
    certificates: Path, trusting: Callable[..., None], files: dict[str, str]
) -> None:
    """An agent whose spans arrive is also stopped; its variables are set once."""
    access = mutual(Access(ANY), certificates)
    with guarded(access if files else replace(access, client_ca_file=None)) as port:
        server = Server(f"https://localhost:{port}")
        with pytest.raises(ssl.SSLCertVerificationError) as error:
            server.request("GET", "/v1/gates")
        assert "name the file of its certificate" in reason_of(error.value)
        with pytest.raises(StoreError, match="in OTEL_EXPORTER_OTLP_CERTIFICATE"):
            RemoteGates(server).gates()
        trusting(CERTIFICATE="ca.pem", **files)
        connection, answer = server.request("GET", "/v1/gates")
        with closing(connection):
            assert answer.read() == b"/v1/gates"
        asked = run("doctor", LOOPTRACE_ENDPOINT=server.url)
        assert "https://localhost answers" in asked.output
        trusting(CERTIFICATE="absent.pem")
        with pytest.raises(OSError, match=r"absent.pem: cannot be used \(No such file"):
            server.request("GET", "/v1/gates")


def codes_of(access: Access, *headers: Any) -> list[int]:
    """Return how a server with this access answers requests with each of these headers."""
    with guarded(access) as port, httpx.Client(trust_env=False) as client:
        url = f"http://127.0.0.1:{port}/v1/traces"
        encoded = (httpx.Headers(each, encoding="latin-1") for each in headers)
        return [client.post(url, headers=each).status_code for each in encoded]


def test_only_the_tokens_get_in() -> None:
    """P18: each of several tokens is good, and nothing else is."""
    good = (f"Bearer {GOOD}", f"bearer  {OTHER}")
    bad = (f"Bearer {GOOD}x", f"Bearer {GOOD[:-1]}", f"Basic {GOOD}", GOOD, "Bearer", "Bearer \xff")
    given = [{"authorization": value} for value in (*good, *bad)]
    twice = [("authorization", f"Bearer {GOOD}"), ("authorization", "Bearer x")]
    codes = codes_of(Access(tokens=(OTHER, GOOD)), *given, twice, {"x-token": GOOD}, {})

    assert codes == [200] * len(good) + [401] * (len(bad) + 3)


def test_refusals_are_what_otlp_asks_for() -> None:
    """A client shows the status' message, in the form that it speaks."""
    with guarded(Access(tokens=(GOOD,))) as port:
        url = f"http://127.0.0.1:{port}/v1/traces"
        proto, text = (
            httpx.post(url, headers={"content-type": kind}, content=b"x", trust_env=False)
            for kind in ("application/x-protobuf", "application/json; charset=utf-8")
        )

    status = Status.FromString(proto.content)
    assert (status.code, "Authorization" in status.message) == (16, True)
    assert json.loads(text.content) == {"code": 16, "message": status.message}
    assert text.headers["www-authenticate"] == "Bearer"


def test_pages_of_others_cannot_use_a_browser() -> None:
    """P18: neither a form on a foreign page nor a name that points here gets anything done."""
    access = Access(hosts=("loops.internal",))
    names = ("localhost:1", "127.0.0.2", "[::1]:4318", "loops.internal")
    foreign = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[")
    origins = ("http://localhost:2", "https://evil.example", "null")
    own = [*((name,) for name in names), ("localhost:1", "http://localhost:1")]
    others = [*((name,) for name in foreign), *(("localhost:1", origin) for origin in origins)]
    given = [dict(zip(("host", "origin"), each, strict=False)) for each in (*own, *others)]

    assert codes_of(access, *given) == [200] * len(own) + [403] * len(others)


@pytest.mark.parametrize(
    ("access", "why"),
    [
        (Access("192.168.1.5"), "192.168.1.5 is reached from other machines"),
        (Access("::"), "is reached from other machines"),
        (Access("example.org"), "is reached from other machines"),
        (Access("localhost.example.org"), "is reached from other machines"),
        (Access(tokens=(GOOD, SHORT)), "fewer than 16 characters"),
        (Access(tokens=("token with a ü in it",)), "no header can have"),
        (Access(cert_file=Path("a")), "come together"),
        (Access(ANY, client_ca_file=Path("a")), "need TLS"),
    ],
)
def test_it_does_not_start_open(access: Access, why: str) -> None:
    """P18: what would be open by mistake does not start, and says what to do."""
    with pytest.raises(AccessError, match=why):
        check_access(access)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LOCALHOST."])
def test_this_machine_alone_needs_nothing(host: str) -> None:
    """P18: a trial on one machine needs no set-up."""
    check_access(Access(host))


def test_tokens_are_read_from_where_others_do_not_look(tmp_path: Path) -> None:
    """P18: a file comes before the environment; an empty one is a mistake."""
    file = tmp_path / "tokens"
    environ = {"LOOPTRACE_TOKENS": f"{GOOD} {OTHER}"}
    file.write_text(f"{OTHER}\n\n{SHORT}\n")

    assert read_tokens(None, environ) == {GOOD: Holder(), OTHER: Holder()}
    assert read_tokens(None, {}) == {}
    assert read_tokens(file, environ) == {OTHER: Holder(), SHORT: Holder()}
    file.write_text(f"{OTHER}\nAda Lovelace {GOOD}\n")
    assert read_tokens(file, environ) == {OTHER: Holder(), GOOD: Holder("Ada Lovelace")}

    file.write_text("\n")
    with pytest.raises(AccessError, match="holds no token"):
        read_tokens(file, environ)
    with pytest.raises(AccessError, match="cannot be read"):
        read_tokens(tmp_path / "nowhere", environ)


ALLOWED = [
    ("POST", "/v1/traces", "agent admin"),
    ("GET", "/v1/gates", "viewer decider admin"),
    ("GET", "/metrics", "viewer decider admin"),
    ("POST", "/v1/gates/none/resolve", "decider admin"),
    ("GET", "/v1/gates/stream", "agent viewer decider admin"),
    ("GET", "/", "viewer decider admin"),
    ("GET", "/settings", "viewer decider admin"),
    ("POST", "/webhooks/none/test", "decider admin"),
    ("POST", "/sign-out", "agent viewer decider admin"),
]


def test_a_token_allows_what_its_role_does(tmp_path: Path) -> None:
    """P18: an agent cannot decide on its own gates, nor a viewer on those of others."""
    file = tmp_path / "tokens"
    given = {role: add_token(file, Holder(f"a {role}", role)) for role in ROLES}
    assert not any(token in file.read_text() for token in given.values())
    with served(tmp_path / "store", "--token-file", str(file)) as server, httpx.Client() as client:
        for method, path, allowed in ALLOWED:
            for role, token in given.items():
                headers = {"authorization": f"Bearer {token}"}
                url = f"http://{server.address}{path}"
                with client.stream(method, url, headers=headers) as got:
                    # Streams go on until somebody leaves.
                    said = got.read().decode() if got.status_code == 403 else ""
                is_refused = bool(re.search(f"this token is that of an? {role}", said))
                assert is_refused == (role not in allowed.split()), (method, path, role)
        viewer = RemoteGates(Server(f"http://{server.address}", given["viewer"]))
        with pytest.raises(GateError, match="this token is that of a viewer"):
            viewer.resolve("none", "reviewed", None)
        for role, token in given.items():
            code = code_of_export(server.grpc, token)
            assert code == ("OK" if role in ("agent", "admin") else "PERMISSION_DENIED")


def is_allowed(authorization: list[str], access: Access) -> bool:
    """Return whether a header lets a request in."""
    return access.asking({"authorization": authorization}, "127.0.0.1") is not None


def code_of_export(address: str, token: str) -> str:
    """Return the name of the status of an export of nothing over gRPC."""
    with grpc.insecure_channel(address) as channel:
        send = channel.unary_unary(EXPORT)
        try:
            send(b"", metadata=[("authorization", f"Bearer {token}")], timeout=START_S)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def test_a_proxy_in_front_names_who_asks(tmp_path: Path) -> None:
    """P18: only the proxy's own address may name somebody, once; everybody else needs a token."""
    header = ("--user-header", "X-Forwarded-User", "--user-header-from")
    decider = ("--user-header-role", "decider")
    named = {"x-forwarded-user": "Ada Lovelace"}
    for address, allowed in (("127.0.0.1", 200), ("127.0.0.0/8", 200), ("10.1.2.3", 401)):
        with (
            served(tmp_path / "store", *header, address, *decider) as server,
            httpx.Client(base_url=f"http://{server.address}") as client,
        ):
            assert client.get("/v1/gates").status_code == 401
            assert client.get("/v1/gates", headers=named).status_code == allowed
            assert client.get("/", headers=named).status_code == (200 if allowed == 200 else 303)
            lies = {**named, "x-forwarded-for": "10.1.2.3"}
            assert client.get("/v1/gates", headers=lies).status_code == allowed
            two = [*named.items(), *named.items()]
            assert client.get("/v1/gates", headers=two).status_code == 401
            if allowed == 200:
                sent = client.post("/v1/traces", headers=named, json={})
                assert "this token is that of a decider" in sent.text
    for options in (header[:2], ("--user-header-from", "10.0.0.1"), (*header, "nowhere")):
        refused = run("serve", "--store", tmp_path / "x", *options)
        assert refused.exit_code == 2, refused.output


def test_a_token_ends_on_its_day_and_by_a_command(tmp_path: Path) -> None:
    """P18: nobody has to remember who had a token."""
    file, today = tmp_path / "tokens", datetime.now(UTC).date()
    ended = add_token(file, Holder("Ada", "viewer", today - timedelta(days=1)))
    valid = add_token(file, Holder("Grace", "viewer", today + timedelta(days=1)))
    holders = read_tokens(file, {})
    access = Access(tokens=tuple(holders), holders=holders)
    assert not is_allowed([f"Bearer {ended}"], access)
    assert is_allowed([f"Bearer {valid}"], access)
    with pytest.raises(AccessError, match="has a token of Ada"):
        add_token(file, Holder("Ada"))
    revoke_token(file, "Grace")
    access.renew(read_tokens(file, {}))
    assert not is_allowed([f"Bearer {valid}"], access)
    with pytest.raises(AccessError, match="has no token of Grace; there are: Ada"):
        revoke_token(file, "Grace")
    assert file.stat().st_mode & 0o077 == 0
    for line, why in (("role=boss", "boss is not one of"), ("until=soon", "not a date")):
        file.write_text(f"Ada {line} {GOOD}")
        with pytest.raises(AccessError, match=why):
            read_tokens(file, {})


def test_tokens_are_made_listed_and_revoked_by_commands(tmp_path: Path) -> None:
    """P18: the token is printed once, and the file has its hash."""
    file = tmp_path / "tokens"
    of_file = ("--token-file", file)
    made = run("tokens", "add", "Ada Lovelace", "--role", "decider", *of_file)
    token = made.stdout.strip()
    assert is_allowed([f"Bearer {token}"], Access(tokens=tuple(read_tokens(file, {}))))
    assert HASHED in file.read_text()
    assert printed("tokens", "list", *of_file) == "Ada Lovelace: decider, without an end\n"
    printed("tokens", "revoke", "Ada Lovelace", *of_file)
    assert file.read_text() == ""


def test_tokens_are_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """P18: neither a representation nor a log holds a token, good or bad."""
    access = Access(tokens=(GOOD,))
    with caplog.at_level(logging.DEBUG), guarded(access) as port:
        for token in (GOOD, OTHER):
            headers = {"authorization": f"Bearer {token}"}
            httpx.get(f"http://127.0.0.1:{port}/v1/gates", headers=headers, trust_env=False)

    told = f"{access!r} {access} {AccessMiddleware(app, access)!r} {caplog.text}"
    assert "127.0.0.1" in told
    assert [token for token in (GOOD, OTHER) if token in told] == []


def call(
    access: Access, token: str | None, credentials: grpc.ChannelCredentials = None
) -> grpc.StatusCode:
    """Call a gRPC server with this access; return the status of the answer."""

    async def answer(_request: bytes, _context: Any) -> bytes:
        return b"done"

    async def go() -> grpc.StatusCode:
        server = grpc.aio.server(interceptors=[AccessInterceptor(access)])
        handlers = {"Export": grpc.unary_unary_rpc_method_handler(answer)}
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test", handlers)])
        if certificates := grpc_certificates(access):
            port = server.add_secure_port("127.0.0.1:0", certificates.credentials())
        else:
            port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        metadata = [("authorization", f"Bearer {token}")] if token else None
        at = f"localhost:{port}"
        channel = (
            grpc.aio.secure_channel(at, credentials)
            if credentials
            else grpc.aio.insecure_channel(at)
        )
        try:
            await channel.unary_unary("/test/Export")(b"x", metadata=metadata, timeout=START_S)
        except grpc.aio.AioRpcError as error:
            return error.code()
        finally:
            await channel.close()
            await server.stop(0)
        return grpc.StatusCode.OK

    return asyncio.run(go())


def client_credentials(folder: Path, *, own: bool) -> grpc.ChannelCredentials:
    """Return a gRPC client's side of TLS, with a certificate of its own or without."""
    ca, key, cert = (
        (folder / name).read_bytes() for name in ("ca.pem", "client.key", "client.pem")
    )
    return grpc.ssl_channel_credentials(ca, *((key, cert) if own else ()))


def test_grpc_asks_for_tokens_too(certificates: Path) -> None:
    """P18: gRPC is the same door, with the same lock."""
    access = Access(tokens=(GOOD, OTHER))

    assert call(access, GOOD) == call(access, OTHER) == grpc.StatusCode.OK
    assert call(access, None) == call(access, GOOD + "x") == grpc.StatusCode.UNAUTHENTICATED
    assert call(Access(), None) == grpc.StatusCode.OK
    closed = mutual(Access(ANY), certificates)
    known, unknown = (client_credentials(certificates, own=own) for own in (True, False))
    assert call(closed, None, known) == grpc.StatusCode.OK
    assert call(closed, None, unknown) == grpc.StatusCode.UNAVAILABLE
