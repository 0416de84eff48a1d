"""What a decision on a gate adds to a budget of several tasks."""

from math import isfinite

from looptrace.analyzer.detect.budgets.rules import TOKENS
from looptrace.analyzer.gates.decisions import GateError
from looptrace.collector.store.gate_file.stored_gates import StoredGate

# No budget is larger.
AMOUNT_MAX = 1e15


def check_no_amount(gate: StoredGate, add: float | None) -> None:
    """Refuse an amount for a gate that no budget of several tasks has opened.

    Raises:
        GateError: if there is one.
    """
    if add is not None:
        raise GateError(
            f"gate {gate.id} is of {gate.rule}, to which nothing can be added; "
            "leave the amount out."
        )


def with_amount(note: str | None, gate: StoredGate, add: float | None) -> str:
    """Return a note with what may be spent now, for the agents of all tasks.

    Raises:
        GateError: if the amount is none.
    """
    if add is not None and not (isfinite(add) and 0 < add <= AMOUNT_MAX):
        raise GateError(f"the amount is {add:g}; it must be more than 0, and no more than 1e15.")
    if add is None:
        more = "as much as before"
    elif TOKENS in gate.rule:
        more = f"{add:,.0f} more"
    else:
        more = f"{add:,.2f} more"
    said = f"Of the {gate.signature} {more} may be spent by all tasks together."
    return f"{note} {said}" if note else said
