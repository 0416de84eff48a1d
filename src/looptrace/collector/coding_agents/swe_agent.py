"""Rows from the trajectories of SWE-agent (`.traj`) and mini-swe-agent (`.traj.json`).

A step is a response with one command, and the output of the command. Trajectories have no times;
steps follow one another by the duration of their commands, or by STEP_NS.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.payloads import canonical
from looptrace.collector.coding_agents.session_spans import Agent
from looptrace.collector.coding_agents.session_thread import Thread
from looptrace.rules.vocabulary import NS_PER_S

PRODUCT, MINI = "swe-agent", "mini-swe-agent"
STEP_NS = 1_000_000
TOOL = "bash"

_COMMAND = re.compile(r"```(?:bash|sh|mswea_bash_command)?\s*\n(?P<command>.*?)\n?```", re.DOTALL)
_OUTPUT = re.compile(
    r"<returncode>(?P<code>-?\d+)</returncode>\s*(?:<output>\n?(?P<output>.*?)\n?</output>)?",
    re.DOTALL,
)


class TrajectoryStep(NamedTuple):
    """A response, the command that it asked for, and the result."""

    text: str
    command: str | None
    output: str = ""
    failed: bool | None = None
    seconds: float = 0.0


def rows_of(record: dict[str, Any]) -> list[SpanRow]:
    """Return the rows of a trajectory."""
    is_mini = "trajectory" not in record
    product = MINI if is_mini else PRODUCT
    # A trajectory has no id, and its content distinguishes it from others.
    trace = digest(canonical(record["messages" if is_mini else "trajectory"]))
    thread = Thread(Agent(product, "", product, trace))
    model = _model(record)
    at_ns, steps = STEP_NS, _mini_steps(record) if is_mini else _steps(record)
    for number, step in enumerate(steps):
        key = f"step-{number}"
        at_ns += STEP_NS
        if step.text:
            thread.says(key, at_ns, step.text, model)
        if step.command is None:
            continue
        thread.calls(key, at_ns, key, TOOL, {"command": step.command}, model)
        at_ns += max(STEP_NS, round(step.seconds * NS_PER_S))
        thread.gets(key, at_ns, step.output, step.failed, None)
    return thread.ended(is_whole=True)


def _model(record: dict[str, Any]) -> str | None:
    config = record["info"].get("config") or {}
    name = (config.get("model") or {}).get("model_name")
    return name if isinstance(name, str) else None


def _steps(record: dict[str, Any]) -> Iterator[TrajectoryStep]:
    for step in record["trajectory"]:
        yield TrajectoryStep(
            text=str(step.get("thought") or step.get("response") or ""),
            command=str(step["action"]).strip() if step.get("action") else None,
            output=str(step.get("observation") or ""),
            seconds=float(step.get("execution_time") or 0.0),
        )


def _mini_steps(record: dict[str, Any]) -> Iterator[TrajectoryStep]:
    messages = record["messages"]
    for index, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        text = str(message.get("content") or "")
        command = _command(message, text)
        answer = messages[index + 1] if index + 1 < len(messages) else {}
        output = str(answer.get("content") or "")
        printed = _OUTPUT.search(output)
        yield TrajectoryStep(
            text=text,
            command=command,
            output=(printed["output"] or "") if printed else output,
            failed=printed["code"] != "0" if printed else None,
        )


def _command(message: dict[str, Any], text: str) -> str | None:
    actions = (message.get("extra") or {}).get("actions")
    if actions:
        return "\n".join(str(action.get("command", action)) for action in actions)
    fenced = _COMMAND.search(text)
    return fenced["command"].strip() if fenced else None
