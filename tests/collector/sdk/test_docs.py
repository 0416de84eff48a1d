"""The code on the page for agents' authors works as written."""

import re
import sys
from functools import partial

import pytest

from tests.commands import ended
from tests.paths import ROOT

PAGE = ROOT / "docs" / "agent.md"

BEFORE = """
from opentelemetry import trace
agent_steps = 0
class Agent:
    def __iter__(self):
        return iter([self.step] * 20)
    def step(self):
        with tracer.start_as_current_span("execute_tool run_tests", attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "run_tests",
            "gen_ai.tool.call.arguments": '{"path": "a.py"}',
            "gen_ai.tool.call.result": "1 failed",
            "looptrace.task.id": "ticket-42",
        }):
            global agent_steps
            agent_steps += 1
        processor.force_flush()
    def read(self, directive):
        print(directive)
agent = Agent()
"""
WAITING = """
import threading
gate = processor.gate("ticket-42")
def decide(state):
    if state.open:
        threading.Timer(0.1, gate.resolve, ("continue", "Use the other key.")).start()
processor.on_gate(decide)
"""
AFTER = {
    "stop": "tracer = provider.get_tracer('page')\n",
    "record": "trace.set_tracer_provider(provider)\n",
}


def blocks() -> list[str]:
    """Return the code of the page: to set up, to read log records, to stop, to wait, to record."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


run = partial(ended, sys.executable, "-c")


def test_the_agent_of_the_page_stops() -> None:
    """The third equal failure opens the gate, and the exception names what to do."""
    set_up, _, stop, _, _ = blocks()
    done = run(BEFORE + set_up + AFTER["stop"] + stop)

    assert (
        "GateOpenError: Work on task ticket-42 stops here: it has gone in a loop 3 times, calling "
        in (done.stderr)
    )


@pytest.mark.requirement("A18")
def test_the_agent_of_the_page_waits_for_a_person() -> None:
    """Each gate is followed by what the person decided, and the agent goes on to its end."""
    set_up, _, _, wait, _ = blocks()
    done = run(BEFORE + set_up + AFTER["stop"] + WAITING + wait + "print(agent_steps)")

    assert done.stdout.count("They say: Use the other key.") == 6
    assert done.stdout.endswith("\n20\n")
    assert done.stderr == ""


def test_the_recording_of_the_page_runs() -> None:
    """Every form of it is accepted."""
    set_up, _, _, _, record = blocks()
    counted = "processor.force_flush()\nprint(processor.counts.dropped, processor.counts.errors)\n"
    done = run("from opentelemetry import trace\n" + set_up + AFTER["record"] + record + counted)

    assert (done.stdout, done.stderr) == ("{} {}\n", "")
