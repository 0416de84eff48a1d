"""`looptrace incidents` over stores and servers."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from looptrace.analyzer.settings.sections import load
from looptrace.collector.store import writer
from tests.collector.store.stored import looping, spans_of
from tests.commands import json_of, run
from tests.paths import ROOT, written
from tests.reliability.serving import looping as served_looping
from tests.reliability.serving import served, until

LOOPING = str(ROOT / "examples" / "traces" / "research_two_agents_loop.json")
PRICES = """
currency = "EUR"
[models."*"]
input_per_million = 10
output_per_million = 100
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a store with one incident of two gates."""
    writer.ingest(spans_of(looping("s1"), looping("s2", "2026-03-03T09:00:00Z")), tmp_path / "s")
    return tmp_path / "s"


def listed(*where: str | Path) -> list[dict[str, Any]]:
    """Return the listed incidents."""
    found: list[dict[str, Any]] = json_of("incidents", "list", "--all", *where)
    return found


def test_a_person_finds_sets_and_decides_an_incident(folder: Path) -> None:
    """What is said is listed, and one decision ends both gates."""
    at = ("--store", folder)
    (incident,) = listed(*at)
    one = incident["id"][:6]
    told = run("incidents", "list", *at).stdout
    assert "2 of 2 gates open, 2 tasks, since 2026-03-0" in " ".join(told.split())
    muted = run("incidents", "set", one, *at, "--state", "muted", "--hours", "2", "--by", "Ada")
    assert re.search(r"Incident \w+: muted until 20\d\d-", muted.stdout)
    assert run("incidents", "set", one, *at, "--owner", "Bo").stdout.endswith("owner Bo.\n")
    refused = run("incidents", "set", one, *at, "--state", "muted")
    assert (refused.exit_code, "has an end" in refused.stderr) == (2, True)
    shown = run("incidents", "show", one, *at).stdout
    for part in ("set by", "Ada", "run_tests", "gates, 2 of 2 open", "task s1", "repeated_failure"):
        assert part in shown
    ends = ("--decision", "reviewed", "--note", "The fixture was old.", "--by", "Ada")
    decided = run("incidents", "decide", one, *at, *ends).stdout
    assert decided.startswith("2 gates resolved: reviewed. It takes effect with the next")
    assert "No gate is open" in run("gates", "list", *at).stdout
    again = run("incidents", "decide", one, *at, *ends)
    assert (again.exit_code, "no gate of incident" in again.stderr) == (2, True)
    run("incidents", "set", one, *at, "--state", "open")
    assert "No incident is open" in run("incidents", "list", *at).stdout
    (after,) = listed(*at)
    assert (after["state"], after["gates_open"], after["owner"]) == ("resolved", 0, "Bo")


def test_the_same_loop_in_several_stores_is_one_incident(folder: Path, tmp_path: Path) -> None:
    """A word and a decision go wherever it has gates."""
    writer.ingest(spans_of(looping("s3", "2026-03-04T09:00:00Z")), tmp_path / "t")
    at = ("--store", folder, "--store", tmp_path / "t")
    (incident,) = listed(*at)
    assert (incident["gates"], incident["gates_open"], incident["tasks"]) == (3, 3, 3)
    assert "state acknowledged" not in run("incidents", "show", incident["id"], *at).stdout
    run("incidents", "set", incident["id"], *at, "--state", "acknowledged")
    assert {each["state"] for each in listed("--store", folder)} == {"acknowledged"}
    assert {each["state"] for each in listed("--store", tmp_path / "t")} == {"acknowledged"}
    run("incidents", "decide", incident["id"], "--store", tmp_path / "t", "--decision", "cancel")
    done = run("incidents", "decide", incident["id"], *at, "--decision", "reviewed")
    assert done.stdout.startswith("2 gates resolved")
    assert run("incidents", "decide", incident["id"], *at, "--decision", "cancel").exit_code == 2


def test_incidents_of_a_server(tmp_path: Path) -> None:
    """Over HTTP all is as in a store; what cannot be is refused with a status."""
    with served(tmp_path / "s") as server:
        for task in ("s1", "s2"):
            assert server.send(served_looping(task, 6, version="1.4.2").request()) == 200
        until(lambda: len(server.gates()) == 2)
        at = ("--server", f"http://{server.address}")
        (incident,) = listed(*at)
        path = f"/v1/incidents/{incident['id']}"
        assert (incident["gates_open"], incident["state"]) == (2, "open")
        assert len(server.ask("GET", path)[1]["gates"]) == 2
        for method, where, body, status in (
            ("GET", "/v1/incidents?state=asleep", None, 400),
            ("GET", "/v1/incidents/ffff", None, 404),
            ("POST", path, {"state": "asleep"}, 409),
            ("POST", "/v1/silences", {"why": "known", "ends_ns": 1}, 409),
            ("POST", "/v1/silences", {"why": "known"}, 400),
            ("DELETE", "/v1/silences/ffff", None, 404),
            ("POST", path, {"colour": "red"}, 400),
            ("POST", "/v1/incidents/ffff", {"state": "resolved"}, 404),
            ("POST", f"{path}/decide", {"decision": "banana"}, 409),
            ("POST", "/v1/incidents/ffff/decide", {"decision": "cancel"}, 404),
        ):
            sent = json.dumps(body).encode() if body else None
            assert server.ask(method, where, sent)[0] == status, where
        run("incidents", "set", incident["id"], *at, "--state", "acknowledged", "--by", "Ada")
        silenced_and_not(*at)
        assert [e["said_by"] for e in listed(*at, "--state", "acknowledged")] == ["Ada"]
        done = run("incidents", "decide", incident["id"], *at, "--decision", "reviewed")
        assert done.stdout == "2 gates resolved: reviewed. Agents that wait receive it now.\n"
        until(lambda: len(server.gates("status=resolved")) == 2)
        assert [each["state"] for each in listed(*at)] == ["resolved"]
        gates = server.gates()
        assert {gate["incident"] for gate in gates} == {incident["id"]}
        now = datetime.now(UTC).isoformat()
        assert server.send(served_looping("s3", 6, at=now, version="1.5.0").request()) == 200
        until(lambda: listed(*at)[0]["back_in"] == "1.5.0")
        told = " ".join(run("incidents", "list", *at).stdout.split())
        assert "back again" in told
        assert "resolved in 1.4.2, back in 1.5.0" in told


def silenced_and_not(*at: str | Path) -> None:
    """Make a silence, see it listed, and end it."""
    given = ("--tool", "run_tests", "--agent", "scout", "--hours", "2", "--why", "we know")
    made = run("silences", "add", *at, *given, "--by", "Ada").stdout
    assert re.match(r"Silence \w+: tool run_tests, agent scout, until 20\d\d-", made)
    (one,) = json_of("silences", "list", *at)
    assert (one["matchers"]["tool"], one["why"], one["who"]) == ("run_tests", "we know", "Ada")
    assert "0 gates held back" in run("silences", "list", *at).stdout
    assert run("silences", "end", one["id"], *at).stdout.endswith("has ended.\n")
    assert "There is no silence." in run("silences", "list", *at).stdout
    assert run("silences", "end", one["id"], *at).exit_code == 2
    assert run("silences", "add", *at, "--hours", "2", "--why", "we know").exit_code == 2


def test_silences_of_stores(folder: Path, tmp_path: Path) -> None:
    """A silence of several stores is made and ended in each."""
    silenced_and_not("--store", folder)
    writer.ingest(spans_of(looping("s3", "2026-03-04T09:00:00Z")), tmp_path / "t")
    at = ("--store", folder, "--store", tmp_path / "t")
    run("silences", "add", *at, "--rule", "repeated_call", "--hours", "2", "--why", "we know")
    listed_ids = re.findall("^[0-9a-f]{16}", run("silences", "list", *at).stdout, re.MULTILINE)
    assert len(set(listed_ids)) == 2
    for one in listed_ids:
        assert run("silences", "end", one, *at).exit_code == 0


def test_a_loop_that_is_none_is_offered_as_an_exception(folder: Path, tmp_path: Path) -> None:
    """The lines are settings, with which the same calls open no gate by its rule."""
    at = ("--store", folder)
    (incident,) = listed(*at)
    assert "no loop" not in run("incidents", "show", incident["id"], *at).stdout
    run("incidents", "decide", incident["id"], *at, "--decision", "not_a_loop")
    shown = " ".join(run("incidents", "show", incident["id"], *at).stdout.split())
    assert "2 gates called no loop; `looptrace incidents exception" in shown
    lines = run("incidents", "exception", incident["id"], *at).stdout
    settings = written(tmp_path / "looptrace.toml", lines)
    assert run("config", "check", settings).exit_code == 0
    overrides = load(settings).policy.rule_set.overrides
    rules = {gate["rule"] for gate in json.loads(gates_of(folder))}
    assert [each.tool for each in overrides] == ["run_tests"]
    assert all(rules <= each.rules.keys() and each.signature for each in overrides)
    assert "# Tried over 7 days and 2 tasks: 2 of 2 gates of this loop would not open" in lines
    other = tmp_path / "t"
    run("ingest", traced(tmp_path), "--store", other, "--config", settings)
    assert json.loads(gates_of(other)) == []
    run("ingest", traced(tmp_path), "--store", tmp_path / "u")
    assert rules <= {gate["rule"] for gate in json.loads(gates_of(tmp_path / "u"))}


def test_an_incident_has_money_where_there_are_prices(tmp_path: Path) -> None:
    """It is what the report says of the loop up to the gate, in stores, servers and SQL."""
    (tmp_path / "prices.toml").write_text(PRICES, encoding="utf-8")
    settings = written(tmp_path / "looptrace.toml", 'prices = "prices.toml"\n')
    run("ingest", LOOPING, "--store", tmp_path / "free")
    assert listed("--store", tmp_path / "free")[0]["money"] is None
    run("ingest", LOOPING, "--store", tmp_path / "s", "--config", settings)
    (incident,) = listed("--store", tmp_path / "s")
    read, wrote = incident["input_tokens"], incident["output_tokens"]
    assert incident["money"] == pytest.approx((10 * read + 100 * wrote) / 1_000_000)
    assert (
        f"EUR {incident['money']:.2f}, "
        in run("incidents", "list", "--store", tmp_path / "s").stdout
    )
    (asked,) = json_of("query", "incidents", "--store", tmp_path / "s")
    assert asked["money"] == incident["money"]
    both = listed("--store", tmp_path / "s", "--store", tmp_path / "free")
    assert [(each["gates"], each["money"]) for each in both] == [(2, incident["money"])]
    with served(tmp_path / "t", "--config", str(settings)) as server:
        assert server.send(json.loads(Path(LOOPING).read_bytes())) == 200
        at = ("--server", f"http://{server.address}")
        until(lambda: [each["money"] for each in listed(*at)] == [incident["money"]])


def gates_of(store: Path) -> str:
    """Return the gates of a store as JSON."""
    return run("gates", "list", "--all", "--store", store, "--format", "json").stdout


def traced(folder: Path) -> Path:
    """Write the trace of the incident's first session."""
    return written(folder / "trace.json", json.dumps(looping("s1").request()))


def test_a_trial_tells_which_other_gates_would_not_open(tmp_path: Path) -> None:
    """Another agent's loop is its own; the same calls of other services are excepted, too."""
    times = ("2026-03-02T09:00:00Z", "2026-03-03T09:00:00Z", "2026-02-02T09:00:00Z")
    same = [looping(f"s{n}", at, service="shop") for n, at in enumerate(times)]
    other = looping("b1", service="bank")
    free = looping("n1", service="shop")
    writer.ingest(spans_of(*same, other, free), tmp_path / "s")
    at = ("--store", tmp_path / "s")
    (shop,) = [each for each in listed(*at) if each["service"] == "shop"]
    lines = run("incidents", "exception", shop["id"], *at).stdout
    assert "4 tasks: 3 of 3 gates of this loop would not open, and 1 of 1 other gate." in lines
    assert "# The others: b1@bank." in lines
    every = run("incidents", "exception", shop["id"], *at, "--days", "60").stdout
    assert "60 days and 5 tasks: 4 of 4 gates" in every
    assert "Tried" not in run("incidents", "exception", shop["id"], *at, "--days", "0").stdout
