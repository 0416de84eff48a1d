"""The section `page` of the settings: the links of a server's page, and its sign-in."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from looptrace.analyzer.text.addresses import address_of
from looptrace.rules.contract import check_bounds, numbers, refuse, setting

URL_CHARS_MAX = 2_000
TRACE, SPAN, SESSION = "{trace_id}", "{span_id}", "{session}"
_URL = re.compile(r"https?://[A-Za-z0-9\[][!#-;=?-~]*")


@dataclass(frozen=True, slots=True)
class PageSettings:
    """Settings of the page of a server."""

    trace_url: Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)] = setting(
        "", doc=f"Link to a trace in the tracing system, with {TRACE}, {SPAN} or {SESSION} in it."
    )
    url: Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)] = setting(
        "", doc="Address of the page for people; webhooks link to its gates."
    )
    sign_in_hours: int = setting(
        168, ge=1, le=8_760, doc="Hours for which a browser stays signed in."
    )

    def __post_init__(self) -> None:
        check_bounds("page", numbers(self))
        refuse(self._problems())

    def _problems(self) -> Iterator[str]:
        if self.trace_url and not _URL.fullmatch(self.trace_url):
            yield "page.trace_url must be an https:// or http:// address."
        if self.url and not address_of(self.url):
            yield "page.url must be an https:// or http:// address."
