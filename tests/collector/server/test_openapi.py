"""The description of the HTTP API is what the server answers."""

import asyncio
import http.client
import json
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.routing import Route

from looptrace.analyzer.settings.sections import default
from looptrace.collector.erasure import erasures_api
from looptrace.collector.page.site import Site
from looptrace.collector.server.access import Access
from looptrace.collector.server.openapi import document
from looptrace.collector.server.service import Options, Service
from tests.reliability.serving import OK, looping, served, until
from tests.schemas import DOCS, conflicts

DESCRIBED = json.loads((DOCS / "openapi.json").read_text("utf-8"))
OTLP = {"/v1/traces", "/v1/logs", "/v1/metrics"}


def problems(value: Any, schema: str) -> list[str]:
    """Name what is wrong with a value by a schema of the document, and what it leaves out."""
    validator = Draft202012Validator({**DESCRIBED, "$ref": f"#/components/schemas/{schema}"})
    described = DESCRIBED["components"]["schemas"][schema]["properties"]
    unknown = [f"{name} is not described" for name in value.keys() - described.keys()]
    return [error.message for error in validator.iter_errors(value)] + unknown


def routes(store_dir: Path, *, with_page: bool = False) -> list[Route]:
    """Return the routes of a server, without its page or with them."""

    async def made() -> list[Route]:
        options = Options(store_dir, default(), Access(), 0, None, erasures=erasures_api.routes)
        service = Service(options)
        try:
            return [*service.routes(), *(Site(service, options).routes if with_page else ())]
        finally:
            service.close()

    return asyncio.run(made())


def test_every_path_and_method_is_described(tmp_path: Path) -> None:
    """A handler without a description would be missing; OTLP's own are described by OTLP."""
    served_routes = routes(tmp_path)
    answered = {
        (route.path_format, method.lower())
        for route in served_routes
        if route.path not in OTLP
        for method in set(route.methods or ()) - {"HEAD"}
    }
    described = {
        (path, method)
        for path, about in DESCRIBED["paths"].items()
        for method in about.keys() - {"parameters"}
    }

    assert answered == described
    assert {name for path, name in described if path.endswith("/resolve")} == {"post"}
    assert document(served_routes) == DESCRIBED
    names = [
        about["operationId"] for path in DESCRIBED["paths"].values() for about in _operations(path)
    ]
    assert len(names) == len(set(names)) == 23


def _operations(path: dict[str, Any]) -> list[dict[str, Any]]:
    return [about for method, about in path.items() if method != "parameters"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("ApiError", {}),
        ("ApiError", {"error": 1}),
        ("ApiError", {"error": "", "more": 1}),
        ("GateList", {"gates": [{"id": "g"}], "total": 1}),
        ("Readiness", {"checks": {"log": "yes"}}),
    ],
)
def test_what_is_not_as_described_is_seen(schema: str, value: dict[str, Any]) -> None:
    """A check of answers that takes anything would hold nothing."""
    assert problems(value, schema)


@pytest.mark.requirement("D4")
def test_answers_are_as_described(tmp_path: Path) -> None:
    """Of a server that has a gate, which is then resolved; of what is wrong, too."""
    checked: set[str] = set()

    def check(schema: str, method: str, path: str, body: bytes | None = None) -> Any:
        status, answer = server.ask(method, path, body)
        assert problems(answer, schema) == [], path
        described = DESCRIBED["paths"][template(path)][method.lower()]["responses"][str(status)]
        content = described["content"]["application/json"]["schema"]
        assert content["$ref"] == f"#/components/schemas/{schema}"
        checked.add(schema)
        return answer

    def template(path: str) -> str:
        parts = path.partition("?")[0].split("/")
        if len(parts) > 3:
            parts[3] = "{id}"
        return "/".join(parts)

    with served(tmp_path) as server:
        assert server.send(looping("s1", 6).request()) == OK
        (gate,) = until(server.gates)
        check("GateList", "GET", "/v1/gates?status=open&task=s1")
        shown = check("ShownGate", "GET", f"/v1/gates/{gate['id']}")
        assert conflicts(shown["report"], "escalation.schema.json") == []
        check("ShownTask", "GET", "/v1/tasks/s1")
        check("WarmingList", "GET", "/v1/warming")
        assert problems(event(server.address), "GateNotice") == []
        incident = f"/v1/incidents/{gate['incident']}"
        check("IncidentList", "GET", "/v1/incidents?state=open")
        check("IncidentDetails", "GET", incident)
        muted = b'{"state": "muted", "until_ns": 9000000000000000000, "why": "known"}'
        assert problems(json.loads(muted), "WordBody") == []
        check("IncidentAnswer", "POST", incident, muted)
        decided = b'{"decision": "continue", "note": "The cart is empty."}'
        assert problems(json.loads(decided), "DecisionBody") == []
        check("GateAnswer", "POST", f"/v1/gates/{gate['id']}/resolve", decided)
        check("ApiError", "POST", f"/v1/gates/{gate['id']}/resolve", b"{}")
        check("ApiError", "POST", f"{incident}/decide", decided)
        ends_ns = time.time_ns() + 10**12
        silence = f'{{"tool": "run_tests", "ends_ns": {ends_ns}, "why": "known"}}'.encode()
        assert problems(json.loads(silence), "SilenceBody") == []
        made = check("SilenceAnswer", "POST", "/v1/silences", silence)["silence"]["id"]
        check("SilenceList", "DELETE", f"/v1/silences/{made}")
        check("ApiError", "GET", "/v1/gates?status=shut")
        check("ApiError", "GET", "/v1/gates/none")
        check("ApiError", "GET", "/v1/tasks/none")
        check("Readiness", "GET", "/readyz")
        assert server.ask("GET", "/openapi.json") == (OK, DESCRIBED)
    lists, shown_bodies = {"GateList", "WarmingList"}, {"ShownGate", "ShownTask", "GateAnswer"}
    incidents = {"IncidentList", "IncidentDetails", "IncidentAnswer"}
    silences = {"SilenceAnswer", "SilenceList"}
    assert checked == {*lists, *shown_bodies, *incidents, *silences, "ApiError", "Readiness"}


def event(address: str) -> Any:
    """Return the data of the first event of the stream."""
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", "/v1/gates/stream")
    answer = connection.getresponse()
    while not (line := answer.readline()).startswith(b"data: "):
        assert line
    connection.close()
    return json.loads(line.removeprefix(b"data: "))
