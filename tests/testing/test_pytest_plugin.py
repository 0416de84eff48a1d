"""The plug-in as a project has it: pytest in a process of its own, on test files of an agent."""

import subprocess
import sys
from pathlib import Path

AGENT = """
from opentelemetry import trace

def agent(attempts):
    tracer = trace.get_tracer("agent")
    with tracer.start_as_current_span("agent"):
        for number in range(attempts):
            with tracer.start_as_current_span("tool") as span:
                span.set_attributes({
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "run_tests",
                    "gen_ai.tool.call.arguments": '{"path": "tests/test_cart.py"}',
                    "gen_ai.tool.call.result": "total is 3, expected 4",
                })
"""
PROVIDER = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
own = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(own))
trace.set_tracer_provider(provider)
"""


def pytest_on(folder: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a test file, with the agent above it, in an empty project."""
    (folder / "test_agent.py").write_text(f"import pytest\n{AGENT}\n{tests}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_marked_test_fails_where_its_agent_loops(tmp_path: Path) -> None:
    """In one message without a traceback; the healthy ones pass, whatever ran before them."""
    ran = pytest_on(
        tmp_path,
        """
@pytest.mark.looptrace
def test_loops():
    agent(5)

@pytest.mark.looptrace
def test_works():
    agent(1)

@pytest.mark.looptrace(settings={"rules": {"repeated_call": {"attempts_min": 9}}},
                       select=["repeated_call"])
def test_may_try_eight_times():
    agent(5)

def test_is_not_checked():
    agent(5)
""",
        "--strict-markers",
    )
    assert "1 failed, 3 passed" in ran.stdout
    assert "looptrace: 1 loop in 1 of 1 task; 1 gate open." in ran.stdout
    assert "run_tests(tests/test_cart.py) gave the same result 5 times, turns 1" in ran.stdout
    assert "FAILED test_agent.py::test_loops" in ran.stdout
    assert "Traceback" not in ran.stdout
    # Where CI is set, pytest writes the whole message into the line of its summary as well.
    report, _, _ = ran.stdout.partition("FAILED test_agent.py")
    assert report.count("gave the same result") == 1
    assert "assert_no_loops" not in ran.stdout


def test_a_provider_that_is_set_is_joined(tmp_path: Path) -> None:
    """Whoever set it still has every span, and each test its own alone."""
    ran = pytest_on(
        tmp_path,
        PROVIDER
        + """
from looptrace.testing import assert_no_loops

def test_spans(looptrace_spans):
    agent(1)
    assert [span.name for span in looptrace_spans.get_finished_spans()] == ["tool", "agent"]
    assert_no_loops(looptrace_spans.get_finished_spans())

def test_loops(looptrace_spans):
    agent(5)
    with pytest.raises(AssertionError, match="run_tests"):
        assert_no_loops(looptrace_spans.get_finished_spans())
    assert len(own.get_finished_spans()) == 2 + 6
    assert trace.get_tracer_provider() is provider
    assert len(provider._active_span_processor._span_processors) == 2
""",
    )
    assert "2 passed" in ran.stdout, ran.stdout


def test_spans_of_fixtures_classes_and_threads_count(tmp_path: Path) -> None:
    """An agent may be started by a fixture, and a class may be marked as a whole."""
    ran = pytest_on(
        tmp_path,
        """
import threading
import unittest

@pytest.fixture
def ran():
    thread = threading.Thread(target=agent, args=(5,))
    thread.start()
    thread.join()

@pytest.mark.looptrace
def test_fixture(ran):
    pass

@pytest.mark.looptrace
class TestAll:
    def test_method(self):
        agent(5)

@pytest.mark.looptrace
class TestOld(unittest.TestCase):
    def test_method(self):
        agent(5)
""",
    )
    assert "3 failed" in ran.stdout, ran.stdout


def test_what_else_goes_wrong_is_said(tmp_path: Path) -> None:
    """The test's own failure comes first; nothing to check and a wrong argument are failures."""
    ran = pytest_on(
        tmp_path,
        """
@pytest.mark.looptrace
def test_fails_itself():
    agent(5)
    assert "own" == "failure"

@pytest.mark.looptrace
def test_nothing():
    pass

@pytest.mark.looptrace(select=["repeated_cal"])
def test_wrong():
    agent(1)

@pytest.mark.looptrace
@pytest.mark.xfail(strict=True)
def test_is_known_to_loop():
    agent(5)
""",
    )
    assert "3 failed, 1 xfailed" in ran.stdout, ran.stdout
    assert "assert 'own' == 'failure'" in ran.stdout
    assert "1 loop in" not in ran.stdout
    assert "looptrace: Nothing was checked: no span was read" in ran.stdout
    assert "Did you mean repeated_call?" in ran.stdout


def test_it_is_not_felt_where_it_is_not_used(tmp_path: Path) -> None:
    """Each project with looptrace installed loads the plug-in: it may import nothing large."""
    ran = pytest_on(
        tmp_path,
        """
import sys

def test_modules():
    heavy = {"polars", "numpy", "duckdb", "msgspec", "opentelemetry.sdk", "jinja2", "click"}
    assert "looptrace.testing.pytest_plugin" in sys.modules
    assert heavy & sys.modules.keys() == set()
""",
    )
    assert "1 passed" in ran.stdout, ran.stdout
    assert "looptrace(fail_on=" in pytest_on(tmp_path, "", "--markers").stdout
