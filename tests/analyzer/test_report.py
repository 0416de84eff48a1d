from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from looptrace.analyzer.findings import (
    Analysis,
    Cost,
    Finding,
    LoopTurn,
    Summary,
    Unknown,
)
from looptrace.analyzer.report import (
    GROUPS_SHOWN_MAX,
    Group,
    cost_text,
    duration_text,
    grouped,
)
from looptrace.analyzer.report_html import html_report
from looptrace.analyzer.report_json import json_report
from looptrace.analyzer.report_terminal import print_report
from looptrace.analyzer.spans import Skipped
from looptrace.analyzer.turns import TURN_SCHEMA
from looptrace.rules.contract import ACTIONS, Action

DOCS = Path(__file__).parents[2] / "docs"
TRACE = "5f3c1a9e0b7d4c2e8a61f0d39b5c7e12"
REASON = "run_tests(tests/test_cart.py) failed the same way 5 times, turns 2\N{EN DASH}10"
ACTION_RED, ACTION_MAGENTA, ACTION_YELLOW = "\x1b[1;31m", "\x1b[1;35m", "\x1b[1;33m"

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% include 'x' %}",
    "[bold red]spam[/] [/nothing] [link=https://evil.example]x[/link]",
    "\x1b[31mred\x1b[0m\x1b]8;;https://evil.example\x07x",
    "line\r\nbreak\x00\x9b2J",
    "\u202egnp.exe\u2066 \u200b",
    "\ud800 lone",
    "\N{MATHEMATICAL FRAKTUR CAPITAL U}" * 1_000_000,
]


def finding(
    rule: str = "repeated_call",
    turns: tuple[int, ...] = (2, 4, 6, 8, 10),
    action: Action = "gate",
    *,
    task: str = "fix-cart",
    agent: str = "coder",
    period: int = 1,
    reason: str = REASON,
) -> Finding:
    """Make a finding: the first `period` turns are the first round, the others repeat it."""
    attempts = len(turns) // period
    loop_turns = tuple(
        LoopTurn(TRACE, f"{turn:016x}", turn, "first" if index < period else "repeat")
        for index, turn in enumerate(turns)
    )
    return Finding(
        id=f"{rule}-{turns[0]}",
        rule=rule,
        task=task,
        session="session-1",
        trace_id=TRACE,
        agent=agent,
        turn_first=turns[0],
        turn_last=turns[-1],
        attempts=attempts,
        loop_count=attempts - 1,
        period=period,
        signature="error:AssertionError-test_cart.py",
        reason=reason,
        action=action,
        turns=loop_turns,
        cost=Cost(46.2, 690, 100),
    )


def turn(number: int, kind: str, *, task: str = "fix-cart", **fields: Any) -> dict[str, Any]:
    """Make a row of the turn table; what is not given is unknown."""
    row = dict.fromkeys(TURN_SCHEMA) | {"task": task, "session": "session-1", "trace_id": TRACE}
    return row | {"turn": number, "kind": kind, "agent": "coder", "failed": False} | fields


def pytest_turns(count: int, *, task: str = "fix-cart") -> list[dict[str, Any]]:
    """Make a task in which a model asks for the tests at every odd turn and a tool runs them."""
    call = {"name": "run_tests", "arguments": '{"path":"tests/test_cart.py"}'}
    outcome = {"error": "AssertionError: 107 != 100", "failed": True}
    return [
        turn(number, "tool", task=task, **call, **outcome)
        if number % 2 == 0
        else turn(number, "model", task=task, name="gpt", text="Let me run the tests again.")
        for number in range(1, count + 1)
    ]


def analysis(
    *findings: Finding,
    rows: list[dict[str, Any]] | None = None,
    skipped: tuple[Skipped, ...] = (),
    summary: Summary | None = None,
) -> Analysis:
    """Make an analysis of twelve turns, unless others are given."""
    rows = pytest_turns(12) if rows is None else rows
    counts = summary or Summary(1, 3, len(rows), 38, 12_345, 2_100, Unknown(0, 0))
    return Analysis(counts, skipped, findings, (), pl.DataFrame(rows, schema=TURN_SCHEMA))


def printed(content: Analysis, *, width: int = 80, color: bool = False) -> str:
    """Print to a terminal of this width; without colour also without any escape."""
    file = StringIO()
    print_report(
        content,
        Console(
            file=file,
            width=width,
            force_terminal=color,
            color_system="standard" if color else None,
            _environ={},
        ),
    )
    return file.getvalue()


class Page(HTMLParser):
    """An HTML page as its elements, its text, and the elements left open."""

    VOID = ("meta", "path", "br", "img")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the element, and that it is open."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last; another one would be a broken page."""
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep what a reader sees."""
        if "style" not in self.open:
            self.text += f"{data} "

    def all(self, tag: str) -> list[dict[str, str]]:
        """Give the attributes of every element with this tag."""
        return [attributes for name, attributes in self.elements if name == tag]


def hostile_analysis(text: str) -> Analysis:
    """Put a text into every field that a trace or an input can fill.

    Columns hold no lone surrogates, but the name of a file that is not UTF-8 does.
    """
    where, text = text, text.replace("\ud800", "\ufffd")
    # An agent or a session that is named like its task would not be shown.
    base = finding(task=text, agent=f"{text} agent", reason=text)
    hostile = replace(base, id=text, session=f"{text} session", trace_id=text, signature=text)
    other = replace(hostile, rule="response_repeat", action="warn")
    words = {"agent": text, "name": text, "result": text, "text": text, "phase": text}
    rows = [
        turn(number, kind, task=text, arguments=text, **words)
        for number, kind in enumerate(("tool", "model", "handoff", "attempt", "user"), start=1)
    ]
    return analysis(hostile, other, rows=rows, skipped=(Skipped(where, where),))


# ---- Which findings are one loop


def test_rules_that_see_the_same_loop_are_one_block() -> None:
    """The model turns that ask and the tool turns that fail are one loop, though none is shared."""
    call = finding()
    signature = finding("signature_repeat", action="warn")
    response = finding("response_repeat", (1, 3, 5, 7, 9), "pivot")

    shown, left_over = grouped([signature, response, call])

    assert shown == [Group(call, (response, signature))]
    assert shown[0].also == "response_repeat, signature_repeat"
    assert left_over == 0


@pytest.mark.parametrize(
    ("turns", "count"), [((5, 6, 7, 8), 1), ((8, 9), 1), ((9, 10, 11, 12), 2), ((20, 21), 2)]
)
def test_half_of_the_smaller_stretch_makes_one_loop(turns: tuple[int, ...], count: int) -> None:
    """Two loops that follow one another may touch, and stay two."""
    lead = finding(turns=(1, 2, 3, 4, 5, 6, 7, 8, 9))
    if turns == (8, 9):
        lead = finding(turns=(1, 2, 3, 4, 5, 6, 7, 8))

    assert len(grouped([lead, finding("cycle", turns, "warn")])[0]) == count


def test_agents_side_by_side_are_two_loops() -> None:
    """Two sub-agents that loop at the same time need two people to look, or one to look twice."""
    other = finding(turns=(3, 5, 7, 9), agent="reviewer")

    assert len(grouped([finding(), other])[0]) == 2


def test_counters_of_the_whole_task_join_the_agent_that_shares_their_turns() -> None:
    """A rule whose lane is the task may name no agent, and still sees the same turns."""
    assert len(grouped([finding(), finding("signature_repeat", agent="")])[0]) == 1


def test_tasks_are_never_one_loop() -> None:
    """Turn numbers start again in every task."""
    assert len(grouped([finding(), finding(task="other")])[0]) == 2


def test_strongest_loop_comes_first() -> None:
    """Action counts before attempts, and attempts before the name of the rule."""
    warn = finding("a", (1, 2, 3, 4, 5, 6), "warn", task="a")
    gate = finding("c", (1, 2, 3), "gate", task="b")
    more = finding("d", (1, 2, 3, 4), "gate", task="c")
    named = finding("b", (1, 2, 3), "gate", task="d")

    shown, _ = grouped([warn, gate, more, named])

    assert [group.lead for group in shown] == [more, named, gate, warn]


def test_loops_beyond_the_bound_are_counted_and_told() -> None:
    """A page of ten thousand loops helps nobody, but a loop must not vanish in silence."""
    many = [finding(task=f"task-{number}") for number in range(GROUPS_SHOWN_MAX + 3)]

    shown, left_over = grouped(many)

    assert (len(shown), left_over) == (GROUPS_SHOWN_MAX, 3)
    assert "and 3 more findings: all are in --format json" in printed(analysis(*many))
    assert "and 3 more findings: all are in --format json" in html_report(analysis(*many))


# ---- The words


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "under 0.1 s"),
        (0.1, "0.1 s"),
        (9.94, "9.9 s"),
        (46.2, "46 s"),
        (59.7, "1 min 0 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations_read_well(seconds: float, expected: str) -> None:
    """A reader wants the size of the waste, not its microseconds."""
    assert duration_text(seconds) == expected


def test_tokens_that_nobody_recorded_are_not_called_none() -> None:
    """A trace without token counts did not run for free."""
    assert cost_text(Cost(46.2, 0, 0)) == "46 s"
    assert cost_text(Cost(46.2, 1_690, 0)) == "46 s, 1,690 input + 0 output tokens"


# ---- The terminal


def test_terminal_report_of_a_loop() -> None:
    """The whole of what a person sees, as it stands on the screen."""
    content = analysis(
        finding(),
        finding("signature_repeat", action="warn"),
        skipped=(Skipped("night.jsonl:3", "not JSON"),),
        summary=Summary(1, 3, 12, 38, 12_345, 2_100, Unknown(12, 1)),
    )

    assert printed(content) == (
        "1 session, 3 tasks, 12 turns, 38 spans, 12,345 input + 2,100 output tokens\n"
        "1 loop in 1 of 3 tasks.\n"
        "\n"
        "task fix-cart\n"
        "session session-1\n"
        "\n"
        f"  {REASON}\n"
        "  gate by repeated_call, agent coder\n"
        "  also: signature_repeat\n"
        "  in the loop: 46 s, 690 input + 100 output tokens\n"
        "\n"
        "12 tool turns carry no arguments: no rule could compare their calls.\n"
        "1 tool turn carries no results: no rule could compare their outcomes.\n"
        "\n"
        "1 part of the input skipped:\n"
        "night.jsonl:3: not JSON\n"
        "\n"
        "To look closer: looptrace explain PATH --task ID\n"
    )


def test_narrow_terminal_wraps_without_spaces_at_the_ends() -> None:
    """Spaces at the ends of lines show up wherever the report is pasted."""
    lines = printed(analysis(finding()), width=40).splitlines()

    assert "  run_tests(tests/test_cart.py) failed" in lines
    assert "  the same way 5 times, turns 2\N{EN DASH}10" in lines
    assert lines == [line.rstrip() for line in lines]


def test_names_that_repeat_the_task_are_left_out() -> None:
    """Without a session or agent of its own a task is named once, not three times."""
    alone = replace(finding(agent="fix-cart"), session="fix-cart")

    text = printed(analysis(alone))

    assert "session fix-cart" not in text
    assert "agent" not in text


@pytest.mark.parametrize(
    ("action", "escape"),
    [("gate", ACTION_RED), ("pivot", ACTION_MAGENTA), ("warn", ACTION_YELLOW)],
)
def test_action_has_its_colour(action: Action, escape: str) -> None:
    """What must stop is seen before it is read."""
    assert f"{escape}{action}" in printed(analysis(finding(action=action)), color=True)


def test_silence_is_said() -> None:
    """An empty report could be a broken one."""
    text = printed(analysis())

    assert "No loops found.\n" in text
    assert "carry" not in text


@pytest.mark.parametrize(
    ("spans", "why"),
    [
        (38, "38 spans, but none is a tool call or a model response in a dialect looptrace knows."),
        (0, "No spans were read."),
    ],
)
def test_input_without_turns_is_no_clean_bill(spans: int, why: str) -> None:
    """No loop in no turns says nothing about the agent, and the reader must know."""
    content = analysis(rows=[], summary=Summary(0, 0, 0, spans, 0, 0, Unknown(0, 0)))

    text = printed(content, width=120)

    assert "Nothing to judge." in text
    assert why in text
    assert "explain" not in text
    assert why in Page(html_report(content)).text


def test_skipped_parts_are_bounded() -> None:
    """A broken file of many lines must not push the findings off the screen."""
    skipped = tuple(Skipped(f"file:{number}", "not JSON") for number in range(25))

    text = printed(analysis(skipped=skipped))

    assert text.count("not JSON") == 20
    assert "25 parts of the input skipped:" in text
    assert "and 5 more: all are in --format json" in text


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_terminal_report_obeys_no_trace(hostile: str, width: int) -> None:
    """Text of a trace can carry markup and escapes, and must do nothing but be shown."""
    text = printed(hostile_analysis(hostile), width=width)

    lines = text.splitlines()
    assert all(line.isprintable() for line in lines)
    assert all(len(line) <= width for line in lines)
    assert len(text) < 10_000
    if hostile.startswith("[bold"):
        assert "[bold red]spam[/]" in text


# ---- HTML


def test_html_report_shows_the_loop() -> None:
    """The page answers what repeats, where, how often, and at what cost."""
    content = analysis(finding(), finding("response_repeat", (1, 3, 5, 7, 9), "pivot"))

    page = Page(html_report(content))

    assert page.open == []
    assert "1 loop in 1 of 3 tasks." in page.text
    assert page.text.count(REASON) == 3
    for shown in ("gate", "repeated_call, also response_repeat", "fix-cart", TRACE, "12,345"):
        assert shown in page.text
    assert page.text.count("run_tests(tests/test_cart.py)") == 6 + 3
    assert page.text.count("✗ AssertionError: 107 != 100") == 6
    roles = [row.get("class", "") for row in page.all("tr") if "is-" in row.get("class", "")]
    assert roles == ["is-first"] * 2 + ["is-repeat"] * 8


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
    assert "10 turns of the task" in page.text
    assert len([row for row in page.all("tr") if "is-" in row.get("class", "")]) == 5


def test_long_loop_shows_its_start_and_its_end() -> None:
    """A loop of a thousand turns is told by sixty, and the page says so."""
    content = analysis(finding(turns=tuple(range(100, 1100, 2))), rows=pytest_turns(1200))

    page = Page(html_report(content))

    assert "… 945 turns not shown" in page.text
    assert page.text.count("run_tests(tests/test_cart.py)") == 30 + 2
    assert "\n 97 \n" in page.text
    assert "\n 96 \n" not in page.text
    assert "\n 1101 \n" in page.text
    assert "\n 1102 \n" not in page.text


@pytest.mark.parametrize(("count", "cells"), [(12, 12), (400, 400), (401, 201), (4000, 400)])
def test_strip_draws_the_whole_task(count: int, cells: int) -> None:
    """Every turn has a cell, until there are too many to tell apart."""
    page = Page(html_report(analysis(finding(), rows=pytest_turns(count))))

    drawn = {path["class"]: path["d"].count("M") for path in page.all("path")}

    assert sum(drawn.values()) == cells
    assert drawn["first"] == 1
    assert f"{count:,} turns of the task" in page.text


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


# ---- JSON


def conflicts(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "$") -> list[str]:
    """Name what a value breaks of the part of JSON Schema that the documented schema uses."""
    schema = {**root["$defs"].get(schema.get("$ref", "").removeprefix("#/$defs/"), {}), **schema}
    found = [] if is_of_type(value, schema.get("type")) else [f"{at} is no {schema['type']}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at} is none of {schema['enum']}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{at} is not {schema['const']}")
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        found.append(f"{at} is below {schema['minimum']}")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        differing = value.keys() ^ properties.keys() | value.keys() ^ set(schema["required"])
        found += [f"{at}.{key} is missing or not described" for key in sorted(differing)]
        for key in value.keys() & properties.keys():
            found += conflicts(value[key], properties[key], root, f"{at}.{key}")
    if isinstance(value, list):
        for item in value:
            found += conflicts(item, schema["items"], root, f"{at}[]")
    return found


def is_of_type(value: Any, name: str | None) -> bool:
    """Tell whether a value has the type of this name; JSON has no numbers that are booleans."""
    types: dict[str, Any] = {"object": dict, "array": list, "string": str, "integer": int}
    types["number"] = (int, float)
    return name is None or (isinstance(value, types[name]) and not isinstance(value, bool))


def schema() -> dict[str, Any]:
    """Read the documented schema."""
    parsed: dict[str, Any] = json.loads((DOCS / "findings.schema.json").read_text("utf-8"))
    return parsed


def full_report() -> Any:
    """Write and read back a report in which no list is empty."""
    skipped = (Skipped("night.jsonl:3", "not JSON"),)
    return json.loads(json_report(analysis(finding(), skipped=skipped)))


def test_json_report_keeps_to_the_documented_schema() -> None:
    """Programs are written against the schema, so the output has its fields and no others."""
    assert conflicts(full_report(), schema(), schema()) == []


def test_schema_check_sees_each_kind_of_conflict() -> None:
    """A check that finds nothing must be one that can find something."""
    report = full_report()
    report["spans"] = "38"
    report["turns"] = -1
    report["schema"] = 2
    report["findings"][0]["action"] = "stop"
    report["findings"][0]["turns"][0]["extra"] = 1
    del report["skipped"][0]["why"]

    assert set(conflicts(report, schema(), schema())) == {
        "$.spans is no integer",
        "$.turns is below 0",
        "$.schema is not 1",
        f"$.findings[].action is none of {list(ACTIONS)}",
        "$.findings[].turns[].extra is missing or not described",
        "$.skipped[].why is missing or not described",
    }


def test_documented_example_keeps_to_the_schema() -> None:
    """People copy the example before they read the table."""
    text = (DOCS / "json-schema.md").read_text("utf-8")
    example = re.search(r"```json\n(.*?)```", text, re.DOTALL)

    assert example is not None
    assert conflicts(json.loads(example[1]), schema(), schema()) == []


def fields(described: dict[str, Any], prefix: str = "") -> list[str]:
    """List the fields of an object of the schema, as the table of the page names them."""
    names = []
    for name, field in described["properties"].items():
        names.append(f"{prefix}{name}")
        inner, suffix = (field["items"], "[].") if "items" in field else (field, ".")
        if "$ref" in inner:
            inner = schema()["$defs"][inner["$ref"].removeprefix("#/$defs/")]
        # A finding has a table of its own.
        if "properties" in inner and name != "findings":
            names += fields(inner, f"{prefix}{name}{suffix}")
    return names


def test_page_describes_every_field() -> None:
    """The page for people and the schema for machines name the same fields."""
    text = (DOCS / "json-schema.md").read_text("utf-8")

    described = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)

    assert described == fields(schema()) + fields(schema()["$defs"]["finding"])


def test_json_report_says_what_was_found() -> None:
    """Each value stands where the schema says, not only one of the right type."""
    report = full_report()

    assert [report[key] for key in ("sessions", "tasks", "turns", "spans")] == [1, 3, 12, 38]
    assert report["tokens"] == {"input": 12_345, "output": 2_100}
    assert report["unknown"] == {"arguments": 0, "results": 0}
    assert report["skipped"] == [{"where": "night.jsonl:3", "why": "not JSON"}]
    (found,) = report["findings"]
    assert found["reason"] == REASON
    assert found["cost"] == {"seconds": 46.2, "input_tokens": 690, "output_tokens": 100}
    assert [(turn["turn"], turn["role"]) for turn in found["turns"]][:2] == [
        (2, "first"),
        (4, "repeat"),
    ]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_json_report_is_utf8_and_loses_nothing(hostile: str) -> None:
    """JSON is read by programs and printed on terminals; only a lone surrogate cannot be kept."""
    text = json_report(hostile_analysis(hostile))

    report = json.loads(text.encode())
    kept = hostile.replace("\ud800", "\ufffd")
    assert report["skipped"] == [{"where": kept, "why": kept}]
    assert report["findings"][0]["task"] == kept
    assert all(line.isprintable() for line in text.splitlines())


def test_reports_are_the_same_every_time() -> None:
    """The same input gives the same bytes, so that reports can be compared."""
    content = analysis(finding(), finding("cycle", (1, 2, 3, 4), period=2), finding(task="b"))
    shuffled = replace(content, turns=content.turns.reverse())

    assert json_report(content) == json_report(shuffled)
    assert html_report(content) == html_report(shuffled)
