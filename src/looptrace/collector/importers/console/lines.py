"""Spans that SDKs print as text, as JSON of the form that `spans` reads.

- JavaScript: `console.dir` of an object (`javascript`)
- .NET: `ConsoleActivityExporter`, opentelemetry-dotnet 1.4 to 1.15
- Java: `LoggingSpanExporter`, opentelemetry-java 054967e; it prints neither times nor parents nor
  status. Its lines are placed STEP_NS apart, at the time of day that the log may show before them.
  `OtlpJsonLoggingSpanExporter` (16d0dd9) writes JSON behind the beginning of a log line.

All else stays as it is.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from looptrace.collector.importers.console.javascript import begins_span, inspected
from looptrace.collector.importers.spans import NS_PER_S
from looptrace.collector.otlp.frames import Frame
from looptrace.collector.otlp.span_rows import BadSpanError, time_ns_of

# The distance between spans that are printed without a time.
STEP_NS = 1_000_000

_LOGGED_JSON = re.compile(rb'[^{"]{1,400}(\{"resource(?:Spans)?":.*\})\s*$', re.DOTALL)
# The line that the loggers of Java put above a message.
_JAVA_HEAD = re.compile(rb"[^{]*\bio\.opentelemetry\.exporter\.logging\.\S+ export\s*")
_JAVA = re.compile(
    r"(?P<before>.{0,400}?)'(?P<name>.*)' : (?P<trace>[0-9a-f]{32}) (?P<span>[0-9a-f]{16})"
    r" (?P<kind>[A-Z]+) \[tracer: (?P<scope>[^\]]*?):[^:\]]*\]\s*"
    r"(?:AttributesMap\{data=\{(?P<attributes>.*)\}, capacity=\d+, totalAddedValues=\d+\}"
    r"|\{(?P<plain>.*)\})",
    re.DOTALL,
)
# Values have no quotes: the next key is what looks like the name of an attribute.
_JAVA_NEXT = re.compile(r",\s(?=[A-Za-z_][\w.\-]*=)")
_JAVA_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,:]\d+)?")

_NET_BEGIN = b"Activity.TraceId:"
_NET_LINE = re.compile(
    r"(Activity\.\w+|StatusCode|[A-Z][^:]*(?:Activity|ActivitySource\)?)):\s*(.*)"
)
_NET_FIELDS = {
    "Activity.TraceId": "traceId",
    "Activity.SpanId": "spanId",
    "Activity.ParentSpanId": "parentSpanId",
    "Activity.ParentId": "parentSpanId",
    "Activity.DisplayName": "name",
    "Activity.StartTime": "startTime",
    "Activity.Duration": "duration",
    "Activity.ActivitySourceName": "scope",
    "StatusCode": "code",
    "Activity.StatusDescription": "message",
}
_NET_EVENT = re.compile(r"(?P<name>.*) \[(?P<time>[^\]]*)\]")
_NET_DURATION = re.compile(r"(?:(\d+)\.)?(\d+):(\d+):(\d+)(\.\d+)?")
_S_UNITS = (86400, 3600, 60, 1)

_encode = msgspec.json.encode


def with_printed_spans(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yield the documents of a source; one that is a printed span becomes JSON."""
    activity: _Activity | None = None
    printed = 0
    for frame in frames:
        if activity is not None:
            if activity.takes(frame):
                continue
            yield activity.frame()
            activity = None
        if frame.data[:2] in (b'{"', b"[{"):
            yield frame
        elif frame.data.lstrip().startswith(_NET_BEGIN):
            activity = _Activity(frame)
        elif not _JAVA_HEAD.fullmatch(frame.data):
            printed += 1
            yield _as_json(frame, printed)
    if activity is not None:
        yield activity.frame()


def _as_json(frame: Frame, printed: int) -> Frame:
    """Return a printed span as JSON, the so-many-th text of its source; anything else as it is."""
    if begins_span(frame.data):
        return _javascript(frame)
    if (logged := _LOGGED_JSON.match(frame.data)) is not None:
        return replace(frame, data=logged[1])
    span = _java(frame.data, printed)
    return frame if span is None else replace(frame, data=_encode(span))


def _javascript(frame: Frame) -> Frame:
    """Return a span that Node.js printed; the reader of documents may have cut its last bracket."""
    text = frame.data.decode(errors="replace").rstrip()
    for ending in ("", "\n}"):
        try:
            return Frame(frame.number, _encode(inspected(text + ending)))
        except BadSpanError:
            continue
    return frame


def _java(data: bytes, printed: int) -> dict[str, Any] | None:
    """Return a span of Java's log, the so-many-th of its source; None for any other text."""
    if b" [tracer: " not in data:
        return None
    match = _JAVA.fullmatch(data.decode(errors="replace").strip())
    if match is None:
        return None
    shown = _JAVA_TIME.search(match["before"])
    at_ns = time_ns_of(_point(shown[0]) + "Z") if shown else None
    at_ns = (at_ns or NS_PER_S) + printed * STEP_NS
    pairs = (
        pair.partition("=")
        for pair in _JAVA_NEXT.split(match["attributes"] or match["plain"] or "")
        if pair
    )
    return {
        "traceId": match["trace"],
        "spanId": match["span"],
        "name": match["name"],
        "startTime": divmod(at_ns, NS_PER_S),
        "endTime": divmod(at_ns, NS_PER_S),
        "scope": {"name": match["scope"]},
        "attributes": {key: value for key, _, value in pairs},
    }


def _point(time: str) -> str:
    """Return a time of a log as ISO 8601 has it: `10:00:01:500` is half a second past."""
    day, clock = time[:10], time[11:]
    return f"{day}T{clock[:8]}" + (f".{clock[9:]}" if len(clock) > 8 else "")


class _Activity:
    """A span of .NET while its lines are read."""

    def __init__(self, frame: Frame) -> None:
        self._number = frame.number
        self._fields: dict[str, str] = {}
        self._sections: dict[str, list[list[str]]] = {}  # indented lines by the line above them
        self._section = ""
        self._is_over = False
        self.takes(frame, is_first=True)

    def takes(self, frame: Frame, *, is_first: bool = False) -> bool:
        """Take the next block of the source; returns whether it belongs to this span."""
        lines = frame.data.decode(errors="replace").rstrip().splitlines()
        head = lines[0].strip() if lines else ""
        if not is_first and (self._is_over or frame.data.lstrip().startswith(_NET_BEGIN)):
            return False
        if not is_first and _NET_LINE.match(head) is None and not self._section:
            return False
        base = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
        for line in lines:
            self._take(line, base)
        # A blank line ends a span.
        self._is_over = self._section.startswith("Resource")
        return True

    def _take(self, line: str, base: int) -> None:
        indent = len(line) - len(line.lstrip()) - base
        match = _NET_LINE.fullmatch(line.strip())
        if match is not None and (indent <= 0 or match[1] in _NET_FIELDS):
            if name := _NET_FIELDS.get(match[1]):
                self._fields[name] = match[2]
                self._section = ""
            else:
                self._section = match[1]
        elif self._section and indent > 0:
            self._sections.setdefault(self._section, []).append([line.strip(), str(indent)])
        elif self._sections.get(self._section):  # A value with several lines.
            self._sections[self._section][-1][0] += f"\n{line}"

    def frame(self) -> Frame:
        """Return the span as JSON."""
        fields = self._fields
        scope = self._pairs("Instrumentation scope (ActivitySource)").get("Name")
        start_ns = time_ns_of(fields.get("startTime", "")) or 0
        length = _NET_DURATION.fullmatch(fields.get("duration", ""))
        length_s = 0.0
        if length is not None:
            parts = zip(_S_UNITS, length.groups()[:4], strict=True)
            length_s = sum(unit * int(part or 0) for unit, part in parts) + float(length[5] or 0)
        span = {
            **{name: fields.get(name) for name in ("traceId", "spanId", "parentSpanId", "name")},
            "startTime": divmod(start_ns, NS_PER_S),
            "endTime": divmod(start_ns + round(length_s * NS_PER_S), NS_PER_S),
            "status": {"code": fields.get("code"), "message": fields.get("message")},
            "scope": {"name": scope or fields.get("scope")},
            "attributes": self._pairs("Activity.Tags"),
            "events": list(self._events(start_ns)),
            "resource": {"attributes": self._pairs("Resource associated with Activity")},
        }
        return Frame(self._number, _encode(span))

    def _pairs(self, section: str) -> dict[str, str]:
        return dict(_pair(line) for line, _ in self._sections.get(section, ()))

    def _events(self, start_ns: int) -> Iterator[dict[str, Any]]:
        event: dict[str, Any] | None = None
        for line, _ in self._sections.get("Activity.Events", ()):
            head = _NET_EVENT.fullmatch(line)
            if head is not None:
                if event is not None:
                    yield event
                # Its time is in the words of the machine's culture.
                event = {
                    "name": head["name"],
                    "timestamp": divmod(start_ns, NS_PER_S),
                    "attributes": {},
                }
            elif event is not None:
                event["attributes"].update([_pair(line)])
        if event is not None:
            yield event


def _pair(line: str) -> tuple[str, str]:
    key, _, value = line.partition(": ")
    return key, value
