"""Rows from trajectories in ATIF, the Agent Trajectory Interchange Format, `trajectory.json`.

Harbor and Terminal-Bench write it (docs/rfcs/0001-trajectory-format.md of laude-institute/harbor,
versions 1.0 to 1.7). An agent's step is a response with its calls and their results. A step
without a time stands where it stands in the file, STEP_NS from the one before.
"""

from collections.abc import Sequence
from typing import Any

from looptrace.analyzer.schema.spans import SpanRow
from looptrace.analyzer.text.digests import digest
from looptrace.analyzer.text.payloads import canonical
from looptrace.collector.coding_agents.session_spans import (
    Agent,
    Usage,
    Word,
    texts_of,
    times_in_order,
)
from looptrace.collector.coding_agents.session_thread import Thread
from looptrace.collector.otlp.span_rows import time_ns_of

STEP_NS = 1_000_000


def rows_of(record: dict[str, Any]) -> list[SpanRow]:
    """Return the rows of a trajectory and of those of its sub-agents."""
    rows = _rows(record, str(record.get("session_id") or ""))
    for sub_agent in record.get("subagent_trajectories") or ():
        session = record.get("session_id") or sub_agent.get("session_id") or ""
        rows += rows_of(sub_agent | {"session_id": session})
    return rows


def _rows(record: dict[str, Any], session: str) -> list[SpanRow]:
    name, steps = str(record["agent"]["name"]), record["steps"]
    # Without ids, its content distinguishes a trajectory from others.
    trace = str(record.get("trajectory_id") or ("" if session else digest(canonical(steps))))
    thread = Thread(Agent(name, session, name, trace))
    model = record["agent"].get("model_name")
    times = times_in_order([time_ns_of(step.get("timestamp")) for step in steps], STEP_NS)
    for step, at_ns in zip(steps, times, strict=True):
        if step.get("is_copied_context"):  # It is in another trajectory, too.
            continue
        if step["source"] == "user":
            thread.hears(str(step["step_id"]), at_ns, Word(text=texts_of(step.get("message"))))
        elif step["source"] == "agent":
            _read(thread, step, at_ns, step.get("model_name") or model)
    return thread.ended(is_whole=True)


def _read(thread: Thread, step: dict[str, Any], at_ns: int, model: str | None) -> None:
    key, calls = f"step-{step['step_id']}", step.get("tool_calls") or []
    text = texts_of(step.get("message"))
    if text or not calls:
        thread.says(key, at_ns, text, model)
    for call in calls:
        tool, call_id = str(call["function_name"]), str(call["tool_call_id"])
        thread.calls(key, at_ns, call_id, tool, call.get("arguments"), model)
    metrics = step.get("metrics") or {}
    given, said, cached = map(metrics.get, ("prompt_tokens", "completion_tokens", "cached_tokens"))
    thread.uses(key, Usage(given, said, cached_tokens=cached))
    results = (step.get("observation") or {}).get("results") or []
    for call_id, result in _answered([str(call["tool_call_id"]) for call in calls], results):
        thread.gets(call_id, at_ns, result, None, None)
    if not calls and results:
        thread.sees("\n".join(texts_of(result.get("content")) for result in results))


def _answered(
    call_ids: Sequence[str], results: Sequence[dict[str, Any]]
) -> list[tuple[str, str | None]]:
    """Return the calls of a step with their results; None for a call that has none of its own.

    A result that names no call is that of the call at its place, and the only one that of the last.
    """
    named = {str(each["source_call_id"]): each for each in results if each.get("source_call_id")}
    unnamed = [each for each in results if not each.get("source_call_id")]
    left = [call_id for call_id in call_ids if call_id not in named]
    named |= dict(zip(reversed(left), reversed(unnamed), strict=False))
    return [
        (call_id, texts_of(named[call_id].get("content")) if call_id in named else None)
        for call_id in call_ids
    ]
