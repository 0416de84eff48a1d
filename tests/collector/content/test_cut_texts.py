"""P17: rules find in cut texts what they find in whole ones."""

import json
from collections.abc import Sequence
from random import Random

import polars as pl
import pytest

from looptrace._core import chant_of, failed_tests, figures
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.collector.content.cut_texts import cut_texts
from looptrace.collector.content.policy import TEXT_BYTES_MAX, with_content
from tests.otlp import Trace, spans_in, tool_call
from tests.seeds import seeds

MARK = "[cut hash:"
KEY = b"k" * 32

PARAGRAPH = "".join(f"The part {chr(97 + i // 26)}{chr(97 + i % 26)} is done. " for i in range(20))
PROSE = "".join(
    f"Sentence {'abcdefghij'[n % 10] * (n % 17 + 1)} of {n * 7919}. " for n in range(200)
)
LOG = "".join(f"2026-11-26 10:{n // 60:02}:{n % 60:02} request served\n" for n in range(120))
COMPILED = "".join(f"compiling part {n * 7919} of the tree\n" for n in range(100))


def pytest_run(*failing: int, seconds: float = 1.2, rest: int = 60) -> str:
    """Return what pytest prints when these tests fail, with the lines of a log before it."""
    lines = "".join(
        f"FAILED tests/test_cart.py::test_number_{n} - assert 1 == 2\n" for n in failing
    )
    return f"{COMPILED}{lines}{len(failing)} failed, {rest} passed in {seconds}s"


def cargo(failed: int, passed: int) -> str:
    """Return what cargo prints about one of several crates."""
    state = "FAILED" if failed else "ok"
    return (
        f"{COMPILED}test result: {state}. {passed} passed; {failed} failed; 0 ignored;\n{COMPILED}"
    )


def failure(line: int, attempt: int = 1) -> str:
    """Return a long error with a place that edits move and a number of tries."""
    places = "".join(f"src/part{n}.ts({line + n},3): error TS2304: no name\n" for n in range(80))
    return f"Error: it does not compile (attempt {attempt})\n{places}"


TEXTS = {
    "a paragraph again and again": PARAGRAPH * 12,
    "a paragraph and its half": PARAGRAPH * 11 + PARAGRAPH[: len(PARAGRAPH) // 2],
    "a sentence again and again": "I will look once more. " * 400,
    "letters of two bytes": "Ich prüfe die Größe noch einmal. " * 200,
    "prose": PROSE,
    "a log, whose lines differ in their times": LOG,
    "prose after a chant": "I will look once more. " * 400 + PROSE,
    "a chant after prose": PROSE + "I will look once more. " * 100,
    "one long line": "x1 y2 " * 1_000 + "end",
    "a failed run": pytest_run(1, 2),
    "a failed run with many names": pytest_run(*range(60)),
    "a run that passed": f"{COMPILED}12 passed in 0.52s",
    "several crates": cargo(1, 9) + cargo(2, 4) + cargo(0, 7),
    "a run, then a log": f"{pytest_run(1)}\n{COMPILED}",
    "coverage before a log": f"{PROSE}\nTOTAL    120    30    75%\n{COMPILED}",
    "places of a failure": failure(10),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_cut_text_shows_the_same(text: str) -> None:
    """What is measured in a text is measured before it is cut."""
    cut = cut_texts([text], KEY)[text]

    assert MARK in cut
    assert len(cut.encode()) <= TEXT_BYTES_MAX
    assert chant_of(cut) == chant_of(text)
    assert figures(cut) == figures(text)
    named, named_when_cut = (failed_tests(each)[1] is None for each in (text, cut))
    assert named_when_cut is named


def calls(*results: str, name: str = "run", failed: bool = False) -> Sequence[tuple[str, str, str]]:
    """Return calls with these results."""
    return [("failed" if failed else "call", name, result) for result in results]


def responses(*texts: str) -> Sequence[tuple[str, str, str]]:
    """Return responses with these texts."""
    return [("say", "", text) for text in texts]


def news(*texts: str) -> Sequence[tuple[str, str, str]]:
    """Return responses to these messages of a wrapper, which counts its rounds."""
    return [("asked", "", text) for text in texts]


TURNS = {
    "a response that chants": responses(PARAGRAPH * 12),
    "a response in times": responses(LOG),
    "the same failure at other lines": calls(*map(failure, range(8, 14)), failed=True),
    "the same failure with other attempts": calls(
        *(failure(8, n) for n in range(8, 14)), failed=True
    ),
    "other failures between the same places": calls(
        *(f"{failure(8)}\nword{n}\n{failure(8)}" for n in range(6)), failed=True
    ),
    "fewer failed tests each time": calls(*(pytest_run(*range(n)) for n in range(40, 30, -1))),
    "other failed tests each time": calls(
        *(pytest_run(n, *range(20, 50)) for n in range(8)), name="run_tests"
    ),
    "the same failed tests after other seconds": calls(
        *(pytest_run(*range(30), seconds=9.5 + n / 3) for n in range(6)), name="run_tests"
    ),
    "the same answer at other times": calls(*(f"{LOG}at 10:2{n}:00" for n in range(6))),
    "answers that differ in the middle": calls(*(f"{LOG}word{n}\n{LOG}" for n in range(6))),
    "the same message with another number": news(
        *(f"{PROSE}Round {n} of many.\n{PROSE}" for n in range(8, 14))
    ),
    "a build that goes on": calls(
        *(f"{COMPILED}{n}\n{COMPILED}still running after {n} seconds" for n in range(8))
    ),
}


def spans_of(turns: Sequence[tuple[str, str, str]]) -> pl.DataFrame:
    """Return the spans of turns."""
    trace = Trace()
    for form, name, text in turns:
        if form in ("say", "asked"):
            given = text if form == "asked" else "Go on."
            said = "I will." if form == "asked" else text
            trace.span(
                "chat",
                attributes={
                    "gen_ai.operation.name": "chat",
                    "gen_ai.input.messages": _message("user", given),
                    "gen_ai.output.messages": _message("assistant", said),
                },
            )
        else:
            result = {"gen_ai.tool.call.result": text} if form == "call" else {}
            trace.span(
                name,
                status="ok" if result else "error",
                message="" if result else text,
                attributes=tool_call(name, '{"a": 1}') | result,
            )
    return spans_in(trace.request())


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


@pytest.mark.parametrize("turns", TURNS.values(), ids=TURNS)
def test_rules_find_the_same(turns: Sequence[tuple[str, str, str]]) -> None:
    """What is kept of long texts is enough for every verdict."""
    spans = spans_of(turns)

    def found(spans: pl.DataFrame) -> list[tuple[str, int, int, int]]:
        detection = detect(turns_of(spans)[0])
        return [(f.rule, f.turn_first, f.turn_last, f.attempts) for f in detection.findings]

    cut = with_content(spans, "redacted", KEY)

    assert MARK in cut.write_json()
    assert found(cut) == found(spans)


LINES = (
    *("compiling part {n} of the tree", "2026-11-26 10:{n:02}:00 request served in {n}.5 ms"),
    *(
        "src/part.ts({n},3): error TS2304: no name",
        "attempt {n} of 20",
        "the file /var/folders/run{n}/out is gone",
    ),
    *("id 0{n:02}e4567-e89b-12d3-a456-426614174000", "done"),
    *("", "    return total + {n}"),
)


@pytest.mark.parametrize("seed", seeds(40))
def test_long_results_and_errors_compare_as_they_did(seed: int) -> None:
    """P17: two long texts are equal when cut where they are equal as a whole, in each form."""
    random = Random(seed)
    form = [random.choice(LINES) for _ in range(random.randint(150, 300))]
    texts = []
    for change in (0, 1, 9, 90):
        lines = [line.format(n=n % 50 + 5) for n, line in enumerate(form)]
        for at in random.sample(range(len(lines)), 5):
            lines[at] = form[at].format(n=at % 50 + 5 + change)
        texts.append("\\n".join(lines))

    def same(spans: pl.DataFrame) -> list[bool]:
        outcomes = turns_of(spans)[0]["outcome"].to_list()
        return [one == other for one in outcomes for other in outcomes]

    for spans in (spans_of(calls(*texts)), spans_of(calls(*texts, failed=True))):
        assert same(with_content(spans, "redacted", KEY)) == same(spans)
