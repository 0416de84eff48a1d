"""The health of a server in sentences: what works, how far behind it is, what was lost."""

import time
from dataclasses import dataclass

from looptrace.analyzer.report.wording import count_text, counted, duration_text
from looptrace.collector.server import metrics
from looptrace.collector.server.service import Service

_NEVER = "This server has written nothing yet."
_PART_TEXTS = {
    "detection": (
        "Detection works.",
        "Detection does not work: gates do not open. The log of the server says why.",
    ),
    "storing": (
        "The store can be written.",
        "The store cannot be written: see whether the disk is full. Spans wait in the log.",
    ),
    "log": (
        "Spans are accepted.",
        "Spans are refused: the log is full, or cannot be written. Agents send them again.",
    ),
    "writable": ("", "The store is read-only: no span is accepted, and nobody can decide."),
}


@dataclass(frozen=True, slots=True)
class HealthLine:
    """A sentence on a part, and whether the part works."""

    text: str
    holds: bool


def lines_of(service: Service) -> list[HealthLine]:
    """Return a line for each part, with the figures that a person asks for next."""
    more = {"detection": _detection(service), "storing": _storing(service), "log": _log(service)}
    lines = []
    for name, check in service.checks().items():
        holds = metrics.holds(name, check)
        text = _PART_TEXTS[name][0 if holds else 1]
        lines.append(HealthLine(f"{text} {more.get(name, '')}".strip(), holds))
    return lines


def _detection(service: Service) -> str:
    counts = service.detector.counts
    text = f"The rules have run on {count_text(counts.spans)} spans since the start"
    if counts.backlog_spans:
        text += f", and will on {count_text(counts.backlog_spans)} from before it"
    rules = counted(counts.rules_left_out, "failing rule")
    problems = [
        f"{rules} of plug-ins left out, which the log names" if counts.rules_left_out else "",
        f"they failed on {counted(counts.failed, 'request')}" if counts.failed else "",
        f"{counted(counts.late, 'turn')} came too late" if counts.late else "",
        f"{counted(counts.tasks_evicted, 'task')} had no room" if counts.tasks_evicted else "",
    ]
    said = [problem for problem in problems if problem]
    return f"{text}; {', '.join(said)}." if said else f"{text}."


def _storing(service: Service) -> str:
    counts = service.archiver.counts
    at_s = counts.last_write_timestamp_seconds
    text = (
        f"The last write was {duration_text(max(time.time() - at_s, 1))} ago." if at_s else _NEVER
    )
    if counts.failed:
        text += f" {counted(counts.failed, 'write')} failed; each is tried again."
    if counts.damaged_files:
        text += f" {counted(counts.damaged_files, 'damaged file')} set aside."
    return text


def _log(service: Service) -> str:
    log = service.log
    share = f"{log.bytes / log.bytes_max:.0%}".replace("%", " %")
    stored = "All are in the store"
    waiting = f"{counted(log.spans, 'span')} of the log wait for the store"
    return f"{waiting if log.spans else stored}; the log is {share} full."
