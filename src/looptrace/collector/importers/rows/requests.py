"""The reader of requests to a model, of which each is a record, and a conversation is many.

A gateway knows no agent: it logs requests, each with the whole conversation before it. So a request
belongs to the conversation of the one whose messages begin its own, whatever ids they have. Each
request is continued once, as two runs may begin alike.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from looptrace import semconv
from looptrace.analyzer.schema.spans import SpanRow
from looptrace.collector.importers.rows.field_maps import (
    FieldMap,
    checked_messages,
    field_maps,
    first,
)
from looptrace.collector.importers.rows.messages import messages_of, prefix_digests
from looptrace.collector.importers.spans import NS_PER_MS, foreign_row
from looptrace.collector.otlp.span_rows import DecodedSpans


@dataclass(slots=True)
class LoggedRequest:
    """A request: its span, the digests of its first messages, and the response it names."""

    span: dict[str, Any]
    prefixes: list[str]
    previous: object

    @property
    def identity(self) -> tuple[object, object]:
        """The trace and the session."""
        return self.span["trace"], self.span["attributes"].get(semconv.SESSION_ID)

    @identity.setter
    def identity(self, told: tuple[object, object]) -> None:
        self.span["trace"], session = told
        if session is not None:
            self.span["attributes"][semconv.SESSION_ID] = session


class RequestReader:
    """The reader of the requests of one source, which are in any order."""

    def __init__(self, form: FieldMap) -> None:
        """Take the form of the records."""
        self._form = form
        self._requests: list[LoggedRequest] = []

    def read(self, record: dict[str, Any], _where: str) -> DecodedSpans:
        """Keep a request. Raises one of RECORD_ERRORS."""
        span = self._form.span_of(record)
        checked_messages(span, self._form.name)
        if not span["start_ns"]:  # Requests without times are in the order of the source.
            span["start_ns"] = span["end_ns"] = NS_PER_MS * (len(self._requests) + 1)
        prefixes = prefix_digests(messages_of(first(record, self._form.input)))
        previous = first(record, self._form.continues)
        self._requests.append(LoggedRequest(span, prefixes, previous))
        return DecodedSpans()

    def rest(self) -> list[SpanRow]:
        """Return the rows of all requests, each with the conversation that it continues."""
        self._requests.sort(key=lambda request: request.span["start_ns"])
        open_requests: dict[str, list[LoggedRequest]] = defaultdict(list)
        by_id: dict[str, LoggedRequest] = {}
        for request in self._requests:
            before = by_id.get(str(request.previous)) or _continued(request, open_requests)
            if before is not None:
                request.identity = before.identity
            if request.prefixes:
                open_requests[request.prefixes[-1]].append(request)
            by_id[str(request.span["span"])] = request
        return [foreign_row(**request.span) for request in self._requests]


class LoggedReader:
    """The reader of requests that a log has among other records, which say nothing."""

    def __init__(self) -> None:
        self._readers: dict[str, RequestReader] = {}

    def read(self, record: dict[str, Any], where: str) -> DecodedSpans:
        """Keep a record that is a request. Raises one of RECORD_ERRORS."""
        forms = (form for form in field_maps()[0] if form.is_linked and form.is_record(record))
        form = next(forms, None)
        if form is None:
            return DecodedSpans()
        return self._readers.setdefault(form.name, RequestReader(form)).read(record, where)

    def rest(self) -> list[SpanRow]:
        """Return the rows of all requests."""
        return [row for reader in self._readers.values() for row in reader.rest()]


def _continued(
    request: LoggedRequest, open_requests: dict[str, list[LoggedRequest]]
) -> LoggedRequest | None:
    """Return the request that another continues, with most of its messages, and close it."""
    for prefix in reversed(request.prefixes[:-1]):
        if found := open_requests.get(prefix):
            alike = [each for each in found if each.identity == request.identity]
            before = (alike or found)[-1]
            found.remove(before)
            return before
    return None
