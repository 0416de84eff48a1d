"""Makes up turns whose texts differ in one part, in each of the parts that patterns look for.

Which of them are equal shows what is masked, in every kind of text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from looptrace.analyzer.fingerprint.signatures import add_fingerprints
from looptrace.analyzer.schema.turns import TURN_SCHEMA, numbered
from looptrace.rules.vocabulary import NS_PER_S
from tests.analyzer.fingerprint.test_single_turns import WORDS

ROUNDS = 4
CORES = ("the job of today ", "Error: no such job ", "4 failed, 2 passed\n", "", '{"state": "up"} ')


def turns_with_texts() -> pl.DataFrame:
    """Return turns (`TURN_SCHEMA`), a task for each part with a few rounds of all kinds of turn."""
    rows = [
        dict.fromkeys(TURN_SCHEMA)
        | {"task": f"{task}", "session": f"{task}", "trace_id": f"{task}", "agent": "a"}
        | {"span_id": f"{place:04}", "start_ns": place * NS_PER_S, "end_ns": (place + 1) * NS_PER_S}
        | turn
        for task, word in enumerate(WORDS)
        for place, turn in enumerate(_turns(word, random.Random(task)))
    ]
    return numbered(add_fingerprints(pl.DataFrame(rows, TURN_SCHEMA, orient="row")))


def _turns(word: str, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Yield rounds of turns with the same words but for the digits, and sometimes the ends."""
    core, end = chance.choice(CORES), chance.choice(WORDS)
    for _ in range(ROUNDS):
        other = re.sub("[0-9]", lambda _: chance.choice("123456789"), word)
        text = core + other + (end if chance.random() < 0.8 else f" {other}")
        yield {"kind": "tool", "name": "ls", "arguments": "{}", "result": text}
        yield {"kind": "tool", "name": "run", "arguments": text, "failed": True, "error": text}
        yield {"kind": "tool", "name": "run_tests", "arguments": '{"path":"a"}', "result": text}
        yield {"kind": "tool", "name": "send_message", "arguments": '{"to":"C1"}', "result": text}
        yield {"kind": "tool", "name": "get_status", "arguments": '{"id":"7"}', "result": text}
        yield {"kind": "model", "name": "m", "arguments": text, "text": text, "response": text}
        yield {"kind": "user", "text": text}
        yield {"kind": "attempt", "name": "blocked", "arguments": text, "result": text}
