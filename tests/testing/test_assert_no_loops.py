"""`assert_no_loops`: what fails a test, what does not, and what says that nothing was checked."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from looptrace.analyzer.settings import of_profile
from looptrace.errors import InputError
from looptrace.testing import assert_no_loops
from tests.commands import run
from tests.otlp import tool_call
from tests.paths import TRACES

LOOPING = TRACES / "nightly_migration_loop.jsonl"
HEALTHY = TRACES / "bulk_rename_healthy.jsonl"


def spans_of(attempts: int) -> Sequence[ReadableSpan]:
    """Return the spans of an agent that makes one failing call this often."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("agent", attributes={"gen_ai.operation.name": "chat"}):
        for _ in range(attempts):
            with tracer.start_as_current_span("tool") as span:
                span.set_attributes(
                    tool_call(
                        "run_tests",
                        '{"path": "tests/test_cart.py"}',
                        result="total is 3, expected 4",
                    )
                )
    return exporter.get_finished_spans()


def test_spans_of_the_sdk_are_taken_as_they_are() -> None:
    """The message names task, call, turns, rule and cost, which is what a person needs first."""
    with pytest.raises(AssertionError) as failed:
        assert_no_loops(spans_of(5))
    message = str(failed.value)
    assert "1 loop in 1 of 1 task; 1 gate open." in message
    assert "run_tests(tests/test_cart.py) gave the same result 5 times, turns 1" in message
    assert "gate, found by repeated_call" in message
    assert_no_loops(spans_of(1))


def test_paths_are_read() -> None:
    """As a text or as a path."""
    for path in (LOOPING, str(LOOPING)):
        with pytest.raises(AssertionError, match="apply_migration"):
            assert_no_loops(path)
    assert_no_loops(HEALTHY)


def test_thresholds() -> None:
    """Of a profile, of a table as in looptrace.toml, by rule, and by what follows."""
    spans = spans_of(5)
    later = {"rules": {"repeated_call": {"attempts_min": 9}}}
    assert_no_loops(spans, select=["repeated_call"], settings=later)
    with pytest.raises(AssertionError):
        assert_no_loops(spans, select=["repeated_call"], settings=of_profile("conservative"))
    with pytest.raises(AssertionError):
        assert_no_loops(spans, ignore=["repeated_call"])
    assert_no_loops(spans_of(3), fail_on="gate", select=["repeated_call"])
    with pytest.raises(AssertionError):
        assert_no_loops(spans_of(3), select=["repeated_call"])


def test_the_file_of_the_current_directory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a test, a pipeline and a server judge alike."""
    (tmp_path / "looptrace.toml").write_text("enabled = false\n")
    monkeypatch.chdir(tmp_path)
    assert_no_loops(spans_of(5))
    with pytest.raises(AssertionError):
        assert_no_loops(spans_of(5), settings={})


def test_a_baseline_lets_known_loops_pass(tmp_path: Path) -> None:
    """And names in its message those that are new alone."""
    baseline = tmp_path / "known.json"
    write = ["analyze", str(LOOPING), "--format", "json", "--output", str(baseline)]
    assert run(*write).exit_code == 0
    assert_no_loops(LOOPING, baseline=baseline)
    with pytest.raises(AssertionError) as failed:
        assert_no_loops(TRACES, baseline=str(baseline))
    assert "are in the baseline" in str(failed.value)
    assert "apply_migration" not in str(failed.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"select": ["repeated_cal"]}, "Did you mean repeated_call?"),
        ({"select": "repeated_call"}, "['repeated_call']"),
        ({"fail_on": "loop"}, "finding, gate"),
        ({"settings": {"rules": {"repeated_call": {"attempts_min": 1}}}}, "attempts_min"),
        ({"settings": {"profile": object()}}, "settings cannot be"),
        ({"baseline": "nowhere.json"}, "nowhere.json cannot be read"),
    ],
)
def test_wrong_arguments_say_what_they_may_be(options: dict[str, object], words: str) -> None:
    """They are no failed assertion, which might be what a test expects."""
    with pytest.raises(InputError) as wrong:
        assert_no_loops(spans_of(1), **options)  # type: ignore[arg-type] # That is what is tested.
    assert words in str(wrong.value)


def test_nothing_checked_is_no_success(tmp_path: Path) -> None:
    """An agent that was not instrumented would be healthy for ever."""
    with pytest.raises(InputError, match="no span was read"):
        assert_no_loops([])
    broken = tmp_path / "broken.jsonl"
    broken.write_text(HEALTHY.read_text() + '{"resourceSpans": [')
    with pytest.raises(InputError, match="a loop may be missed"):
        assert_no_loops(broken)
