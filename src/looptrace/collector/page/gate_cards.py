"""The facts for a decision on a gate: what repeats, its cost, what failed, what helped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from looptrace.analyzer.detect.budgets.rules import BUDGET_NAMES
from looptrace.analyzer.detect.findings import Cost, Finding
from looptrace.analyzer.detect.loops import CountedLoop, loops_in
from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.gates.directives import Directives
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.notes import ResolutionNote
from looptrace.analyzer.report.html import TurnRow, turn_row
from looptrace.analyzer.report.strip import CycleStep, Strip, cycle_of, strip_of
from looptrace.analyzer.report.wording import WHY_TEXTS, money_text
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.analyzer.tuning.loop_money import loop_money
from looptrace.collector.server.gates_api import GatesApi
from looptrace.collector.server.tokens.sight import Sight
from looptrace.collector.store import reader
from looptrace.collector.store.gate_file.stored_gates import GateDetails, StoredGate
from looptrace.collector.store.gates import GateStore

_MINUTE_S = 60
# Over a shorter time a rate has no meaning.
_RATE_LEAST_S = 1.0
TOKENS_UNKNOWN = pl.all_horizontal(pl.col("input_tokens", "output_tokens").is_null())
NO_COST = Cost(0.0, 0, 0)


@dataclass(frozen=True, slots=True)
class Since:
    """The task of a gate since its resolution."""

    turns: int
    failed: int
    last_ns: int | None  # the end of the last of them
    last: TurnRow | None
    gate: str  # that stopped it again, empty for none


@dataclass(frozen=True, slots=True)
class GateCard:
    """A gate, ready to be shown; its drawing is None until its turns are in the store.

    `is_whole` says whether its opening turn is there as well.
    """

    gate: StoredGate
    event: GateEvent
    notes: tuple[ResolutionNote, ...]
    cost: Cost  # of the current loop
    money: str  # what its models cost, in words; "" without prices
    strip: Strip | None
    cycle: tuple[CycleStep, ...]
    is_whole: bool
    since: Since | None  # of a gate that is no longer open
    reason: str  # what repeats by now
    also: str  # the other rules that see the same loop
    calls_after: int  # that were made between the opening and the decision
    has_tokens: bool  # whether some turn of the task has tokens
    directive: str | None  # the text that the agent received with the decision
    before: StoredGate | None  # the gate at which the task stopped before and then went on

    @property
    def is_open(self) -> bool:
        """Whether a person must decide; a decision takes effect after a moment."""
        return self.gate.status == "open" and self.gate.decision is None

    @property
    def budget(self) -> str:
        """The budget of several tasks that opened the gate; "" where none did."""
        return self.gate.signature if self.gate.rule in BUDGET_NAMES else ""

    @property
    def tokens_a_minute(self) -> float | None:
        """The rate of tokens; None where the loop is too short, or has no tokens."""
        if self.cost.seconds < _RATE_LEAST_S or not self.cost.tokens:
            return None
        return self.cost.tokens / self.cost.seconds * _MINUTE_S

    @property
    def why(self) -> str:
        """The reason why a person must decide."""
        return WHY_TEXTS[self.event.why] if self.event.why else ""


def cards_of(api: GatesApi, gates: Sequence[StoredGate], sight: Sight) -> list[GateCard]:
    """Return the cards of gates with the notes that are seen, reading their turns once."""
    tasks = {gate.task for gate in gates}
    if not tasks:
        return []
    turns = reader.read_turns_of_tasks(api.store_dir, tasks)
    stored = reader.read_findings_of_tasks(api.store_dir, tasks)
    loops = {each.id: loop for loop in loops_in(stored) for each in loop.findings}
    meaning = api.settings.policy.rule_set.meaning
    directives = api.settings.directives
    states = {gate.id: gate.agent_state for gate in gates}
    with reader.open_gates(api.store_dir) as store:
        return [
            _card(
                store,
                replace(
                    sight.of_details(api.store_dir, details),
                    gate=replace(
                        details.gate,
                        agent_state=states[details.gate.id],
                        unless_decided=api.unless_decided(details),
                    ),
                ),
                loops,
                turns.filter(task=details.gate.task),
                directives,
                api.settings.prices,
            )
            for details in store.details([gate.id for gate in gates], meaning)
        ]


def _card(
    store: GateStore,
    details: GateDetails,
    loops: Mapping[str, CountedLoop],
    turns: pl.DataFrame,
    directives: Directives,
    prices: Prices | None,
) -> GateCard:
    gate = details.gate
    events = [event for _, event in store.events(task=details.gate.task)]
    # The stored loop, which may have grown since the gate opened.
    loop = loops.get(details.event.finding)
    finding = loop.lead if loop else store.finding(details.gate.id)
    # In the words of its own rule, as in lists and alerts; the drawing is the strongest rule's.
    own = {each.id: each.reason for each in loop.findings} if loop else {}
    is_drawn = finding is not None and not turns.is_empty()
    return GateCard(
        gate=details.gate,
        event=details.event,
        notes=details.notes,
        cost=finding.cost if finding else NO_COST,
        money=_money(finding, turns, prices),
        strip=strip_of(turns, (finding,), events) if finding and is_drawn else None,
        cycle=cycle_of(finding, turns) if finding and is_drawn else (),
        is_whole=is_drawn and turns["turn"].to_list()[-1] >= details.event.turn,
        since=_since(store, gate, turns),
        reason=own.get(details.event.finding, gate.reason),
        also=loop.also if loop else "",
        calls_after=_calls_after(gate, details.event, turns),
        has_tokens=not turns.select(TOKENS_UNKNOWN.all()).item(),
        directive=_directive(gate, events, directives),
        before=_before(store, gate),
    )


def _money(finding: Finding | None, turns: pl.DataFrame, prices: Prices | None) -> str:
    if finding is None or prices is None:
        return ""
    money = loop_money([finding], turns, prices)
    has_unpriced = finding.id in money.unpriced
    return money_text(money.spent[finding.id], money.currency, has_unpriced=has_unpriced)


def _calls_after(gate: StoredGate, event: GateEvent, turns: pl.DataFrame) -> int:
    """Count the calls of the gate's agent before a decision allowed them."""
    later = turns.filter(pl.col("turn") > event.turn, kind="tool")
    if event.agent:
        later = later.filter(agent=event.agent)
    if gate.resolved_ns is not None:
        later = later.filter(pl.col("start_ns") <= gate.resolved_ns)
    return later.height


def _directive(gate: StoredGate, events: Sequence[GateEvent], directives: Directives) -> str | None:
    """Return the agent's text about a decision, None until the decision takes effect."""
    if gate.status != "resolved":
        return None
    ends = [each for each in events if each.type == "gate_resolved" and each.gate == gate.id]
    return directives.text_of(ends[-1]) if ends else None


def _before(store: GateStore, gate: StoredGate) -> StoredGate | None:
    """Return the last gate of the same task that was resolved before this one opened."""
    resolved = [
        each
        for each in store.gates("resolved", gate.task)
        if each.id != gate.id and each.resolved_ns and each.resolved_ns <= gate.opened_ns
    ]
    return max(resolved, key=lambda each: each.resolved_ns or 0, default=None)


def _since(store: GateStore, gate: StoredGate, turns: pl.DataFrame) -> Since | None:
    if gate.resolved_ns is None:
        return None
    later = turns.filter(IS_STEP, pl.col("start_ns") > gate.resolved_ns)
    again = [found.id for found in store.gates("open", gate.task) if found.id != gate.id]
    last = later.row(-1, named=True) if later.height else None
    return Since(
        turns=later.height,
        failed=int(later["failed"].sum()),
        last_ns=last["end_ns"] if last else None,
        last=turn_row(last, {}, {}, {}) if last else None,
        gate=again[0] if again else "",
    )
