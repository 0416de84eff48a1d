"""The report as an HTML page."""

import json
import re
from dataclasses import replace

import pytest

from looptrace.analyzer.detect.findings import Cost
from looptrace.analyzer.detect.prices import Price, Prices
from looptrace.analyzer.engine.analysis import Analysis
from looptrace.analyzer.report.html import html_report
from looptrace.analyzer.report.json import json_report
from looptrace.analyzer.tuning.loop_money import loop_money
from tests.analyzer.report.contents import (
    HOSTILE,
    OPENED,
    REASON,
    RESET,
    RESOLVED,
    TRACE,
    WARNED,
    Page,
    analysis,
    event,
    finding,
    hostile_analysis,
    printed,
    pytest_turns,
    strip_paths,
    turn,
)


def test_html_report_shows_the_loop() -> None:
    """The page answers what repeats, where, how often, and at what cost."""
    content = analysis(finding(), finding("response_repeat", (1, 3, 5, 7, 9), "pivot"))

    page = Page(html_report(content))

    assert page.open == []
    assert "1 loop in 1 of 3 tasks." in page.text
    assert page.text.count(REASON) == 3
    for shown in (
        "gate",
        "repeated_call, also response_repeat",
        "fix-cart",
        TRACE,
        "12,345",
        "9,000 cached",
    ):
        assert shown in page.text
    assert page.text.count("run_tests(tests/test_cart.py)") == 6 + 3
    assert page.text.count("✗ AssertionError: 107 != 100") == 6
    roles = [row.get("class", "") for row in page.all("tr") if "is-" in row.get("class", "")]
    assert roles == ["is-first"] * 2 + ["is-repeat"] * 8


def test_html_report_marks_what_was_decided_on_the_timeline() -> None:
    """A reader sees at which turn the agent was warned, and where it had to stop."""
    rows = [*pytest_turns(12), turn(12, "user", text="Try the other file.")]
    events = (WARNED, OPENED, RESOLVED, RESET)
    page = Page(html_report(analysis(finding(), rows=rows, events=events)))

    drawn = {path["class"]: path["d"] for path in strip_paths(page)}
    columns = {
        kind: float(drawn[f"mark {kind}"][1:].split(" ")[0]) // 22
        for kind in ("warn", "gate", "person")
    }
    assert columns == {kind: at - 1 for kind, at in (("warn", 6), ("gate", 10), ("person", 12))}
    text = " ".join(page.text.split())
    assert "turn 10 gate by repeated_call, at the 5th time: the rule's limit is reached" in text
    assert "Try the other file. gate resolved by a person: continue counter reset" in text
    assert text.count("gate resolved") == 2


def test_decisions_of_a_task_are_listed_once() -> None:
    """Two loops of one task have one list; a loop of another task has none of it."""
    other = finding("cycle", (20, 21, 22, 23), "warn", agent="tester", period=2)
    page = Page(
        html_report(analysis(finding(), other, finding(task="b", action="warn"), events=(OPENED,)))
    )

    assert len([section for section in page.all("section") if "id" in section]) == 3
    assert page.text.count("What was decided") == 1
    assert page.text.count("The gate is open") == 1


def test_strongest_decision_marks_a_crowded_cell() -> None:
    """Of a warning and a gate in one cell the gate is what must be seen."""
    events = (event("gate_opened", 9), event("loop_detected", 10, action="warn"))
    page = Page(html_report(analysis(finding(), rows=pytest_turns(4000), events=events)))

    marks = {path["class"] for path in strip_paths(page) if path["class"].startswith("mark")}
    assert marks == {"mark gate"}


def test_turns_of_a_cycle_are_named_by_their_place() -> None:
    """In a round of two tools a reader must see which turn is which."""
    cycle = finding("cycle", (2, 3, 4, 5), period=2)

    text = " ".join(Page(html_report(analysis(cycle))).text.split())

    assert re.findall(r"[AB] (?:first|repeat)", text) == [
        "A first",
        "B first",
        "A repeat",
        "B repeat",
    ]


def test_strongest_finding_says_what_is_first() -> None:
    """A weaker finding that starts later sees a first turn where the loop is long under way."""
    late = finding("signature_repeat", (6, 8, 10), "warn")

    page = Page(html_report(analysis(finding(), late)))

    roles = [row["class"] for row in page.all("tr") if "is-" in row.get("class", "")]
    assert roles == ["is-first"] + ["is-repeat"] * 4


def test_unknown_outcome_is_not_shown_as_empty() -> None:
    """A reader must not take what was not recorded for what did not come."""
    rows = [turn(2, "tool", name="run"), turn(4, "tool", name="run", result="")]

    text = Page(html_report(analysis(finding(turns=(2, 4)), rows=rows))).text

    assert text.count("run(?)") == 2
    assert text.count("unknown") == 1


def test_message_of_a_person_is_shown_and_is_in_no_loop() -> None:
    """A message has the number of the turn before it, which must not make it a repeat."""
    rows = [*pytest_turns(10), turn(10, "user", text="Please stop.")]

    page = Page(html_report(analysis(finding(), rows=rows)))

    assert "Please stop." in page.text
    assert page.all("svg")[0]["aria-label"].startswith("10 turns of the task, 5 failed.")
    assert len([row for row in page.all("tr") if "is-" in row.get("class", "")]) == 5


def test_long_loop_shows_its_start_and_its_end() -> None:
    """A loop of a thousand turns is shown by sixty, and the page says so."""
    content = analysis(finding(turns=tuple(range(100, 1100, 2))), rows=pytest_turns(1200))

    page = Page(html_report(content))

    assert "… 945 turns not shown" in page.text
    assert page.text.count("run_tests(tests/test_cart.py)") == 30 + 2
    assert "\n 97 \n" in page.text
    assert "\n 96 \n" not in page.text
    assert "\n 1101 \n" in page.text
    assert "\n 1102 \n" not in page.text


def test_strip_is_at_the_top_of_a_finding() -> None:
    """A reader who scrolls sees the shape of a loop before its details."""
    text = html_report(analysis(finding(), rows=pytest_turns(12)))

    section = text.partition('id="loop-1"')[2]
    assert section.index('class="strip"') < section.index('class="facts"')
    classes = {path["class"] for path in strip_paths(Page(text))}
    assert {"arc", "axis", "cross", "bar tool", "bar tool aside", "bar model aside"} == classes


def priced(content: Analysis, prices: Prices) -> Analysis:
    """Return an analysis with the money of its loops."""
    return replace(content, money=loop_money(content.findings, content.turns, prices))


def test_costs_are_what_people_read() -> None:
    """The costs are shown as money, as time, and as a share of the task."""
    rows = pytest_turns(12)
    for row in rows:
        if row["kind"] == "model":
            row |= {"input_tokens": 400, "output_tokens": 20}
    content = analysis(finding(), finding("cycle", (2, 3, 4, 5), period=2), rows=rows)
    prices = Prices("EUR", (Price("g*", 1_000, 5_000),))

    page = Page(html_report(priced(content, prices))).text
    # Of six responses four are within turns 2 to 10, and 790 of 2,520 tokens are the loop's.
    assert "790 tokens, EUR 2.00, 46 s in the loop, 31 % of the task" in page
    assert "EUR" not in Page(html_report(content)).text
    unpriced = Page(html_report(priced(content, Prices("EUR", ())))).text
    assert "models without a price" in unpriced
    assert "in the loop: 46 s, 690 input + 100 output tokens, EUR 2.00\n" in printed(
        priced(content, prices)
    )
    report = json.loads(json_report(priced(content, prices)))
    assert (report["currency"], report["findings"][0]["cost"]["money"]) == ("EUR", 2.0)
    report = json.loads(json_report(content))
    assert (report["currency"], report["findings"][0]["cost"]["money"]) == (None, None)
    assert "Loops by rule and agent" in page


def test_a_share_without_tokens_is_one_of_time() -> None:
    """Logs of sessions without tokens still say how much of the task a loop was."""
    free = replace(finding(), cost=Cost(6.0, 0, 0))
    rows = [row | {"start_ns": 0, "end_ns": row["turn"] * 10**9} for row in pytest_turns(12)]

    page = Page(html_report(analysis(free, rows=rows))).text
    assert "6.0 s in the loop, 50 % of the task" in page


def test_finding_without_its_turns_is_still_shown() -> None:
    """A report over stored findings may have lost the turns, and not the findings."""
    page = Page(html_report(analysis(finding(), rows=[])))

    assert REASON in page.text
    assert page.all("svg") == []


@pytest.mark.parametrize("hostile", HOSTILE)
def test_html_report_is_inert(hostile: str) -> None:
    """Whatever a trace says, the page runs nothing, loads nothing, and links only to itself."""
    html = html_report(hostile_analysis(hostile))

    page = Page(html)
    tags = {tag for tag, _ in page.elements}
    assert page.open == []
    assert tags.isdisjoint({"script", "img", "iframe", "object", "embed", "link", "base", "form"})
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert attributes.get("href", "#").startswith("#")
        assert not {"src", "srcset", "action", "data", "xlink:href"} & attributes.keys()
    assert "url(" not in html
    assert "@import" not in html
    assert len(html) < 60_000
    html.encode()
    assert not set(html) & set("\x00\x1b\x9b\u202e\u2066\u200b")


def test_html_report_forbids_what_it_does_not_use() -> None:
    """The policy holds even where an escape should ever be forgotten."""
    policies = [
        meta["content"]
        for meta in Page(html_report(analysis())).all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]

    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_links_of_the_table_lead_to_the_loops() -> None:
    """A link that leads nowhere is worse than none."""
    page = Page(html_report(analysis(finding(), finding(task="other"))))

    targets = [link["href"].removeprefix("#") for link in page.all("a")]

    assert targets == [section["id"] for section in page.all("section") if "id" in section]
    assert len(targets) == 2
