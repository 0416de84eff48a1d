"""Refused decisions: the reason and the sent form, kept until they are shown."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from looptrace.analyzer.gates.decisions import NOTED, GateError, decision_text
from looptrace.analyzer.text.times import utc_s
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.store.gate_file.stored_gates import StoredGate

# The most forms kept for their pages; older ones have no reader any more.
_KEPT_MAX = 200
_KEY_BYTES = 12
_NEEDS_NOTE = (
    "Nothing was decided: without a note the agent is likely to fail in the same way again. "
    "Write what it should do otherwise, or tick “Go on without a note”."
)


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """The form with a decision on a gate."""

    decision: str = ""
    note: str = ""
    who: str = ""
    without_note: bool = False
    add: str = ""  # to a budget, as typed

    @classmethod
    def of(cls, form: Mapping[str, str]) -> DecisionForm:
        """Return the fields of a form, with the lines of a note as typed."""
        return cls(
            form.get("decision", ""),
            form.get("note", "").replace("\r\n", "\n"),
            form.get("who", "").strip(),
            bool(form.get("without_note")),
            form.get("add", "").strip(),
        )

    def check(self) -> None:
        """Check that a decision for another approach has a note that names it.

        Raises:
            GateError: if the note is missing and was not left out on purpose.
        """
        says_more = self.note.strip() or self.add or self.without_note
        if self.decision in NOTED and not says_more:
            raise GateError(_NEEDS_NOTE)

    @property
    def amount(self) -> float | None:
        """What the decision adds to a budget; None where nothing was typed.

        Raises:
            GateError: if it is no number.
        """
        try:
            return float(self.add.replace(",", "")) if self.add else None
        except ValueError as error:
            raise GateError(f"Nothing was decided: {self.add[:40]!r} is not an amount.") from error


@dataclass(frozen=True, slots=True)
class RefusedDecision:
    """The reason why a decision was refused, and its form."""

    why: str = ""
    form: DecisionForm = field(default_factory=DecisionForm)


NOT_REFUSED = RefusedDecision()


@dataclass(frozen=True, slots=True)
class Refusals:
    """The last refusals, each under a key that only the sending browser gets."""

    _kept: BoundedDict[tuple[str, str], RefusedDecision] = field(
        default_factory=lambda: BoundedDict(_KEPT_MAX)
    )

    def keep(self, gate_id: str, refusal: RefusedDecision) -> str:
        """Keep a refusal for the page of its gate; return its key."""
        key = secrets.token_urlsafe(_KEY_BYTES)
        self._kept[gate_id, key] = refusal
        return key

    def of(self, gate_id: str, key: str) -> RefusedDecision:
        """Return a refusal; an empty one where it is no longer kept."""
        return self._kept.get((gate_id, key), NOT_REFUSED)


def why_late(gate: StoredGate, decision: str) -> str:
    """Write that a decision came too late, with the earlier decision, its author and its time."""
    lost = f"Your decision “{decision_text(decision)}” was not carried out"
    if gate.status == "withdrawn":
        return f"{lost}: the gate was withdrawn."
    if gate.decision is None:
        return f"{lost}: a message in the trace had resolved the gate."
    who = gate.resolved_by or "Somebody who gave no name"
    when = "a moment ago" if gate.resolved_ns is None else f"at {utc_s(gate.resolved_ns)} UTC"
    return f"{lost}: {who} had decided “{decision_text(gate.decision)}” {when}."
