"""The description of the HTTP API is what the server answers."""

from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from looptrace.analyzer.settings.sections import default
from looptrace.collector.server.access import Access
from looptrace.collector.server.service import Options, Service
from tests.reliability.serving import OK, looping, served, until
from tests.schemas import DOCS, conflicts

FILE = "../src/looptrace/collector/server/openapi.json"
DESCRIBED = json.loads((DOCS / FILE).read_text("utf-8"))
SCHEMAS = "components/schemas/"


def routes(store_dir: Path) -> list[Route]:
    """Return the routes of a server."""

    async def made() -> list[Route]:
        service = Service(Options(store_dir, default(), Access(), 0, None))
        try:
            return service.routes()
        finally:
            service.close()

    return asyncio.run(made())


def test_every_path_and_method_is_described(tmp_path: Path) -> None:
    """And none that there is not; OTLP's own are described by OTLP."""
    answered = {
        (route.path.replace(":path}", "}"), method.lower())
        for route in routes(tmp_path)
        for method in set(route.methods or ()) - {"HEAD"}
    }
    described = {
        (path, method)
        for path, about in DESCRIBED["paths"].items()
        for method in about.keys() - {"parameters"}
    }

    assert answered == described
    assert {name for path, name in described if path.endswith("/resolve")} == {"post"}


@pytest.mark.requirement("D4")
def test_answers_are_as_described(tmp_path: Path) -> None:
    """Of a server that has a gate, which is then resolved; of what is wrong, too."""
    checked: list[str] = []

    def check(schema: str, method: str, path: str, body: bytes | None = None) -> Any:
        status, answer = server.ask(method, path, body)
        assert conflicts(answer, FILE, SCHEMAS + schema) == [], path
        described = DESCRIBED["paths"][template(path)][method.lower()]["responses"][str(status)]
        content = described["content"]["application/json"]["schema"]
        assert content["$ref"] == f"#/{SCHEMAS}{schema}"
        checked.append(schema)
        return answer

    def template(path: str) -> str:
        parts = path.partition("?")[0].split("/")
        if len(parts) > 3:
            parts[3] = "{id}"
        return "/".join(parts)

    with served(tmp_path) as server:
        assert server.send(looping("s1", 6).request()) == OK
        (gate,) = until(lambda: server.ask("GET", "/v1/gates")[1]["gates"])
        check("Gates", "GET", "/v1/gates?status=open&task=s1")
        shown = check("GateDetails", "GET", f"/v1/gates/{gate['id']}")
        assert conflicts(shown["report"], "escalation.schema.json") == []
        check("Task", "GET", "/v1/tasks/s1")
        told = event(server.address)
        assert conflicts(told, FILE, SCHEMAS + "Told") == []
        decided = b'{"decision": "continue", "note": "The cart is empty."}'
        check("Resolved", "POST", f"/v1/gates/{gate['id']}/resolve", decided)
        check("Error", "POST", f"/v1/gates/{gate['id']}/resolve", b"{}")
        check("Error", "GET", "/v1/gates?status=shut")
        check("Error", "GET", "/v1/gates/none")
        check("Error", "GET", "/v1/tasks/none")
        check("Ready", "GET", "/readyz")
        assert server.ask("GET", "/openapi.json") == (OK, DESCRIBED)
    assert set(checked) == {"Gates", "GateDetails", "Task", "Resolved", "Error", "Ready"}


def event(address: str) -> Any:
    """Return the data of the first event of the stream."""
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", "/v1/gates/stream")
    answer = connection.getresponse()
    while not (line := answer.readline()).startswith(b"data: "):
        assert line
    connection.close()
    return json.loads(line.removeprefix(b"data: "))
