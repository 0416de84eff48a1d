"""Gates as lines of a list, grouped by incident."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import polars as pl

from looptrace.analyzer.detect.findings import Cost
from looptrace.analyzer.gates.agent_states import by_agent
from looptrace.analyzer.gates.incidents import IncidentState, title_of
from looptrace.collector.page.worklist.filters import ListFilter, choices_of
from looptrace.collector.server.gates_api import GatesApi
from looptrace.collector.server.tokens.sight import Sight
from looptrace.collector.store import reader
from looptrace.collector.store.gate_file.stored_gates import GateFigures, GateStatus, StoredGate

# The most gates that a list is made of, the newest first.
GATES_MAX = 1_000
# The most lines of a page, and of an incident on it.
LINES_A_PAGE = 100
LINES_OF_INCIDENT_MAX = 5
SORTS: Mapping[str, str] = {
    "": "who waits",
    "newest": "the newest",
    "oldest": "the oldest",
    "cost": "the most tokens",
    "times": "the most times",
}
# The states of agents, as the list names them.
WAITS: Mapping[str, str] = {
    "waits": "waits",
    "unknown": "not known",
    "went_on": "went on",
    "ended": "ended",
}
# How each state of an incident is named, and the class of its badge.
STATE_NAMES: Mapping[IncidentState, tuple[str, str]] = {
    "back_again": ("back again", "gate"),
    "open": ("open", "gate"),
    "acknowledged": ("acknowledged", "warn"),
    "muted": ("muted", "reset"),
    "resolved": ("resolved", "done"),
}
IncidentStanding = tuple[IncidentState, str | None]  # the state of an incident, and its owner
_FIGURES = ["id", "reason", "attempts", "cost_seconds", "cost_input_tokens", "cost_output_tokens"]


@dataclass(frozen=True, slots=True)
class GateFilter(ListFilter):
    """The filter and the order of the list of gates."""

    status: str = ""  # open, unless it is `resolved`
    service: str = ""
    agent: str = ""
    rule: str = ""
    waits: str = ""  # the state of the agent
    incident: str = ""
    sort: str = ""

    @property
    def is_set(self) -> bool:
        """Whether it leaves out any gate of its tab."""
        return replace(self, page=1, status="", sort="") != GateFilter()

    @property
    def is_past(self) -> bool:
        """Whether it asks for resolved gates."""
        return self.status == "resolved"


@dataclass(frozen=True, slots=True)
class GateLine:
    """A gate on one line; times and cost are those of its loop by now."""

    gate: StoredGate
    reason: str
    service: str
    times: int
    cost: Cost

    @property
    def waits(self) -> str:
        """The state of the agent, by its name in `WAITS`; "" of a gate that is not open."""
        state = self.gate.agent_state
        return "" if self.gate.status != "open" else state.state if state else "unknown"

    def fits(self, wanted: GateFilter) -> bool:
        """Return whether a filter leaves it in."""
        own = (self.service, self.gate.agent, self.gate.rule, self.waits, self.gate.incident)
        asked = (wanted.service, wanted.agent, wanted.rule, wanted.waits, wanted.incident)
        if any(value and value != of_line for value, of_line in zip(asked, own, strict=True)):
            return False
        gate = self.gate
        decided = (gate.decision or "", gate.note or "", gate.resolved_by or "")
        text = " ".join((self.reason, gate.task, gate.id, *own, *decided)).lower()
        return all(word in text for word in wanted.words)


@dataclass(frozen=True, slots=True)
class GateGroup:
    """The matching gates of an incident; the page shows the first of them."""

    incident: str
    state: IncidentState
    owner: str | None
    lines: tuple[GateLine, ...]
    count: int
    tokens: int  # that the loops of all of them have cost
    times: int

    @property
    def title(self) -> str:
        """What repeats, in words that hold for all of its gates."""
        return title_of(self.lines[0].reason)


@dataclass(frozen=True, slots=True)
class GateListPage:
    """A page of the list, the possible values of the filter, and counts of the whole store."""

    groups: list[GateGroup]
    total: int  # matching gates
    has_more: bool
    choices: dict[str, list[str]]
    listed: int  # gates from which the matching ones were chosen, the newest
    open_count: int  # gates that wait for a person
    past_count: int
    open_gates: Mapping[str, StoredGate]  # by id, with the states of their agents

    @property
    def first(self) -> str:
        """The id of the first gate; "" if there is none."""
        return self.groups[0].lines[0].gate.id if self.groups else ""


def list_of(api: GatesApi, wanted: GateFilter, sight: Sight) -> GateListPage:
    """Return a page of the matching gates that are seen, by incident."""
    lines, open_count = _lines(api, "open", sight)
    open_gates = {line.gate.id: line.gate for line in lines}
    decided = [line for line in lines if line.gate.decision is not None]
    with reader.open_gates(api.store_dir) as store:
        past_count, stands = store.count("resolved"), store.stands(time.time_ns())
        if not sight.is_whole:
            past_count = len(sight.gates(api.store_dir, store.gates("resolved")))
    if wanted.is_past:
        lines = [*decided, *_lines(api, "resolved", sight)[0]]
    else:
        lines = [line for line in lines if line.gate.decision is None]
    fitting = sorted((line for line in lines if line.fits(wanted)), key=_order(wanted))
    pages = _pages(_groups(fitting, wanted, stands))
    return GateListPage(
        groups=pages[wanted.page - 1] if wanted.page <= len(pages) else [],
        total=len(fitting),
        has_more=wanted.page < len(pages),
        choices={
            "service": choices_of(line.service for line in lines),
            "agent": choices_of(line.gate.agent for line in lines),
            "rule": choices_of(line.gate.rule for line in lines),
        },
        listed=len(lines),
        open_count=open_count - len(decided),
        past_count=past_count + len(decided),
        open_gates=open_gates,
    )


def _groups(
    lines: Iterable[GateLine], wanted: GateFilter, stands: Mapping[str, IncidentStanding]
) -> list[GateGroup]:
    """Return the incidents of lines, in the order of their first lines."""
    by_incident: dict[str, list[GateLine]] = {}
    for line in lines:
        by_incident.setdefault(line.gate.incident, []).append(line)
    shown_max = LINES_A_PAGE if wanted.incident else LINES_OF_INCIDENT_MAX
    return [
        GateGroup(
            incident,
            *stands.get(incident, ("open", None)),
            lines=tuple(of_it[:shown_max]),
            count=len(of_it),
            tokens=sum(line.cost.tokens for line in of_it),
            times=sum(line.times for line in of_it),
        )
        for incident, of_it in by_incident.items()
    ]


def _pages(groups: Iterable[GateGroup]) -> list[list[GateGroup]]:
    """Return the groups by page; none is cut."""
    pages: list[list[GateGroup]] = [[]]
    room = LINES_A_PAGE
    for group in groups:
        if len(group.lines) > room:
            pages.append([])
            room = LINES_A_PAGE
        room -= len(group.lines)
        pages[-1].append(group)
    return pages


def _order(wanted: GateFilter) -> Callable[[GateLine], tuple[int, int, str]]:
    def key(line: GateLine) -> tuple[int, int, str]:
        gate = line.gate
        if wanted.is_past and not wanted.sort:
            return -(gate.resolved_ns or 0), 0, gate.id
        first = {
            "newest": 0,
            "oldest": gate.opened_ns,
            "cost": -line.cost.tokens,
            "times": -line.times,
        }.get(wanted.sort, by_agent(gate.agent_state))
        return first, -gate.opened_ns, gate.id

    return key


def _lines(api: GatesApi, status: GateStatus, sight: Sight) -> tuple[list[GateLine], int]:
    """Return the newest seen gates with a status as lines, and how many there are."""
    listed = api.gate_list(sight, status, limit=GATES_MAX)
    with reader.open_gates(api.store_dir) as store:
        figures = store.figures(status, GATES_MAX if sight.is_whole else -1)
    found = pl.col("id").is_in([each.finding for each in figures.values()])
    rows = reader.read_rows(api.store_dir, "findings", found, _FIGURES).iter_rows()
    now = {finding: (reason, times, Cost(*cost)) for finding, reason, times, *cost in rows}
    return [_line(gate, figures.get(gate.id), now) for gate in listed.gates], listed.total


def _line(
    gate: StoredGate, figures: GateFigures | None, now: Mapping[str, tuple[str, int, Cost]]
) -> GateLine:
    """Return the line of a gate, as of its opening where the store has no newer figures."""
    figures = figures or GateFigures()
    reason, times, cost = now.get(figures.finding, (gate.reason, figures.attempts, figures.cost))
    return GateLine(gate, reason, figures.service, times, cost)
