"""Warnings about a set-up with which looptrace watches nothing or little in a process.

Each warning comes once, and says what to do. Without it, nobody would notice before the first loop
that an agent is not watched.
"""

from __future__ import annotations

import logging
from collections import Counter

from opentelemetry.sdk.trace import ReadableSpan

from looptrace.analyzer.fields.dialect_table import SHIPPED, split
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.sdk.open_spans import OpenSpans

_logger = logging.getLogger(__name__)

# The first steps may ask before their spans have ended.
ASKED_MIN = 3
NAMES_MAX = 1_000
NAMES_SHOWN_MAX = 5
# Attributes that name a session or a task, and those in whose JSON a part does.
_KEYS = [*map(split, SHIPPED.keys_of("session")), *map(split, SHIPPED.keys_of("task"))]
_NAMING = tuple(key for key, part in _KEYS if part is None)
_HOLDERS = frozenset(key for key, part in _KEYS if part is not None)


class SetupCheck:
    """Watches spans and checked gates for a faulty set-up; `spans` are those still open."""

    def __init__(self, spans: OpenSpans) -> None:
        self.cut = 0  # spans that had lost attributes
        self._spans = spans
        self._has_spans = False
        self._reads_all = True  # whether no span had JSON whose names are not known here
        self._names: BoundedDict[str, None] = BoundedDict(NAMES_MAX)  # of sessions and tasks
        self._asked: BoundedDict[str, int] = BoundedDict(NAMES_MAX)  # times, by task
        self._warned: Counter[str] = Counter()

    def began(self) -> None:
        """Note that a span has reached looptrace."""
        self._has_spans = True

    def ended(self, span: ReadableSpan) -> None:
        """Note the task of a span, and whether the SDK has cut it."""
        self._learn(span)
        if span.dropped_attributes:
            self.cut += 1
            self._warn(
                "cut",
                "a span has lost %d attributes to a limit of the SDK, perhaps its session or its "
                "messages: set OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=4096",
                span.dropped_attributes,
            )

    def asked(self, task: str) -> None:
        """Note that the gate of a task was checked."""
        times = self._asked[task] = self._asked.get(task, 0) + 1
        if times != ASKED_MIN:
            return
        if not self._has_spans:
            self._warn(
                "no spans",
                "looptrace has seen no span of this process, and can find no loop in it: add the "
                "processor to the provider that the agent's framework uses (`use(provider)`), or "
                "call looptrace.instrument() before the framework is set up",
            )
            return
        # The span that names the task is often the agent's, which ends last.
        for span in self._spans.all():
            self._learn(span)
        if self._reads_all and task not in self._names and not self._spans.knows(task):
            shown = ", ".join(list(self._names)[-NAMES_SHOWN_MAX:]) or "none"
            self._warn(
                "unknown task",
                "no span of this process belongs to the task %r, whose gate was checked; the spans "
                "name %s: name the gate like the spans (looptrace.task.id, "
                "gen_ai.conversation.id, session.id), unless the task runs in another process",
                task,
                shown,
            )

    def _learn(self, span: ReadableSpan) -> None:
        attributes = span.attributes or {}
        for key in _NAMING:
            if (name := attributes.get(key)) is not None:
                self._names[str(name)] = None
        self._reads_all &= _HOLDERS.isdisjoint(attributes)

    def _warn(self, fault: str, message: str, *values: object) -> None:
        self._warned[fault] += 1
        if self._warned[fault] == 1:
            _logger.warning(message, *values)
