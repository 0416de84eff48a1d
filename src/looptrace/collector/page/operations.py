"""Operation of the server: rules and settings in force, webhooks, and the health of each part."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.analyzer.report.wording import count_text, duration_text
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.settings.webhook import VARIABLE, Webhook
from looptrace.collector.content.redaction import redact_text
from looptrace.collector.page.rendering import Renderer
from looptrace.collector.server import metrics
from looptrace.collector.server.receiver.receiver_metrics import Instrument, Values
from looptrace.collector.server.service import Service
from looptrace.collector.store.key import content_key
from looptrace.collector.store.layout import gates_path
from looptrace.collector.store.outbox import Endpoint, Outbox
from looptrace.collector.webhooks.client import Http
from looptrace.collector.webhooks.endpoint_worker import PastDelivery, receiver_of
from looptrace.collector.webhooks.sample import sample_event
from looptrace.collector.webhooks.signing import SecretError
from looptrace.rules.contract import Rule, Rung
from looptrace.rules.docs import summary

_HIDDEN = "(an address that is not shown)"
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
    deliveries: list[PastDelivery]


@dataclass(frozen=True, slots=True)
class Operations:
    """The pages for operators of the server."""

    service: Service
    settings: Settings
    renderer: Renderer

    async def rules(self, request: Request) -> Response:
        """Show each rule: its description, whether it is on, its settings and its ladder."""
        in_force = {rule.name: rule for rule in self.settings.policy.rule_set.rules}
        entries = [_entry(kind, in_force.get(kind.name)) for kind in every_rule()]
        entries.sort(key=lambda entry: (not entry.is_on, entry.name))
        overrides = len(self.settings.policy.rule_set.overrides)
        return await self.renderer.answer(
            request,
            "rules.html.j2",
            rules=entries,
            overrides=overrides,
            named=request.query_params.get("name", ""),
        )

    async def in_force(self, request: Request) -> Response:
        """Show the settings as `looptrace config show` does, without addresses and secrets."""
        shown = tuple(
            webhook if webhook.url.startswith(VARIABLE) else replace(webhook, url=f"{VARIABLE}X")
            for webhook in self.settings.webhooks
        )
        text = toml_of(replace(self.settings, webhooks=shown))
        text = text.replace(f'url = "{VARIABLE}X"', f'url = "{_HIDDEN}"')
        key = content_key(self.service.gates.store_dir)
        text = await run_in_threadpool(redact_text, text, key)
        return await self.renderer.answer(
            request, "settings.html.j2", text=text, profile=self.settings.profile
        )

    async def webhooks(self, request: Request) -> Response:
        """Show the webhooks with their states and last deliveries."""
        return await self._hooks(request)

    async def try_webhook(self, request: Request, _form: Mapping[str, str]) -> Response:
        """Send a sample to a webhook, and show the result."""
        name = request.path_params["name"]
        webhook = next((each for each in self.settings.webhooks if each.name == name), None)
        if webhook is None:
            return self.renderer.error(request, HTTPStatus.NOT_FOUND, _NO_WEBHOOK)
        try:
            receiver = receiver_of(webhook, os.environ, self.settings.page)
            answer = await Http().send(receiver.request(sample_event(), time.time_ns()))
        except SecretError as error:
            return await self._hooks(request, {name: str(error)})
        outcome = answer.error or f"accepted, with status {answer.status}"
        return await self._hooks(request, {name: f"{outcome}. {answer.text}".strip()})

    async def _hooks(self, request: Request, tested: Mapping[str, str] | None = None) -> Response:
        hooks = await run_in_threadpool(self._read_hooks)
        return await self.renderer.answer(
            request, "webhooks.html.j2", hooks=hooks, tested=tested or {}
        )

    def _read_hooks(self) -> list[Hook]:
        sent = self.service.dispatcher.deliveries()
        with Outbox.open(gates_path(self.service.gates.store_dir)) as outbox:
            return [
                Hook(webhook, outbox.endpoint(webhook.name), sent.get(webhook.name, []))
                for webhook in self.settings.webhooks
            ]

    async def health(self, request: Request) -> Response:
        """Show whether each part works, and the counts of the server."""
        service = self.service
        checks = {name: metrics.holds(name, check) for name, check in service.checks().items()}
        groups = await run_in_threadpool(_groups, service.instruments())
        return await self.renderer.answer(
            request,
            "health.html.j2",
            checks=checks,
            groups=groups,
            log_bytes=service.log.bytes,
            log_bytes_max=service.log.bytes_max,
            log_spans=service.log.spans,
        )


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
    count = max(
        (number for values, number in numbers.items() if values != (metrics.SUM,)), default=0
    )
    return {(f"on average, of {count:.0f}",): numbers[metrics.SUM,] / count} if count else {}


def _with_unit(name: str, number: float) -> str:
    """Write a number with the unit at the end of its instrument's name."""
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
