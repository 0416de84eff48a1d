"""P8: dashboard and alerts ask for numbers that a server shows, as Prometheus takes them."""

import http.client
import json
import re
import shutil
import time
from pathlib import Path

import pytest

from looptrace.collector.api_paths import STREAM_PATH
from tests.commands import ended
from tests.paths import ROOT
from tests.reliability.serving import OK, looping, served, until

DASHBOARD = ROOT / "deploy/grafana/looptrace.json"
ALERTS = ROOT / "deploy/alerts.yml"
_NAME = re.compile(r"\blooptrace_\w+")
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


def queries() -> list[str]:
    """Return the queries of all panels."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_a_gate_is_in_the_numbers_until_it_is_resolved(tmp_path: Path) -> None:
    """What the dashboard and the alerts name is shown, and says what happened to a gate."""
    with served(tmp_path / "store") as server:
        assert server.send(looping("s1", 6).request()) == OK
        (gate,) = until(server.gates)
        page = server.page("/metrics")
        assert "looptrace_gates_open 1.0" in page
        assert re.search(r'looptrace_loops_events_total\{action="gate",rule="\w+"\} 1\.0', page)
        assert server.number("looptrace_gates_oldest_open_seconds") > 0
        server.resolve(gate["id"], "not_a_loop")
        until(lambda: "looptrace_gates_open 0.0" in server.page("/metrics"))
        page = server.page("/metrics")

    assert 'looptrace_gates_resolved_total{decision="not_a_loop"} 1.0' in page
    assert 'looptrace_gates_resolution_seconds_bucket{le="+Inf"} 1.0' in page
    assert "looptrace_gates_resolution_seconds_count 1.0" in page
    assert "looptrace_detection_lag_seconds 0.0" in page
    families = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    shown = families | {f"{name}_bucket" for name in families}
    shown.add("looptrace_webhooks_results_total")  # Shown when something was to be sent.
    named = {
        name for text in [*queries(), ALERTS.read_text("utf-8")] for name in _NAME.findall(text)
    }
    assert len(queries()) > 10
    assert named - shown == set()


def test_what_is_open_and_how_large_and_slow_it_is_are_numbers(tmp_path: Path) -> None:
    """Who runs a server sees it before it is full: connections, streams, sizes, detection."""
    config = "[server]\nretention_days = 36500\nstore_every_s = 1\n"
    with served(tmp_path / "store", config=config) as server:
        before = server.number("looptrace_receiver_connections")
        # What comes before is caught up with, and not counted.
        until(lambda: server.number("looptrace_detection_is_current") == 1)
        began_s = time.time()
        assert server.send(looping("s1", 6).request()) == OK
        until(lambda: server.number("looptrace_detection_seconds_count") >= 1)
        assert 0 < server.number("looptrace_detection_seconds_sum") < time.time() - began_s
        connection = http.client.HTTPConnection(server.address, timeout=30)
        connection.request("GET", STREAM_PATH)
        stream = connection.getresponse()
        until(lambda: server.number("looptrace_streams_open") == 1)
        assert server.number("looptrace_receiver_connections") > before
        stream.close()
        connection.close()
        until(lambda: server.number("looptrace_streams_open") == 0)
        until(lambda: server.number("looptrace_storing_last_write_timestamp_seconds") >= began_s)
        assert server.number('looptrace_store_bytes{table="other"}') > 0
    with served(tmp_path / "store") as server:  # Sizes are looked at again after a while.
        assert server.number('looptrace_store_bytes{table="spans"}') > 0


@needs_promtool
def test_promtool_takes_the_alerts_and_the_queries(tmp_path: Path) -> None:
    """A query that Prometheus refuses is an empty panel, at night."""
    rules = "groups:\n- name: dashboard\n  rules:\n" + "".join(
        f"  - record: dashboard:query:{number}\n    expr: {json.dumps(query)}\n"
        for number, query in enumerate(queries())
    )
    (tmp_path / "dashboard.yml").write_text(rules.replace("$__rate_interval", "5m"))
    for path in (ALERTS, tmp_path / "dashboard.yml"):
        done = ended(PROMTOOL or "", "check", "rules", path)
        assert done.returncode == 0, done.stderr


@needs_promtool
def test_promtool_takes_the_numbers(tmp_path: Path) -> None:
    """The page of a server is one that Prometheus reads, with the histogram in it."""
    with served(tmp_path / "store") as server:
        page = server.page("/metrics")
    done = ended(PROMTOOL or "", "check", "metrics", input=page)
    assert done.returncode == 0, done.stdout + done.stderr
