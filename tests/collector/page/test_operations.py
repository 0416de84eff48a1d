"""What those see who run the server: figures, rules, settings, webhooks, health."""

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from looptrace import queries
from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.analyzer.settings.sections import default
from looptrace.collector.page.operating.health_text import HealthLine, lines_of
from looptrace.collector.page.operating.settings_rows import rows_of
from looptrace.collector.page.overview import QUERIES
from looptrace.collector.page.rendering import block, since
from looptrace.collector.server.access import Access
from looptrace.collector.server.service import Options, Service
from looptrace.rules.vocabulary import NS_PER_S
from tests.collector.page.conftest import SETTINGS, Browser, words
from tests.otlp import Trace, tool_call
from tests.reliability.serving import OK, Served, looping, served, until
from tests.reliability.test_webhook_network import serving

SECRET_PATH = "/services/T0/very-secret-path"  # noqa: S105
HOOK = "on call <b>pager</b>"


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a store with a webhook to a receiver that accepts."""
    with serving() as receiver:
        config = (
            f'[[webhooks]]\nname = "{HOOK}"\nurl = "{receiver.url}{SECRET_PATH}"\n'
            'format = "slack"\nallow_private = ["127.0.0.1"]\nactions = ["gate"]\n'
            "[rules.cycle]\nenabled = false\n[server]\nretention_days = 36500\nstore_every_s = 1\n"
            '[page]\ntrace_url = "https://traces.example/{trace_id}?api_key=hunter22"\n'
        )
        with served(tmp_path_factory.mktemp("hooked") / "store", config=config) as found:
            assert found.send(looping("s1", 3).request()) == 200
            yield found


@pytest.fixture
def operator(hooked: Served) -> Iterator[Browser]:
    """Return a browser at that server, which asks for no token."""
    with Browser(hooked.address) as opened:
        yield opened


def test_the_overview_says_what_the_queries_say(operator: Browser) -> None:
    """One loop in one task, its gate, its cost, and what was decided."""
    # The figures come of several queries, between which the server may still store.
    shown = ("100.0 % of 1 task had a loop", "1 gate opened; 1 open now", "repeated_failure")
    until(lambda: (page := flat(operator, "/overview")) and all(text in page for text in shown))
    text = words(operator, "/overview")

    assert "Nothing was decided yet." in text
    assert set(QUERIES) <= set(queries.names())
    (gate,) = [each["id"] for each in operator.get("/v1/gates").json()["gates"]]
    operator.decide(gate, decision="not_a_loop", note="")
    until(lambda: "100.0 % of resolved gates were called no loop" in flat(operator, "/overview"))
    until(lambda: "This is not a loop 1 1 100 %" in words(operator, "/overview"))
    text = words(operator, "/health")
    # On the hour, no minutes are written.
    assert re.search(r"resolution\. on average, of 1 \d+ h ", text)
    assert "+Inf" not in text


def test_figures_are_as_of_now_from_the_first_visit_on(tmp_path: Path) -> None:
    """A gate that is listed is counted: one visit before it opened is enough to be told of it."""
    started = served(tmp_path / "store", config=SETTINGS)
    with started as server, Browser(server.address) as browser:
        assert "0 gates opened; 0 open now" in flat(browser, "/overview")
        assert "Stored loops, each once, however many rules see it. 0" in words(browser, "/health")
        for count in (1, 2):
            assert server.send(looping(f"s{count}", 6).request()) == OK
            until(partial(has_gates, server, count))
            gates = "gate opened; 1 open now" if count == 1 else "gates opened; 2 open now"
            # On a loaded machine they take long, and the page shows those of before meanwhile.
            until(partial(shows, browser, f"{count} {gates}"))
        until(lambda: server.ask("GET", "/v1/gates/metrics")[1]["tasks"] == 2)
        until(partial(shows, browser, "100.0 % of 2 tasks had a loop"))
        assert "Stored loops, each once, however many rules see it. 2" in words(browser, "/health")


def has_gates(server: Served, count: int) -> bool:
    """Return whether so many gates are listed."""
    return len(server.gates()) == count


def shows(browser: Browser, text: str) -> bool:
    """Return whether the overview shows a text."""
    return text in flat(browser, "/overview")


def flat(browser: Browser, path: str) -> str:
    """Return the text of a page, with each figure before what it is of."""
    pairs = re.sub(r"<dt>(.*?)</dt><dd>(.*?)</dd>", r"\2 \1", browser.get(path).text)
    return " ".join(re.sub(r"<[^>]+>", " ", pairs).split())


def test_rules_are_shown_as_they_are_in_force(operator: Browser) -> None:
    """Each has its anchor, to which gates and findings lead, and says whether it is on."""
    html = operator.get("/rules").text

    for rule in every_rule():
        assert f'id="{rule.name}"' in html
    text = words(operator, "/rules")
    assert "cycle off A pattern of several calls" in text
    assert "attempts_min 3 Equal calls with equal results" in text
    assert "gate from 5" in text
    assert "`" not in text
    assert 'id="cycle" open>' in operator.get("/rules?name=cycle").text
    assert " open>" not in html


def test_settings_show_no_address(operator: Browser) -> None:
    """The address of a webhook is a secret, as everybody who has it can send to it."""
    html = operator.get("/settings").text

    assert "very-secret" not in html
    assert "hunter22" not in html
    assert "(an address that is not shown)" in html
    assert "retention_days = 36500" in html
    assert "profile = &#34;balanced&#34;" in html


def test_settings_are_what_differs_and_can_be_searched(operator: Browser) -> None:
    """Nobody reads four hundred lines to see what was changed here."""
    text = words(operator, "/settings")
    shown = text.partition("All as a file")[0]

    assert "rules.cycle.enabled false true" in shown
    assert "server.retention_days 36500 not set" in shown or "retention_days 36500" in shown
    assert "rules.silence" not in shown
    found = words(operator, "/settings?q=retention+days").partition("All as a file")[0]
    assert "server.retention_days 36500" in found
    assert "rules.cycle" not in found
    assert "No setting has these words." in words(operator, "/settings?q=nonsense")
    assert "very-secret" not in words(operator, "/settings?q=webhooks")
    assert "webhooks[1].actions" in words(operator, "/settings?q=webhooks")
    assert "webhooks[1].rate_per_minute" not in shown  # It was not set.


def test_every_setting_has_its_meaning_and_defaults_differ_in_nothing() -> None:
    """A row without words explains nothing."""
    rows = rows_of(default())

    assert not [row for row in rows if row.differs]
    assert [row.name for row in rows if not row.doc] == []
    assert len(rows) > 100
    ladder = next(row for row in rows if row.name == "rules.repeated_call.ladder")
    assert str(ladder.value).endswith("gate")
    assert all(isinstance(row.value, str) for row in rows)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"detection": lambda: False}, "Detection does not work: gates do not open."),
        ({"storing": lambda: 1 / 0}, "The store cannot be written: see whether the disk is full."),
        ({"log": lambda: False}, "Spans are refused: the log is full"),
        ({"writable": lambda: False}, "The store is read-only"),
    ],
)
def test_health_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], said: str
) -> None:
    """A name of a part helps nobody at night."""

    async def look() -> list[HealthLine]:
        service = Service(Options(tmp_path, default(), Access(), 0, None))
        try:
            service.detector.counts.late = service.detector.counts.failed = 2
            service.archiver.counts.failed = 1
            checks = {"detection": lambda: True, "storing": lambda: True} | change
            monkeypatch.setattr(service, "checks", lambda: checks)
            return lines_of(service)
        finally:
            await asyncio.to_thread(service.close)

    lines = asyncio.run(look())
    wrong = [line.text for line in lines if not line.holds]
    assert len(wrong) == 1
    assert wrong[0].startswith(said)
    told = " ".join(line.text for line in lines)
    assert "they failed on 2 requests, 2 turns came too late." in told
    assert "1 write failed; each is tried again." in told


def test_webhooks_show_what_was_sent_and_send_a_sample(operator: Browser) -> None:
    """A person who is not paged sees whether anything was sent, and tries it."""
    until(lambda: "gate opened" in words(operator, "/webhooks"))
    html = operator.get("/webhooks").text
    assert "very-secret" not in html
    assert "<b>pager" not in html
    assert "accepted" in words(operator, "/webhooks")
    action = re.findall(r'action="(/webhooks/[^"]+/test)"', html)[0]

    answer = operator.submit("/webhooks", action)

    assert answer.status_code == 200
    assert "Sample: accepted, with status 204." in re.sub(r"<[^>]+>", "", answer.text)
    sign = operator.sign("/webhooks")
    assert operator.send_form("/webhooks/none/test", sign=sign).status_code == 404
    assert operator.send_form(action, sign="0").status_code == 403


def test_an_event_is_sent_again_from_the_page(operator: Browser) -> None:
    """A message that somebody deleted, or all of a bad night, needs no terminal."""
    until(lambda: "accepted (204)" in words(operator, "/webhooks"))
    html = operator.get("/webhooks").text
    action = re.findall(r'action="(/webhooks/[^"]+/replay)"', html)[0]
    event = re.findall(r'name="event" value="([0-9a-f]+)"', html)[0]
    attempts = html.count('name="event"')

    sends = partial(operator.submit, "/webhooks", action)

    assert "1 to be sent again" in sends(event=event).text
    until(lambda: operator.get("/webhooks").text.count('name="event"') == attempts + 1)
    assert "0 to be sent again" in sends(event="0" * 16).text
    told = re.findall(r'name="event" value="([0-9a-f]+)"', operator.get("/webhooks").text)
    assert f"{len({*told})} to be sent again" in sends(hours="1").text
    assert sends(hours="2").status_code == 400
    enable = action.replace("/replay", "/enable")
    assert "Enabled" in operator.send_form(enable, sign=operator.sign("/webhooks")).text


def test_webhooks_say_why_a_gate_was_not_sent(hooked: Served, operator: Browser) -> None:
    """Most silenced gates are of agents that have ended, of which no list of silences tells."""
    assert "their agent had ended" not in words(operator, "/webhooks")
    given = {"rule": "", "tool": "pack", "hours": "8 hours", "why": "known", "who": "Bo"}
    operator.submit("/incidents", "/silences", **given)
    trace = Trace("over")
    for _ in range(3):
        failed = tool_call("pack", "{}", result="Error: no box", error="BoxError")
        trace.span("execute_tool", attributes=failed)
    assert hooked.send(trace.request()) == 200

    until(lambda: "Silenced 1" in words(operator, "/webhooks"))
    assert "Silenced gates were not sent: their agent had ended" in words(operator, "/webhooks")


def test_health_says_whether_each_part_works(operator: Browser) -> None:
    """It is what `/readyz` says, with the counts of `/metrics` in words."""
    # What other tests have sent is stored a moment later.
    stored = ("The last write was", "All are in the store")
    text = until(
        lambda: (
            (page := words(operator, "/health")) and all(part in page for part in stored) and page
        )
    )

    assert "All parts work" in text
    assert re.search(r"Detection works\. The rules have run on \d+ spans since the start\.", text)
    assert re.search(r"The store can be written\. The last write was .* ago\.", text)
    assert "Spans are accepted. All are in the store; the log is 0 % full." in text
    assert "Accepted spans." in text
    assert re.search(r"last write to the store; 0 before it\. 20\d\d-\d\d-\d\d \d\d:", text)
    assert "<code>other</code>" in operator.get("/health").text


def test_a_store_without_anything_has_pages(tmp_path: Path) -> None:
    """A new user sees what each page will show."""
    with served(tmp_path / "store") as empty, Browser(empty.address) as browser:
        until(lambda: browser.get("/readyz").status_code == OK)
        for path in ("/", "/tasks", "/overview"):
            text = words(browser, path)
            assert f"OTEL_EXPORTER_OTLP_ENDPOINT=http://{empty.address}" in text, path
            assert "emove a filter" not in text, path
        for path, says in (
            ("/", "No gate is open"),
            ("/tasks", "No task is here yet."),
            ("/tasks?q=shop", "No task matches. Remove a filter"),
            ("/overview", "No gate has opened."),
            ("/webhooks", "The settings have no webhook"),
            ("/health", "All parts work"),
        ):
            assert says in words(browser, path), path
        assert empty.send(looping("s1", 1).request()) == OK
        until(lambda: "1 task" in words(browser, "/tasks"))
        for path in ("/", "/tasks", "/overview"):
            assert "OTEL_EXPORTER" not in words(browser, path), path
        assert "Remove a filter" in words(browser, "/tasks?q=shop")


def test_a_store_that_is_gone_is_said(tmp_path: Path) -> None:
    """A page says that the store cannot be used, and where it lies is not the reader's business."""
    with served(tmp_path / "store") as server:
        (tmp_path / "store/looptrace-store.json").rename(tmp_path / "away")
        answer = httpx.get(f"http://{server.address}/", trust_env=False)
        assert answer.status_code == 503
        assert "The store cannot be used now" in answer.text
        assert str(tmp_path) not in answer.text
        (tmp_path / "away").rename(tmp_path / "store/looptrace-store.json")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_599, "59 min"), (3_900, "1 h 5 min"),
     (7_200, "2 h"), (86_400 * 2 + 3_600, "2 d 1 h"), (86_400 + 59, "1 d"), (-5, "0 s")],
)  # fmt: skip
def test_ages_are_in_two_units(seconds: int, text: str) -> None:
    """A person at night reads no digits that do not matter."""
    assert since(seconds * NS_PER_S, 0) == text


def test_long_texts_are_cut_and_controls_are_shown() -> None:
    """A result of megabytes does not stop a browser, and what acts on a screen is seen."""
    assert block("a\r\nb\tc") == "a\nb\tc"
    assert block("\x1b[31m\u202e") == "\ufffd[31m\ufffd"
    long = block("x" * 150_000)
    assert long.endswith("… 50,000 more characters")
    assert len(long) < 100_100


def test_spans_that_are_not_understood_are_said_on_the_pages(tmp_path: Path) -> None:
    """A server whose agents it does not understand must not look healthy."""
    trace = Trace(session_key=None)
    for number in range(6):
        trace.span("acme.tool", None, {"acme.tool": "dig", "acme.args": str(number)})
    with served(tmp_path / "store") as server, Browser(server.address) as browser:
        assert "Hardly watched" not in words(browser, "/overview")
        assert server.send(trace.request()) == OK
        until(lambda: server.number('looptrace_understood_spans{became="unread"}') == 6)
        for page in ("/overview", "/tasks", "/health"):
            assert "Hardly watched: 6 of 6 spans were not understood" in words(browser, page)
