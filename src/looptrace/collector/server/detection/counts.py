"""What the detector counts; other threads read it for metrics and for trimming the log."""

from dataclasses import dataclass, field
from functools import partial

from looptrace.analyzer.normalize.understanding import NOTHING_SEEN, Understood
from looptrace.collector.server.receiver.receiver_metrics import Durations, number

# The bounds of the histogram of detections: from the next look at the log to minutes of lag.
DETECTED_BOUNDS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0)


@dataclass(slots=True)
class DetectorCounts:
    """Counts of the detector."""

    # All decisions up to this row are committed.
    seq: int = number("Row of the log up to which the rules have run.", "gauge")
    spans: int = number("Spans on which the rules have run.")
    turns: int = number("Turns on which the rules have run.")
    events: int = number("Recorded warnings, pivots, gates and resets.")
    failed: int = number("Failures of the rules on requests.")
    rules_left_out: int = number(
        "Rules of plug-ins that failed and are left out; the log names each.", "gauge"
    )
    late: int = number("Turns that came too late for live detection.")
    outages: int = number("Logged outages.")
    tasks: int = number("Tasks in memory.", "gauge")
    tasks_evicted: int = number("Tasks evicted because there were too many.")
    traces: int = number("Unfinished traces in memory.", "gauge")
    traces_dropped: int = number("Traces dropped because there were too many.")
    events_alone: int = number("Events of log records whose spans did not come in time.")
    backlog_spans: int = number(
        "Spans from before the start on which the rules have not run yet.", "gauge"
    )
    is_current: int = number(
        "1 when the rules have run on the spans from before the start.", "gauge"
    )


@dataclass(slots=True)
class Shown:
    """How much of the spans was understood, and how long detection took."""

    understood: Understood = NOTHING_SEEN
    detected: Durations = field(default_factory=partial(Durations, DETECTED_BOUNDS_S))
