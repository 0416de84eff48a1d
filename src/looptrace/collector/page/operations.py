"""Operation of the server: rules and settings in force, webhooks, and the health of each part."""

import asyncio
import inspect
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.analyzer.report.wording import count_text, duration_text
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.settings.webhook import VARIABLE, Webhook
from looptrace.analyzer.text.times import NS_PER_HOUR, utc_s
from looptrace.collector.content.redaction import redact_text
from looptrace.collector.page.operating.health_text import lines_of
from looptrace.collector.page.operating.settings_rows import SettingRow, rows_of
from looptrace.collector.page.rendering import Renderer
from looptrace.collector.page.worklist.filters import ListFilter
from looptrace.collector.server.receiver.receiver_metrics import SUM, Instrument, Values
from looptrace.collector.server.service import Service
from looptrace.collector.store.gate_file.attempts import Attempt
from looptrace.collector.store.key import content_key
from looptrace.collector.store.layout import gates_path
from looptrace.collector.store.outbox import Endpoint, Outbox
from looptrace.collector.webhooks.chat_messages import answered
from looptrace.collector.webhooks.client import Http
from looptrace.collector.webhooks.endpoint_worker import receiver_of
from looptrace.collector.webhooks.sample import sample_event
from looptrace.collector.webhooks.signing import SecretError
from looptrace.rules.contract import Rule, Rung
from looptrace.rules.docs import summary
from looptrace.rules.vocabulary import NS_PER_S

_HIDDEN = "(an address that is not shown)"
_ATTEMPTS_SHOWN = 20
# The choices of a form that sends again.
_HOURS = (1, 6, 24, 168)
_NOTHING_TO_SEND = "The form names no event, and none of the times that it has."
# It stands for a hidden address, since the settings take only an address or a variable.
_NO_URL = f"{VARIABLE}X"
_NO_WEBHOOK = "The settings have no webhook with this name."


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """A rule in force."""

    name: str
    finds: str
    about: str  # its description, in Markdown
    is_on: bool
    settings: list[tuple[str, float, str]]  # name, value, meaning
    ladder: tuple[Rung, ...]


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook of the settings, and the state of its endpoint."""

    webhook: Webhook
    endpoint: Endpoint
    attempts: list[Attempt]  # the latest ones


@dataclass(frozen=True, slots=True)
class Operations:
    """The pages for operators of the server."""

    service: Service
    settings: Settings
    renderer: Renderer

    def rules(self, request: Request) -> Response:
        """Show each rule: its description, whether it is on, its settings and its ladder."""
        in_force = {rule.name: rule for rule in self.settings.policy.rule_set.rules}
        entries = [_entry(kind, in_force.get(kind.name)) for kind in every_rule()]
        entries.sort(key=lambda entry: (not entry.is_on, entry.name))
        overrides = len(self.settings.policy.rule_set.overrides)
        return self.renderer.page(
            request,
            "rules.html.j2",
            rules=entries,
            overrides=overrides,
            named=request.query_params.get("name", ""),
        )

    def in_force(self, request: Request) -> Response:
        """Show what differs from the profile, or what a search finds, and the whole file.

        Addresses and secrets are left out.
        """
        wanted = ListFilter.of(request.query_params)
        shown = self._without_addresses()
        key = content_key(self.service.gates.store_dir)
        rows = [row for row in rows_of(shown) if row.fits(wanted.words)]
        rows = [_redacted(row, key) for row in rows if wanted.q or row.differs]
        text = redact_text(toml_of(shown).replace(_NO_URL, _HIDDEN), key)
        return self.renderer.page(
            request,
            "settings.html.j2",
            rows=rows,
            wanted=wanted,
            text=text,
            profile=self.settings.profile,
        )

    def _without_addresses(self) -> Settings:
        """Return the settings without the addresses of webhooks, which are secrets."""
        hooks = tuple(
            webhook if webhook.url.startswith(VARIABLE) else replace(webhook, url=_NO_URL)
            for webhook in self.settings.webhooks
        )
        return replace(self.settings, webhooks=hooks)

    def webhooks(
        self, request: Request, done_to: Webhook | None = None, done: str = ""
    ) -> Response:
        """Show the webhooks with their states and last deliveries, and what was done to one."""
        with self._outbox() as outbox:
            hooks = [
                Hook(
                    each,
                    outbox.endpoint(each.name),
                    outbox.attempts(each.name, limit=_ATTEMPTS_SHOWN),
                )
                for each in self.settings.webhooks
            ]
        told = {done_to.name: done} if done_to else {}
        return self.renderer.page(request, "webhooks.html.j2", hooks=hooks, told=told, hours=_HOURS)

    def try_webhook(self, request: Request, _form: Mapping[str, str]) -> Response:
        """Send a sample to a webhook, and show the result."""
        webhook = self._named(request)
        if webhook is None:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, _NO_WEBHOOK)
        try:
            receiver = receiver_of(webhook, os.environ, self.settings.page)
            sent = asyncio.run(Http().send(receiver.request(sample_event(), time.time_ns())))
            answer = answered(webhook, sent).answer
        except SecretError as error:
            return self.webhooks(request, webhook, str(error))
        outcome = answer.error or f"accepted, with status {answer.status}"
        return self.webhooks(request, webhook, f"Sample: {outcome}. {answer.text}".strip())

    def send_again(self, request: Request, form: Mapping[str, str]) -> Response:
        """Queue an event of the log again, or all of the last hours."""
        webhook = self._named(request)
        if webhook is None:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, _NO_WEBHOOK)
        event, hours = form.get("event", ""), form.get("hours", "")
        if not event and hours not in map(str, _HOURS):
            return self.renderer.error(request, HTTPStatus.BAD_REQUEST, _NOTHING_TO_SEND)
        count = self._queue_again(webhook.name, event, int(hours or 0))
        self.service.dispatcher.wake()
        return self.webhooks(request, webhook, f"{count_text(count)} to be sent again")

    def enable_webhook(self, request: Request, _form: Mapping[str, str]) -> Response:
        """Enable a webhook again that was disabled."""
        webhook = self._named(request)
        if webhook is None:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, _NO_WEBHOOK)
        with self._outbox() as outbox:
            outbox.enable(webhook.name, time.time_ns(), self.settings.webhooks)
        self.service.dispatcher.wake()
        return self.webhooks(request, webhook, "Enabled")

    def _named(self, request: Request) -> Webhook | None:
        name = request.path_params["name"]
        return next((each for each in self.settings.webhooks if each.name == name), None)

    def _queue_again(self, name: str, event: str, hours: int) -> int:
        now_ns = time.time_ns()
        with self._outbox() as outbox:
            if event:
                return outbox.resend(event, name, now_ns)
            since_ns = now_ns - hours * NS_PER_HOUR
            return outbox.replay(name, since_ns, now_ns, accepted=True)

    def _outbox(self) -> Outbox:
        return Outbox.open(gates_path(self.service.gates.store_dir))

    def health(self, request: Request) -> Response:
        """Show whether each part works, and the counts of the server."""
        service = self.service
        lines = lines_of(service)
        service.loops.answers.look()  # A person may be the first to ask for hours.
        groups = _groups(service.instruments())
        return self.renderer.page(request, "health.html.j2", lines=lines, groups=groups)


def _redacted(row: SettingRow, key: bytes) -> SettingRow:
    """Return a row without secrets, and with words in place of a hidden address."""
    value, default = (
        text and redact_text(text.replace(_NO_URL, _HIDDEN), key)
        for text in (row.value, row.default)
    )
    return replace(row, value=value, default=default)


def _groups(instruments: Iterable[Instrument]) -> dict[str, list[tuple[Instrument, str, str]]]:
    """Return the numbers of instruments by part, as text with its unit, and their labels."""
    groups: dict[str, list[tuple[Instrument, str, str]]] = {}
    for instrument in instruments:
        group = instrument.name.split(".")[1]
        numbers = instrument.read()
        if instrument.kind == "histogram":
            numbers = _mean_of(numbers)
        for values, number in numbers.items():
            if number or not values:  # Only the reasons that occurred.
                row = (instrument, ", ".join(values), _with_unit(instrument.name, number))
                groups.setdefault(group, []).append(row)
    return groups


def _mean_of(numbers: Values) -> Values:
    """Return the mean of a histogram, labelled with the count; nothing for an empty one."""
    count = max((number for values, number in numbers.items() if values != (SUM,)), default=0)
    return {(f"on average, of {count:.0f}",): numbers[SUM,] / count} if count else {}


def _with_unit(name: str, number: float) -> str:
    """Write a number with the unit at the end of its instrument's name; times are in UTC."""
    if name.endswith("timestamp_seconds"):
        return utc_s(int(number) * NS_PER_S)
    if name.endswith("seconds"):
        return duration_text(number) if number else "0 s"
    return f"{count_text(number)} bytes" if name.endswith("bytes") else count_text(number)


def _entry(kind: type[Rule], rule: Rule | None) -> RuleEntry:
    shown = rule or kind()
    return RuleEntry(
        name=kind.name,
        finds=summary(kind),
        about=inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[2].partition("\n## ")[0],
        is_on=rule is not None,
        settings=[(name, value, about["doc"]) for name, (value, about) in shown.settings().items()],
        ladder=shown.ladder,
    )
