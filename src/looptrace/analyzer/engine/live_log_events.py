"""Events of log records on their way to their spans, while both arrive in any order.

A record that comes before its span waits for it. A span that has come is kept as it was read for a
while, so that it can be said again with a record that comes later.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from looptrace.analyzer.schema.distinct_spans import is_logged, logged_in, with_logged
from looptrace.analyzer.schema.spans import SpanRow, chars_held

# Characters of the spans that are kept for records that come later, and of the records that wait.
# Beyond this, the oldest go. An SDK sends both within five seconds.
KEPT_CHARS_MAX = 16 << 20
WAITING_CHARS_MAX = 16 << 20

_Key: TypeAlias = tuple[str, str]  # the ids of trace and span


class _Kept(NamedTuple):
    """A span that may still get events, and the characters that it takes."""

    row: SpanRow
    chars: int


class LogEvents:
    """The events that wait for their spans, and the spans that may still get some."""

    def __init__(self) -> None:
        self.lost = 0  # records whose span did not come in time
        self._waiting: OrderedDict[_Key, list[SpanRow]] = OrderedDict()
        self._waiting_chars = 0
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._kept_chars = 0
        self._old: set[_Key] = set()  # spans that records waited for at the last `forget`

    def joined(self, rows: Iterable[SpanRow]) -> list[SpanRow]:
        """Return the spans among rows with what is known of them, and earlier ones with more."""
        spans: list[SpanRow] = []
        logged: dict[_Key, list[SpanRow]] = {}
        for row in rows:
            if is_logged(row):
                logged.setdefault((row[0], row[1]), []).append(row)
            else:
                spans.append(row)
        again: list[SpanRow] = []
        for key, events in logged.items():
            if before := self._kept.get(key):
                again.append(with_logged(before.row, events))
                self._keep(key, again[-1], chars_held(again[-1]))
            else:
                self._wait(key, events)
        return [*again, *map(self._with_known, spans)]

    def forget(self) -> None:
        """Drop the records that have waited for their spans since the last call."""
        for key in self._old & self._waiting.keys():
            self._drop(key)
        self._old = set(self._waiting)

    def _with_known(self, row: SpanRow) -> SpanRow:
        """Return a span with the events that waited for it, and those of a copy of it."""
        key = row[0], row[1]
        events, before = self._waiting.pop(key, []), self._kept.get(key)
        self._waiting_chars -= sum(map(chars_held, events))
        if before:
            events += logged_in(before.row)
        if events:
            row = with_logged(row, events)
        chars = chars_held(row)
        if not before or (row[5], chars) >= (before.row[5], before.chars):
            self._keep(key, row, chars)
        return row

    def _keep(self, key: _Key, row: SpanRow, chars: int) -> None:
        if before := self._kept.pop(key, None):
            self._kept_chars -= before.chars
        self._kept[key] = _Kept(row, chars)
        self._kept_chars += chars
        while self._kept_chars > KEPT_CHARS_MAX:
            self._kept_chars -= self._kept.popitem(last=False)[1].chars

    def _wait(self, key: _Key, events: list[SpanRow]) -> None:
        self._waiting.setdefault(key, []).extend(events)
        self._waiting_chars += sum(map(chars_held, events))
        while self._waiting_chars > WAITING_CHARS_MAX:
            self._drop(next(iter(self._waiting)))

    def _drop(self, key: _Key) -> None:
        events = self._waiting.pop(key)
        self._waiting_chars -= sum(map(chars_held, events))
        self.lost += len(events)
