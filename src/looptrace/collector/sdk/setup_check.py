"""Warnings about a set-up with which looptrace watches nothing or little in a process.

Each warning comes once, and says what to do. Without it, nobody would notice before the first loop
that an agent is not watched.
"""

import logging
from collections import Counter

from opentelemetry.sdk.trace import ReadableSpan

from looptrace.analyzer.fields.dialect_table import split
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.sdk.open_spans import OpenSpans, scope_of

_logger = logging.getLogger(__name__)

# The first steps may ask before their spans have ended.
ASKED_MIN = 3
NAMES_MAX = 1_000
NAMES_SHOWN_MAX = 5
SHAPE_LENGTH_MAX = 200
_OR_SERVER = (
    ", unless the server has keys of its own in [attributes]: give its file to `forward(settings=)`"
)
# Fewer spans say little: a run may begin with spans of the agent's own program.
SPANS_MIN = 20


class SetupCheck:
    """Watches spans and checked gates for a faulty set-up; `spans` are those still open."""

    def __init__(self, spans: OpenSpans) -> None:
        self.cut = 0  # spans that had lost attributes
        self.knows_keys = True  # whether no server has keys that are not known here
        self._spans = spans
        table = spans.dialects
        keys = [*map(split, table.keys_of("session")), *map(split, table.keys_of("task"))]
        # Attributes that name a session or a task, and those in whose JSON a part does.
        self._naming = [key for key, part in keys if part is None]
        self._holders = {key for key, part in keys if part is not None}
        self._has_spans = False
        self._reads_all = True  # whether no span had JSON whose names are not known here
        self._names: BoundedDict[str, None] = BoundedDict(NAMES_MAX)  # of sessions and tasks
        self._asked: BoundedDict[str, int] = BoundedDict(NAMES_MAX)  # times, by task
        self._warned: Counter[str] = Counter()
        self._read = self._unread = 0  # spans that are turns or agents, and those of no dialect
        self._around: BoundedDict[int, None] = BoundedDict(NAMES_MAX)  # have such a span within
        self._shapes: BoundedDict[str, None] = BoundedDict(NAMES_MAX)  # of those of no dialect

    def began(self) -> None:
        """Note that a span has reached looptrace."""
        self._has_spans = True

    def ended(self, span: ReadableSpan) -> None:
        """Note the task of a span, and whether the SDK has cut it."""
        self._learn(span)
        self._understand(span)
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
                "gen_ai.conversation.id, session.id), unless the task runs in another process%s",
                task,
                shown,
                self._or_server(),
            )

    def _or_server(self) -> str:
        """Return what else may be so where spans are read by a server's settings."""
        return "" if self.knows_keys else _OR_SERVER

    @property
    def counts(self) -> tuple[int, int]:
        """How many spans were understood, and how many not; structure is neither."""
        return self._read, self._unread

    def _understand(self, span: ReadableSpan) -> None:
        """Count what is understood, as `understanding` does: children end before their parents.

        Fields are not read here, so that a call of no dialect is not known by a response's request.
        """
        attributes, context = span.attributes or {}, span.context
        kind, dialect = self._spans.said_of(span)
        if kind:
            self._read += 1
            for above in self._spans.above(span):
                self._around[above.context.span_id] = None
        elif not (dialect or (context and context.span_id in self._around)):
            if any(self._spans.said_of(above)[0] == "tool" for above in self._spans.above(span)):
                return
            self._unread += 1
            shape = f"{span.name} (scope {scope_of(span)}; attributes {', '.join(attributes)})"
            self._shapes[shape[:SHAPE_LENGTH_MAX]] = None
        if self._read + self._unread >= SPANS_MIN and self._unread > self._read:
            self._warn(
                "hardly watched",
                "of the %d spans so far that may be steps of an agent, looptrace understands %d, "
                "and may miss every loop; not understood: %s. Name your keys in [attributes] of "
                "looptrace.toml, or see what is read with `looptrace analyze --explain-span`%s",
                self._read + self._unread,
                self._read,
                "; ".join(list(self._shapes)[:NAMES_SHOWN_MAX]),
                self._or_server(),
            )

    def _learn(self, span: ReadableSpan) -> None:
        attributes = span.attributes or {}
        for key in self._naming:
            if (name := attributes.get(key)) is not None:
                self._names[str(name)] = None
        self._reads_all &= self._holders.isdisjoint(attributes)

    def _warn(self, fault: str, message: str, *values: object) -> None:
        self._warned[fault] += 1
        if self._warned[fault] == 1:
            _logger.warning(message, *values)
