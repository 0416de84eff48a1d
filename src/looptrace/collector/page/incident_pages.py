"""Incidents on the page: the list, one with its gates, and the forms that set and decide it."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from looptrace.analyzer.detect.ruleset import RuleSet
from looptrace.analyzer.gates.decisions import GateError, NoGateError
from looptrace.analyzer.gates.incidents import IncidentWord
from looptrace.analyzer.gates.silences import Matchers
from looptrace.analyzer.report.backtest_report import trial_remarks
from looptrace.analyzer.report.wording import versions_text
from looptrace.analyzer.text.times import NS_PER_HOUR
from looptrace.analyzer.tuning.exceptions import exception_lines, exceptions_of
from looptrace.collector.page.gate_pages import GatePages
from looptrace.collector.page.operating.exception_trials import DAYS_TRIED, tried_on
from looptrace.collector.page.refusals import DecisionForm, RefusedDecision
from looptrace.collector.page.rendering import Renderer, url
from looptrace.collector.page.worklist.incident_list import IncidentFilter, page_of
from looptrace.collector.page.worklist.lines import STATE_NAMES
from looptrace.collector.server.access import WHO
from looptrace.collector.server.incidents.incidents_api import IncidentsApi
from looptrace.collector.server.incidents.silences_api import SilencesApi
from looptrace.collector.server.tokens.sight import Sight, sight_of
from looptrace.collector.store.gate_file.incidents import IncidentDetails

PATH = "/incidents"
# The most incidents among which the list chooses, and the most gates of one.
LISTED_MAX = 10_000
GATES_MAX = 100
_OTHERS_SHOWN_MAX = 50
_NO_EXCEPTION = "No override can name this loop: it has no tool, agent or signature."
# What a person may choose: the state, and the hours of a mute.
CHOICES: Mapping[str, tuple[str, str, int]] = {
    "": ("as it is", "", 0),
    "acknowledged": ("acknowledged", "acknowledged", 0),
    "muted-1": ("muted for an hour", "muted", 1),
    "muted-8": ("muted for 8 hours", "muted", 8),
    "muted-24": ("muted for a day", "muted", 24),
    "muted-168": ("muted for a week", "muted", 168),
    "resolved": ("resolved", "resolved", 0),
    "open": ("open", "open", 0),
}

# How long a silence holds.
HOURS = {"1 hour": 1, "4 hours": 4, "8 hours": 8, "1 day": 24, "1 week": 168}


@dataclass(frozen=True, slots=True)
class IncidentPages:
    """The pages of incidents."""

    api: IncidentsApi
    silences: SilencesApi
    gates: GatePages
    renderer: Renderer
    # A trial takes as long as hundreds of visits.
    _trying: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def all(self, request: Request) -> Response:
        """List the incidents: those that need somebody first, a line each."""
        state = self.renderer.state()
        wanted = IncidentFilter.of(request.query_params)
        listed = self.api.incident_list(sight_of(request), None, LISTED_MAX)
        about = {
            "state": state,
            "wanted": wanted,
            "state_choices": [(state, words) for state, (words, _) in STATE_NAMES.items()],
            "query": wanted.query(),
            "found": page_of(listed.incidents, wanted),
            "listed": listed,
            "silences": self.silences.silences(sight_of(request)).silences,
            "refusal": self.gates.refusals.of(PATH, request.query_params.get("refused", "")),
            "hours": HOURS,
        }
        content = self.gates.shared(request) | _SHARED | about
        return self.renderer.page(request, "incidents.html.j2", **content)

    def one(self, request: Request) -> Response:
        """Show an incident with its gates."""
        state = self.renderer.state()
        details = self.api.details(*_asked(request))
        refused = request.query_params.get("refused")
        about: dict[str, Any] = {
            "state": state,
            "details": details,
            "incident": details.incident,
            "gates_max": GATES_MAX,
            "choices": CHOICES,
            "exception": _exception(details, self.gates.api.settings.policy.rule_set),
            "refusal": self.gates.refusal(request),
            "here": url(f"{PATH}/{details.incident.id}", refused=refused),
        }
        content = self.gates.shared(request) | _SHARED | about
        return self.renderer.page(request, "incident.html.j2", **content)

    async def exception(self, request: Request) -> Response:
        """Show the lines that except the loop of an incident, tried on the last days."""
        details = await run_in_threadpool(self.api.details, *_asked(request))
        settings = self.gates.api.settings
        exceptions = exceptions_of(details.loop, settings.policy.rule_set)
        if not exceptions:
            return self.renderer.error(request, HTTPStatus.CONFLICT, _NO_EXCEPTION)
        store_dir = self.api.store_dir
        async with self._trying:
            trial, left_out = await run_in_threadpool(
                tried_on, store_dir, details, exceptions, settings
            )
        signature, remarks = details.incident.signature, trial_remarks(trial, DAYS_TRIED)
        about: dict[str, Any] = {
            "incident": details.incident,
            "trial": trial,
            "left_out": left_out,
            "days": DAYS_TRIED,
            "others_max": _OTHERS_SHOWN_MAX,
            "lines": exception_lines(exceptions, signature, remarks),
        }
        return await self.renderer.answer(request, "exception.html.j2", **about)

    def decide(self, request: Request, form: Mapping[str, str]) -> Response:
        """Decide on all open gates of an incident."""
        sent = DecisionForm.of(form)
        who = request.scope.get(WHO) or sent.who or None

        def decided() -> None:
            sent.check()
            self.api.resolve_gates(
                request.path_params["id"], sent.decision, sent.note.strip() or None, who
            )

        return self._done(request, sent, decided)

    def say(self, request: Request, form: Mapping[str, str]) -> Response:
        """Set the state or the owner of an incident."""
        sent = DecisionForm.of(form)
        who = request.scope.get(WHO) or sent.who or None
        _, state, hours = CHOICES.get(form.get("state", ""), ("", form.get("state", ""), 0))
        until_ns = time.time_ns() + hours * NS_PER_HOUR if hours else None
        owner, before = form.get("owner", "").strip(), form.get("owner_before", "")
        why = form.get("why", "").strip() or None

        def said() -> None:
            given = owner if owner != before else None
            word = IncidentWord(time.time_ns(), state or None, until_ns, given, who, why)  # type: ignore[arg-type] # The store checks it.
            self.api.set_incident(request.path_params["id"], word)

        return self._done(request, sent, said)

    def silence(self, request: Request, form: Mapping[str, str]) -> Response:
        """Make a silence, and redirect to the list, which shows a refusal."""
        sent = DecisionForm.of(form)
        matchers = Matchers(*(form.get(each.name, "").strip() for each in fields(Matchers)))
        hours = HOURS.get(form.get("hours", ""), 0)
        ends_ns = time.time_ns() + hours * NS_PER_HOUR
        who = request.scope.get(WHO) or sent.who or None
        said = (sight_of(request), matchers, ends_ns, form.get("why", ""), who)
        return self._done(request, sent, lambda: self.silences.silence(*said))

    def end_silence(self, request: Request, _form: Mapping[str, str]) -> Response:
        """End a silence, and redirect to the list."""
        self.silences.end_silence(request.path_params["id"])
        return RedirectResponse(PATH, HTTPStatus.SEE_OTHER)

    def _done(self, request: Request, sent: DecisionForm, act: Callable[[], object]) -> Response:
        """Do what a form asks for, and redirect to the incident or the list; it shows a refusal."""
        incident, key = request.path_params.get("id"), ""
        try:
            act()
        except NoGateError:
            raise
        except GateError as error:
            key = self.gates.refusals.keep(incident or PATH, RefusedDecision(str(error), sent))
        page = f"{PATH}/{incident}" if incident else PATH
        response = RedirectResponse(url(page, refused=key), HTTPStatus.SEE_OTHER)
        self.renderer.sessions.keep_name(request, response, sent.who)
        return response


def _asked(request: Request) -> tuple[str, Sight]:
    """Return the incident of a request, and what the request may see."""
    return request.path_params["id"], sight_of(request)


def _exception(details: IncidentDetails, rule_set: RuleSet) -> str:
    """Return the settings that except the loop of an incident, if a person said that it is none."""
    if not any(gate.decision == "not_a_loop" for gate in details.gates):
        return ""
    exceptions = exceptions_of(details.loop, rule_set)
    return exception_lines(exceptions, details.incident.signature, ()) if exceptions else ""


_SHARED: dict[str, Any] = {"state_names": STATE_NAMES, "versions_text": versions_text}
