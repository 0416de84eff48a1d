"""A task as one line: what each layer of detection says of it, short enough to be kept.

The columns of a layer are digests of three signs each, in the order of the file's first line; `...`
is a column that nothing is known of. The texts of hashes and codes are no part of it: of these a
recording has which turns are equal. Findings and events are there in words.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from looptrace.analyzer.detect.columns import columns
from looptrace.analyzer.detect.counters import add_counters
from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.ruleset import DEFAULT
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.schema.columns import CODED, COUNTED
from looptrace.analyzer.schema.turns import TURN_SCHEMA
from looptrace.rules.turns import Turns

# What texts say, which sameness fills in.
FILLED_IN = (
    *("failed", "error_type", "error", "error_kind", "location"),
    *("tests_failed", "tests_total", "coverage", "signature"),
)
HASHES = ("call", "outcome", "signature", "response", "talks_on", "trace_hash")
READ = tuple(name for name in TURN_SCHEMA if name not in {"task", *FILLED_IN, *HASHES})
CODES = {c.name.removesuffix("_code") for c in (*CODED, *COUNTED) if c.unit == "code"}
_ELSEWHERE = {"task", "texts", "meanings", "timed", "kind", "end_ns", *FILLED_IN} - {"signature"}
COUNTS = tuple(field.name for field in fields(Turns) if field.name not in _ELSEWHERE)
LAYERS = {"turns": READ, "sameness": FILLED_IN, "equalities": HASHES, "counts": COUNTS}
TOLD = ("findings", "events")
# A column whose values are compared with those of another.
_SHARED = {"talks_on": "response", "compacted": "response", "phase_before": "phase"}

SIGNS = 3  # a column
UNTOLD = "." * SIGNS
SHOWN_CHARS = 400  # of what is said now
_ID_CHARS = 6

Values: TypeAlias = Sequence[Any]
Line: TypeAlias = dict[str, Any]  # of one task, as it is kept
Columns: TypeAlias = Mapping[str, Sequence[str]]  # by layer


def tasks_of(turns: pl.DataFrame) -> dict[str, dict[str, dict[str, Values]]]:
    """Return the values of each task's turns (`TURN_SCHEMA`, numbered), by layer and column."""
    rows = add_counters(turns, DEFAULT.counting)
    counted = columns(rows)
    counts = {name: getattr(counted, name) for name in COUNTS}
    tasks: dict[str, dict[str, dict[str, Values]]] = {}
    ends = np.cumsum(rows["task"].rle().struct["len"].to_numpy())
    for begin, end in zip([0, *ends], ends, strict=False):
        part = rows[int(begin) : int(end)]
        known = part.select(*READ, *FILLED_IN, *HASHES[:2], *HASHES[3:]).to_dict(as_series=False)
        own = {name: values[begin:end].tolist() for name, values in counts.items()}
        tasks[part["task"][0]] = {
            "turns": {name: known[name] for name in READ},
            "sameness": {name: known[name] for name in FILLED_IN}
            | {"signature": [text and text.partition("#")[0] for text in known["signature"]]},
            "equalities": _classes({name: known[name] for name in HASHES}),
            "counts": {name: own[name] for name in COUNTS if name not in CODES}
            | _classes({name: own[name] for name in COUNTS if name in CODES}),
        }
    return tasks


def _classes(codes: Mapping[str, Values]) -> dict[str, Values]:
    """Return codes as 1, 2, 3, ... in the order in which they come; 0 is unknown."""
    known: dict[str, dict[Any, int]] = {}
    return {
        name: [
            numbers.setdefault(value, len(numbers) + 1) if value else 0
            for numbers in [known.setdefault(_SHARED.get(name, name), {})]
            for value in values
        ]
        for name, values in codes.items()
    }


def digest_of(values: Values) -> str:
    """Return three signs of a column."""
    if all(value is None for value in values):
        return UNTOLD
    text = json.dumps(values, ensure_ascii=False, default=str)
    hashed = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=3).digest()
    return base64.urlsafe_b64encode(hashed).decode()[:SIGNS]


def finding_text(finding: Finding) -> str:
    """Write a finding in one line."""
    cost = finding.cost
    parts = [
        finding.rule,
        f"@{finding.agent}" if finding.agent else "",
        f"{finding.turn_first}-{finding.turn_last}",
        f"of {','.join(str(t.turn) + '*' * (t.role == 'first') for t in finding.turns)}"
        if len(finding.turns) != finding.turn_last - finding.turn_first + 1
        else "",
        f"x{finding.attempts}" + (f"/{finding.period}" if finding.period > 1 else ""),
        finding.action,
        f"{cost.seconds:g}s {cost.input_tokens}+{cost.output_tokens}",
        finding.id[:_ID_CHARS],
    ]
    return f"{' '.join(filter(None, parts))}: {finding.reason}"


def event_text(event: GateEvent) -> str:
    """Write an event in one line."""
    counts = (event.attempts, event.loop_count, event.entropy_count, event.pivots)
    parts = (
        *(event.type, event.rule, f"{event.turn}", event.action, event.why),
        f"{event.status_before}>{event.status}" if event.status_before != event.status else "",
        ",".join(map(str, counts)),
        event.id[:_ID_CHARS],
    )
    return " ".join(filter(None, parts))


def told(findings: Iterable[Finding], events: Iterable[GateEvent]) -> dict[str, Line]:
    """Return findings and events in words, by task and layer."""
    by_task: dict[str, Line] = {}
    for finding in findings:
        by_task.setdefault(finding.task, {}).setdefault("findings", []).append(
            finding_text(finding)
        )
    for event in events:
        by_task.setdefault(event.task, {}).setdefault("events", []).append(event_text(event))
    return by_task


def told_by_batch(turns: pl.DataFrame) -> dict[str, Line]:
    """Return what batch tells of turns (`TURN_SCHEMA`, numbered), by task and layer."""
    found = detect(turns)
    return told(found.findings, found.events)


def lines_of(turns: pl.DataFrame) -> dict[str, Line]:
    """Return the line of each task of turns (`TURN_SCHEMA`, numbered), as batch understands it."""
    said = told_by_batch(turns)
    return {
        task: {
            layer: "".join(digest_of(values[name]) for name in LAYERS[layer])
            for layer, values in layers.items()
        }
        | said.get(task, {})
        for task, layers in tasks_of(turns).items()
    }


def difference(
    recorded: Line, said: Line, values: Mapping[str, Mapping[str, Values]], columns: Columns
) -> str:
    """Return the first layer and field in which a task differs, with its values now; "" if none.

    `columns` are those of the recorded line; one that is only there or only now is not compared.
    """
    for layer, names in columns.items():
        for place, name in enumerate(names):
            at = slice(place * SIGNS, (place + 1) * SIGNS)
            now = values[layer].get(name)
            if now is not None and recorded[layer][at] != digest_of(now):
                return f"{layer}: `{name}` is not as recorded; it is {now!s:.{SHOWN_CHARS}}"
    return told_difference(recorded, said)


def told_difference(recorded: Line, said: Line) -> str:
    """Return the first finding or event that differs; "" if none."""
    for layer in TOLD:
        before, now = (each.get(layer, []) for each in (recorded, said))
        if before != now:
            gone = [text for text in before if text not in now]
            new = [text for text in now if text not in before]
            return f"{layer}: gone {gone[:1]}, new {new[:1]}" if gone or new else f"{layer}: order"
    return ""
