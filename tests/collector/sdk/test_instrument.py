"""One call watches the agents of a process, as the environment says."""

import os
import sys

import pytest

from tests.collector.sdk.test_forward import Fake, fake
from tests.commands import ended

__all__ = ["fake"]  # a fixture

LOOPING = """
import looptrace
from looptrace.collector import agent, turn
processor = looptrace.instrument()
with agent("fixer", session="talk"):
    for _ in range(5):
        with turn("run_tests", {"path": "a.py"}) as call:
            call.result = "1 failed"
    processor.force_flush()
print(processor.gate("talk").check().open, processor.counts.dropped | processor.counts.errors)
"""
WRONG = """
import os, looptrace
protocol = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_PROTOCOL": "http2"}
for wrong in (protocol, {"LOOPTRACE_ENDPOINT": "host"}):
    os.environ.update(wrong)
    try:
        looptrace.instrument()
    except ValueError as error:
        print(error)
    for variable in wrong:
        del os.environ[variable]
"""


def run(script: str, **environment: str) -> str:
    """Run a script in a process of its own; returns what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = ended(sys.executable, "-c", script, env={**kept, **environment})
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_a_process_judges_itself() -> None:
    """Nothing is exported where no endpoint is set."""
    assert run(LOOPING) == "True {}"


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_ENDPOINT", "LOOPTRACE_ENDPOINT"])
def test_spans_go_where_the_environment_says(fake: Fake, variable: str) -> None:
    """To any OTLP endpoint beside judging here, or to a looptrace server that judges."""
    fake.events.put(None)
    judged_here = variable != "LOOPTRACE_ENDPOINT"

    assert run(LOOPING, **{variable: fake.url}) == f"{judged_here} {{}}"
    assert len(fake.spans) == 6


def test_spans_go_to_one_server_once(fake: Fake) -> None:
    """They go with what they inherit, although the exporter is pointed at the same server."""
    fake.events.put(None)
    assert run(
        LOOPING, OTEL_EXPORTER_OTLP_ENDPOINT=fake.url, LOOPTRACE_ENDPOINT=f"{fake.url}/"
    ) == ("False {}")
    assert len(fake.spans) == 6


def test_a_sdk_that_is_disabled_is_left_alone(fake: Fake) -> None:
    """The standard variable switches looptrace off as well."""
    assert run(LOOPING, OTEL_SDK_DISABLED="true", OTEL_EXPORTER_OTLP_ENDPOINT=fake.url) == (
        "False {}"
    )
    assert fake.spans == []


def test_a_wrong_variable_is_named() -> None:
    """The error comes at the start, in one line."""
    protocol, address = run(WRONG).splitlines()

    assert "'http2' is not a protocol" in protocol
    assert "'host' is not an address" in address
