"""Gates on the page: all that is needed to decide, and a decision that counts at once."""

import re
from datetime import UTC, datetime
from functools import partial

import pytest

from looptrace.analyzer.gates.decisions import (
    DECISION_TEXTS,
    DECISIONS,
    NOTE_CHARS_MAX,
    decision_text,
)
from tests.analyzer.report.contents import Page
from tests.collector.page.conftest import (
    NAMED,
    TOKEN,
    Browser,
    gate_ids,
    gate_of,
    send,
    signed_in,
    words,
)
from tests.reliability.serving import Served, looping, until


@pytest.mark.parametrize("where", ["/", "/gates/{gate}"])
def test_a_gate_shows_what_is_needed_to_decide(browser: Browser, where: str) -> None:
    """What repeats, the agent, the start, the cost, the failure, and the link to the trace."""
    gate = gate_ids(browser)[0]
    path = where.replace("{gate}", gate)
    until(lambda: 'class="strip"' in browser.get(path).text)
    text = words(browser, path)

    for part in (
        "the failure of run_tests(tests/test_cart.py) came 6 times in the task, turns 1–6",
        "Task s1",
        "Service unknown_service:agent",
        "Open for",
        "Gate by repeated_failure , at the 3rd time, turn 3",
        "Cost so far",
        "turn 3 run_tests(tests/test_cart.py) Error: 1 failed",
        "How should task s1 go on?",
        ", since 2026-03-02 09:00:",
        "tokens not reported",
        "3 calls were made after the gate opened: the agent had not asked for the gate yet",
    ):
        assert part in text, part
    page = Page(browser.get(path).text)
    assert [svg for svg in page.all("svg") if "turns of the task" in svg.get("aria-label", "")]
    (trace,) = [link["href"] for link in page.all("a") if "target" in link]
    assert trace.startswith("https://traces.example.com/trace/")
    assert "{" not in trace


def test_every_decision_of_the_api_is_offered(browser: Browser) -> None:
    """What can be decided over HTTP can be decided here, and nothing else."""
    values = [
        field["value"]
        for field in Page(browser.get(f"/gates/{gate_ids(browser)[0]}").text).all("input")
        if field["name"] == "decision"
    ]

    page = Page(browser.get(f"/gates/{gate_ids(browser)[0]}").text)
    assert not [field for field in page.all("input") if "checked" in field]  # Nobody decides so.
    assert tuple(values) == tuple(DECISION_TEXTS)
    assert sorted(values) == sorted(DECISIONS)


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_counts_at_once(browser: Browser, server: Served, decision: str) -> None:
    """The gate is resolved with the note, and the page shows both; a second decision is refused."""
    task = f"decided-{decision}"
    send(server, looping(task, 6).request())
    gate = gate_of(browser, task)
    path = f"/gates/{gate}"
    sign = browser.sign(path)
    note = f"Use <b>the other</b> key.\r\nNot {decision}."

    answer = browser.decide(gate, decision=decision, note=note)

    assert (answer.status_code, answer.headers["location"]) == (303, path)
    assert f"Resolved: {decision_text(decision)}." in words(browser, path)
    assert "Use &lt;b&gt;the other&lt;/b&gt; key.\nNot" in browser.get(path).text
    until(lambda: gate in gate_ids(browser, "resolved"))
    told = until(lambda: re.search("The words for the agent: (.*)", words(browser, path)))[1]
    assert told.startswith(("A person has", "It says"))
    assert f"They say: Use <b>the other</b> key. Not {decision}." in told
    late = {"decision": "continue", "note": "too late"}
    again = browser.send_form(f"{path}/resolve", sign=sign, **late)
    assert again.status_code == 303
    text = words(browser, again.headers["location"])
    assert "Your decision “Go on” was not carried out: Somebody who gave no name had" in text
    assert re.search(rf"decided “{decision_text(decision)}” at 20\d\d-\d\d-\d\d .* UTC\.", text)
    assert "Your note, which nobody has received too late" in text
    assert "was not carried out" not in words(browser, f"{path}?refused=another")
    assert browser.get(f"{path}/resolve").headers["location"] == path


@pytest.mark.parametrize(
    ("token", "asks", "typed", "shown"),
    [
        (TOKEN, True, "Grace\u202e H.", "By Grace"),
        (TOKEN, True, " ", "Resolved: Go on, the cause is gone."),
        (NAMED, False, "Grace H.", "By Ada Lovelace."),
    ],
)
def test_who_decided_is_the_name_of_the_token_or_of_the_form(
    server: Served, token: str, asks: bool, typed: str, shown: str
) -> None:
    """A team sees who decided; nobody decides under the name of another token."""
    task = f"who-{asks}-{len(typed)}"
    send(server, looping(task, 6).request())
    with signed_in(server.address, token) as browser:
        listed = f"/v1/gates?task={task}"
        headers = {"authorization": f"Bearer {token}"}
        ask = partial(browser.get, listed, headers=headers)
        (gate,) = until(lambda: ask().json()["gates"])
        path = f"/gates/{gate['id']}"
        assert ('name="who"' in browser.get(path).text) == asks
        browser.decide(gate["id"], decision="reviewed", who=typed)
        assert shown in words(browser, path)
        assert ("By " in words(browser, path)) == shown.startswith("By")
        (gate,) = until(lambda: [g for g in ask().json()["gates"] if g["status"] == "resolved"])
        kept, past = browser.get("/").text, browser.get("/?status=resolved").text
    by = {"By Grace": "Grace\ufffd H.", "By Ada Lovelace.": "Ada Lovelace"}.get(shown)
    assert gate["resolved_by"] == by
    assert ('value="Grace\ufffd H."' in kept) == (by == "Grace\ufffd H.")  # For the next gate.
    assert f"by </span>{by}</td>" in past or by is None


def test_what_cannot_be_decided_is_said_and_the_note_kept(browser: Browser) -> None:
    """A long note written at night must not be written again."""
    gate = gate_ids(browser)[0]
    for fields, why in (
        ({"decision": "banana", "note": "kept & safe"}, "there is no decision &#39;banana&#39;"),
        ({"note": "kept & safe"}, "there is no decision"),
        ({"decision": "continue", "note": "kept & safe" * NOTE_CHARS_MAX}, "more than 4000"),
        (
            {"decision": "continue", "note": " ", "who": "kept & safe"},
            "Nothing was decided: without",
        ),
    ):
        answer = browser.decide(gate, **fields)
        assert answer.status_code == 303
        shown = browser.get(answer.headers["location"]).text
        assert why in shown
        assert "kept &amp; safe" in shown
    assert gate in gate_ids(browser)


def test_a_gate_that_is_none_is_said(browser: Browser) -> None:
    """A link to a gate of another store leads to a sentence."""
    answer = browser.get("/gates/0123456789abcdef")

    assert answer.status_code == 404
    assert "There is no gate" in answer.text


def test_what_resolved_the_like_is_shown(browser: Browser, server: Served) -> None:
    """The next person with the same loop reads a note that worked."""
    send(server, looping("first-time", 6).request())
    first = gate_of(browser, "first-time")
    note = "The fixture is stale: run make fixtures."
    browser.decide(first, decision="continue", note=note)
    until(lambda: first in gate_ids(browser, "resolved"))

    assert note in words(browser, "/")
    text = words(browser, f"/gates/{gate_ids(browser)[0]}")
    assert "What resolved similar loops before" in text
    assert f"{note} Go on," in text


def test_what_came_after_a_decision_is_shown(browser: Browser, server: Served) -> None:
    """After a decision the page shows that the agent goes on, and that it stops again."""
    send(server, looping("goes-on", 4).request())
    gate = gate_of(browser, "goes-on")
    path = f"/gates/{gate}"
    browser.decide(gate, decision="continue", note="Once more.")
    until(lambda: "No turn has come since then." in words(browser, path))

    send(server, looping("goes-on", 4, name="later", at=datetime.now(UTC).isoformat()).request())
    until(
        lambda: re.search(r"then: ([34]) turns, \1 failed, the last .* ago", words(browser, path))
    )
    again = until(lambda: re.search(r"stopped again: gate (\w+)", words(browser, path)))[1]
    assert again in gate_ids(browser)
    text = words(browser, path)
    assert "The last turn: run_tests(tests/test_cart.py) ✗ failed: Error: 1 failed" in text
    assert f"{gate} stopped again" in text
    text = words(browser, f"/gates/{again}")
    assert re.search(f"stopped before. .* ago somebody decided “Go on” on gate {gate}", text)
    assert "stopped before." in words(browser, "/?sort=newest")  # It is beside the list.


def test_an_agent_goes_on_without_a_note_where_somebody_says_so(
    browser: Browser, server: Served
) -> None:
    """The box beside the note is enough; an empty note alone decides nothing."""
    send(server, looping("no-note", 4).request())
    gate = gate_of(browser, "no-note")
    path = f"/gates/{gate}"
    refused = browser.decide(gate, decision="continue")
    assert "?refused=" in refused.headers["location"]
    assert "Open for" in words(browser, path)

    browser.decide(gate, decision="continue", without_note="yes")
    until(lambda: gate in gate_ids(browser, "resolved"))
    assert "Use another approach than before." in words(browser, path)
