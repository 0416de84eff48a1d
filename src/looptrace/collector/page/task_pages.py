"""Tasks: their list, the turns of one with its loops, and the reasons for these."""

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import Any

import polars as pl
from anyio import from_thread
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from looptrace.analyzer.detect.findings import Finding
from looptrace.analyzer.detect.loops import CountedLoop, loops_in
from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.detect.times import waits_of
from looptrace.analyzer.gates.decisions import decision_text
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.report.escalation import TurnRole
from looptrace.analyzer.report.explanation import blind_rules, gate_reasons_of, reasons_of
from looptrace.analyzer.report.html import (
    EventPlaces,
    ShownEvent,
    TurnRow,
    places_in_round,
    shown_event,
    turn_row,
)
from looptrace.analyzer.report.strip import cycle_of, strip_of
from looptrace.analyzer.report.wording import (
    money_text,
    place_of,
    reset_text,
    shown_of,
    times_before,
    tokens_text,
)
from looptrace.analyzer.schema.turns import IS_STEP
from looptrace.analyzer.text.session_names import SeveralServicesError
from looptrace.analyzer.tuning.explain import explain
from looptrace.analyzer.tuning.loop_money import spent_by
from looptrace.analyzer.tuning.outcomes import RecordedOutcome, recorded_in
from looptrace.collector.agent_states import left_tasks
from looptrace.collector.api_bodies import ShownTask
from looptrace.collector.page.gate_cards import TOKENS_UNKNOWN
from looptrace.collector.page.rendering import Renderer, url
from looptrace.collector.page.task_list import PERIODS_H, STATES, TaskFilter, TaskIndex
from looptrace.collector.page.timeline.drawing import Timeline, timeline_of
from looptrace.collector.page.timeline.parents import FAMILY_COLUMNS
from looptrace.collector.page.timeline.raw_span import raw_texts
from looptrace.collector.server.asked_tasks import tasks_of
from looptrace.collector.server.gates_api import GatesApi
from looptrace.collector.server.tokens.sight import Sight, sight_of
from looptrace.collector.server.warming import QUIET_S, read_ended
from looptrace.collector.store import reader
from looptrace.collector.trace_links import TraceLinks
from looptrace.rules.contract import ACTIONS
from looptrace.rules.vocabulary import NS_PER_S

# The most turns shown at once, the newest last.
TURNS_A_PAGE = 200
# The most agents with a lane of their own; the last lane has the rest.
LANES_MAX = 4
# An explanation takes as long as hundreds of visits to the task; longer tasks need the command
# line.
EXPLAINED_TURNS_MAX = 1_000
_ROW_DIGITS_MAX = 9
_NO_TASK = (
    "There is no such task in the store, or it is so new that the store has no turn of it yet."
)


@dataclass(frozen=True, slots=True)
class TurnLine:
    """A turn in its lane, with the address of its details."""

    row: TurnRow
    place: int  # among all rows of the task, from 0
    lane: int  # from 1
    seconds: float
    tokens: int
    decision: str | None  # recorded by the agent's own code for a person, in place of a message


@dataclass(frozen=True, slots=True)
class TaskPages:
    """The pages of tasks."""

    api: GatesApi
    renderer: Renderer
    links: TraceLinks
    tasks: TaskIndex
    version: Callable[[], Hashable]  # of the store's state
    _explaining: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def all(self, request: Request) -> Response:
        """Show the tasks that match the filter."""
        wanted = TaskFilter.of(request.query_params)
        state = self.renderer.state()
        found = self.tasks.find(wanted, self.version(), sight_of(request))
        return self.renderer.page(
            request,
            "tasks.html.j2",
            state=state,
            found=found,
            wanted=wanted,
            query=wanted.query(),
            states=STATES,
            periods=PERIODS_H,
            actions=ACTIONS,
        )

    def task(self, request: Request) -> Response:
        """Show a task: its loops, and its turns with the newest last."""
        state = self.renderer.state()
        name = request.query_params.get("id", "")
        before = _number(request.query_params.get("before"))
        sight = sight_of(request)
        try:
            content = self._task(name, before, sight)
        except SeveralServicesError as error:
            return self.renderer.error(request, HTTPStatus.CONFLICT, str(error))
        if content is None:  # It may have begun a moment ago; the page adds later turns.
            from_thread.run(self.api.stored)
            content = self._task(name, before, sight)
        is_left = content is None or not content["task"].turns
        if is_left and (other := self._other_name(name)):
            return RedirectResponse(url("/task", id=other), HTTPStatus.SEE_OTHER)
        if content is None:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, _NO_TASK)
        return self.renderer.page(request, "task.html.j2", state=state, **content)

    def _other_name(self, name: str) -> str:
        """Return the task that had this name before, or of a session or trace; "" for none."""
        try:
            tasks = tasks_of(self.api.store_dir, name, None)
        except SeveralServicesError:
            return ""
        others = (task for task in tasks if task != name)
        return next((task for task in others if self.api.shown_task(task)), "")

    def _task(self, name: str, before: int | None, sight: Sight) -> dict[str, Any] | None:
        turns = reader.read_turns_named(self.api.store_dir, name)
        name = _task_of(turns, name)
        shown = self.api.shown_task(name, turns)
        if shown is None:
            return None
        loops = loops_in(reader.read_findings_of_tasks(self.api.store_dir, [name]))
        groups, _ = shown_of(loops)
        with reader.open_gates(self.api.store_dir) as gates:
            events = [event for _, event in gates.events(task=name)]
        leads = [group.lead for group in groups]
        steps = turns.filter(IS_STEP)
        agents = [agent for agent in steps["agent"].unique(maintain_order=True) if agent]
        last = turns.height if before is None else min(before, turns.height)
        first = max(0, last - TURNS_A_PAGE)
        prices = self.api.settings.prices
        who = {gate.id: gate.resolved_by for gate in shown.gates}
        lines = self._lines(turns, first, last, agents, groups, events, who)
        waits_ns = _waits_ns(shown, turns)
        return {
            "task": shown,
            "states": STATES,
            "groups": [(group, cycle_of(group.lead, turns)) for group in groups],
            "strip": strip_of(turns, leads, events) if steps.height else None,
            "timeline": self._timeline(turns[first:last], leads, events, sight),
            "report_gate": next(
                (gate.id for gate in shown.gates if gate.status != "withdrawn"), ""
            ),
            "agents": agents,
            "lanes": [*agents[: LANES_MAX - 1], "others"] if len(agents) > LANES_MAX else agents,
            "service": next(iter(turns["service"].drop_nulls()), ""),
            "session": next(iter(turns["session"].drop_nulls()), ""),
            "trace_id": next(iter(turns["trace_id"].drop_nulls()), ""),
            "first_ns": turns["start_ns"].min() or 0,
            "last_ns": turns["end_ns"].max() or 0,
            "tokens": int(turns["input_tokens"].sum()) + int(turns["output_tokens"].sum()),
            "cached": int(turns["cached_tokens"].sum()),
            "money": _money(turns, prices) if prices else "",
            "has_tokens": not turns.select(TOKENS_UNKNOWN.all()).item(),
            "standing": self._standing_of(shown, turns, waits_ns),
            "waits_ns": waits_ns,
            "outcomes": self._outcomes_of(turns, sight),
            "event_ns": max((event.at_ns for event in events), default=0),
            "failed": int(steps["failed"].sum()),
            "lines": lines,
            "earlier": first,
            "later": turns.height - last,
            "before": before,
            "links": self.links,
        }

    def _timeline(
        self,
        turns: pl.DataFrame,
        leads: Sequence[Finding],
        events: Sequence[GateEvent],
        sight: Sight,
    ) -> Timeline | None:
        if turns.is_empty():
            return None
        traces = turns["trace_id"].unique().drop_nulls().to_list()
        at_the_time = (pl.col("start_ns") <= turns["end_ns"].max()) & (
            pl.col("end_ns") >= turns["start_ns"].min()
        )
        spans = reader.rows_of(
            self.api.store_dir,
            "spans",
            "trace_id",
            traces,
            at_the_time & sight.spans,
            FAMILY_COLUMNS,
        )
        return timeline_of(turns, spans, leads, events)

    def _standing_of(self, shown: ShownTask, turns: pl.DataFrame, waits_ns: int) -> str:
        """Return the state of a task, by its name in `STATES`."""
        if shown.status != "active":
            is_left = left_tasks(self.api.with_agents(shown.gates))
            return "left" if is_left else "waiting"
        if waits_ns:
            return "waiting"
        since_ns = time.time_ns() - QUIET_S * NS_PER_S
        is_recent = turns.select((pl.col("end_ns") > since_ns).any()).item()
        has_ended = is_recent and shown.task in read_ended(self.api.store_dir, since_ns)
        return "live" if is_recent and not has_ended else "past"

    def _outcomes_of(self, turns: pl.DataFrame, sight: Sight) -> list[RecordedOutcome]:
        """Return what spans say of how a task ended: the last of each name."""
        traces, columns = turns["trace_id"].unique(), ["trace_id", "end_ns", "events", "attributes"]
        since = pl.col("end_ns") >= turns.select(pl.col("start_ns").min().fill_null(0)).item()
        seen = since & sight.spans
        spans = reader.rows_of(self.api.store_dir, "spans", "trace_id", traces, seen, columns)
        last = {(each.source, each.name): each for each in recorded_in(spans)}
        return [*last.values()]

    def _lines(
        self,
        turns: pl.DataFrame,
        first: int,
        last: int,
        agents: list[str],
        groups: Sequence[CountedLoop],
        events: list[GateEvent],
        who: Mapping[str, str | None],
    ) -> list[TurnLine]:
        roles: dict[int, TurnRole] = {}
        places: dict[int, str] = {}
        for group in reversed(groups):  # The strongest finding decides how a turn is shown.
            roles |= {turn.turn: turn.role for turn in group.lead.turns}
            places |= places_in_round(group)
        decided: EventPlaces = {}
        for event in events:
            decided.setdefault(place_of(event), []).append(_event_of(event, who))
        lane_of = {agent: min(lane, LANES_MAX) for lane, agent in enumerate(agents, start=1)}
        make = partial(turn_row, roles=roles, places=places, events=decided)
        return [
            TurnLine(
                row=make(row),
                place=first + offset,
                lane=lane_of.get(row["agent"], 1),
                seconds=(row["end_ns"] - row["start_ns"]) / NS_PER_S,
                tokens=(row["input_tokens"] or 0) + (row["output_tokens"] or 0),
                decision=row["name"] if row["kind"] == "user" else None,
            )
            for offset, row in enumerate(turns[first:last].iter_rows(named=True))
            if row["kind"] != "switch"
        ]

    def turn(self, request: Request) -> Response:
        """Show all content of a turn."""
        name = request.query_params.get("id", "")
        place = _number(request.query_params.get("row"))
        turns = reader.read_turns_named(self.api.store_dir, name)
        if place is None or place >= turns.height:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, "There is no such turn.")
        row = turns.row(place, named=True)
        span = self._span(row["trace_id"], row["span_id"])
        return self.renderer.page(
            request,
            "turn.html.j2",
            task=row["task"],
            turn=row,
            turn_tokens=tokens_text(
                row["input_tokens"] or 0,
                row["output_tokens"] or 0,
                row["cached_tokens"] or 0,
                row["reasoning_tokens"] or 0,
            ),
            parts_of_turn=_parts_of(row),
            raw=raw_texts(span) if span else [],
            here=url("/task", id=row["task"], before=place + 1) + f"#turn-{row['turn']}",
            links=self.links,
        )

    def _span(self, trace_id: str, span_id: str) -> dict[str, Any] | None:
        """Return the row of a span; None where its day was deleted."""
        which = pl.col("trace_id").eq(trace_id) & pl.col("span_id").eq(span_id)
        rows = reader.read_rows(self.api.store_dir, "spans", which)
        return rows.row(0, named=True) if rows.height else None

    async def why(self, request: Request) -> Response:
        """Show how far each rule got in a task, and the setting that would change it."""
        name = request.query_params.get("id", "")
        turns = await run_in_threadpool(reader.read_turns_named, self.api.store_dir, name)
        name = _task_of(turns, name)
        if turns.is_empty() and self.api.shown_task(name, turns) is None:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, _NO_TASK)
        content: dict[str, Any] = {"task": name, "turns_max": EXPLAINED_TURNS_MAX}
        content["turns"] = turns.height
        if 0 < turns.height <= EXPLAINED_TURNS_MAX:
            async with self._explaining:
                content |= await run_in_threadpool(self._why, turns)
        return await self.renderer.answer(request, "why.html.j2", **{"reasons": None} | content)

    def _why(self, turns: pl.DataFrame) -> dict[str, Any]:
        explanation = explain(turns, self.api.settings.policy)
        return {
            "reasons": reasons_of(turns, explanation),
            "gates": gate_reasons_of(explanation),
            "blind": blind_rules(explanation),
        }


def _event_of(event: GateEvent, who: Mapping[str, str | None]) -> ShownEvent:
    """Return an event of a task in the words of the page, with the name of the person."""
    shown = shown_event(event)
    if event.type == "gate_resolved" and event.decision:
        name = who.get(event.gate) or "somebody who gave no name"
        return replace(shown, more=f" by {name}: {decision_text(event.decision)}")
    if event.type == "counter_reset":
        why = reset_text(event.reason)
        return replace(shown, name="counts begin anew", more=f"{times_before(event)}: {why}")
    return shown


def _task_of(turns: pl.DataFrame, name: str) -> str:
    """Return the task of these turns, which a person may have named by its session."""
    return str(turns["task"][0]) if turns.height else name


def _parts_of(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the texts of a turn by kind, without those that the trace lacks."""
    names = {
        "tool": ("Called with", "Came back", "Said"),
        "model": ("Was given", "Came back", "Said"),
        "handoff": ("Was asked", "Answered", "Said"),
        "attempt": ("Blocked by", "Completed", "Said"),
    }.get(row["kind"], ("Given", "Came back", "Wrote"))
    texts = [*zip(names, (row["arguments"], row["result"], row["text"]), strict=True)]
    texts += [("Error", row["error"]), ("Type of the error", row["error_type"])]
    texts += [("Where it failed", row["location"]), ("Figures", row["metrics"])]
    return [(title, text) for title, text in texts if text is not None]


def _money(turns: pl.DataFrame, prices: Prices) -> str:
    spent, unpriced = spent_by(turns, prices)
    return money_text(spent, prices.currency, has_unpriced=bool(unpriced))


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isdecimal() and len(text) <= _ROW_DIGITS_MAX
    return int(text or 0) if is_number else None


def _waits_ns(shown: ShownTask, turns: pl.DataFrame) -> int:
    """Return since when a task waits for a person; 0 if it does not."""
    opened = [gate.opened_ns for gate in shown.gates if gate.status == "open"]
    return min(opened, default=0) or sum(waits_of(turns)["waits_ns"])
