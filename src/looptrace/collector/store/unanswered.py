"""Sees to gates on which nobody decides: reminds, passes them on, and decides by default."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import polars as pl

from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.waiting import Waiting, waiting_for
from looptrace.collector.store import reader
from looptrace.collector.store.gate_file.identities import DEFAULT
from looptrace.collector.store.gates import GateStore

_REMINDED, _PASSED_ON = 1, 2


def attend(gates: GateStore, every: Sequence[Waiting], now_ns: int) -> None:
    """Take the steps that are due for open gates; the wait of a new one begins now.

    A default is a decision like that of a person, and takes effect with the next detection.
    """
    waits = gates.waits()
    found = ((gate, waiting_for(opening, every)) for gate, opening in gates.openings())
    waiting = {gate: rule for gate, rule in found if rule}
    if new := waiting.keys() - waits.keys():
        gates.begin_waits(sorted(new), now_ns)
    for gate in waiting.keys() & waits.keys():
        (since_ns, steps), rule = waits[gate], waiting[gate]
        if rule.is_due(rule.decide_minutes, since_ns, now_ns):
            with suppress(GateError):  # Somebody has decided meanwhile.
                gates.resolve(gate, rule.default, None, now_ns, DEFAULT)
        elif steps < _PASSED_ON and rule.is_due(rule.escalate_minutes, since_ns, now_ns):
            gates.tell_unanswered(gate, _PASSED_ON, rule.escalate_to, now_ns)
        elif steps < _REMINDED and rule.is_due(rule.remind_minutes, since_ns, now_ns):
            gates.tell_unanswered(gate, _REMINDED, (), now_ns)


def attend_by_spans(store_dir: Path, every: Sequence[Waiting]) -> int:
    """Take the steps that were due by the newest turn; return how many gates ended by default.

    Minutes count from the opening of a gate, by the time of the spans. Each step has the time at
    which it was due.
    """
    ends_ns = reader.read_rows(store_dir, "turns", pl.lit(value=True), ["end_ns"])["end_ns"]
    newest_ns = cast("int | None", ends_ns.max()) or 0
    with reader.open_gates(store_dir) as gates:
        waits = ((*each, waiting_for(each[1], every)) for each in gates.openings())
        return sum(
            _attended_by_spans(gates, gate, opening.at_ns, rule, newest_ns)
            for gate, opening, rule in waits
            if rule
        )


def _attended_by_spans(
    gates: GateStore, gate: str, opened_ns: int, rule: Waiting, newest_ns: int
) -> bool:
    """Take the steps of one gate; return whether it ended by default."""
    gates.begin_waits([gate], opened_ns)
    since_ns, steps = gates.waits()[gate]
    remind, escalate = (_REMINDED, rule.remind_minutes), (_PASSED_ON, rule.escalate_minutes)
    for step, minutes in (remind, escalate):
        due_ns = rule.due_ns(minutes, since_ns)
        if due_ns is not None and steps < step and due_ns <= newest_ns:
            to = rule.escalate_to if step == _PASSED_ON else ()
            gates.tell_unanswered(gate, step, to, due_ns)
    due_ns = rule.due_ns(rule.decide_minutes, since_ns)
    if due_ns is None or due_ns > newest_ns:
        return False
    gates.resolve(gate, rule.default, None, due_ns, DEFAULT)
    return True
