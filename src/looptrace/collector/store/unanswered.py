"""Sees to gates on which nobody decides: reminds, passes them on, and decides by default."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.waiting import Waiting, waiting_for
from looptrace.collector.store.gate_file.identities import DEFAULT
from looptrace.collector.store.gates import GateStore
from looptrace.rules.vocabulary import NS_PER_S

_NS_PER_MINUTE = 60 * NS_PER_S
_REMINDED, _PASSED_ON = 1, 2


def attend(gates: GateStore, every: Sequence[Waiting], now_ns: int) -> None:
    """Take the steps that are due for open gates; the wait of a new one begins now.

    A default is a decision like that of a person, and takes effect with the next detection.

    Raises:
        StoreError: if the file cannot be used.
    """
    waits = gates.waits()
    found = ((gate, waiting_for(opening, every)) for gate, opening in gates.openings())
    waiting = {gate: rule for gate, rule in found if rule}
    if new := waiting.keys() - waits.keys():
        gates.begin_waits(sorted(new), now_ns)
    for gate in waiting.keys() & waits.keys():
        (since_ns, steps), rule = waits[gate], waiting[gate]
        if _is_due(rule.decide_minutes, since_ns, now_ns):
            with suppress(GateError):  # Somebody has decided meanwhile.
                gates.resolve(gate, rule.default, None, now_ns, DEFAULT)
        elif steps < _PASSED_ON and _is_due(rule.escalate_minutes, since_ns, now_ns):
            gates.tell_unanswered(gate, _PASSED_ON, rule.escalate_to, now_ns)
        elif steps < _REMINDED and _is_due(rule.remind_minutes, since_ns, now_ns):
            gates.tell_unanswered(gate, _REMINDED, (), now_ns)


def _is_due(minutes: int, since_ns: int, now_ns: int) -> bool:
    return bool(minutes) and now_ns - since_ns >= minutes * _NS_PER_MINUTE
