"""What `assert_no_loops` does: settings, spans to loops, and the words of the failure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.engine.outages import failures_of, with_outages
from looptrace.analyzer.report.ci import (
    Loops,
    baseline_of,
    check_something_was_read,
    failure_text,
)
from looptrace.analyzer.settings.given import SettingsLike, selected, settings_of
from looptrace.analyzer.settings.sections import Settings, in_force
from looptrace.collector.files.reader import SpansRead, read_spans
from looptrace.collector.otlp.sdk_spans import sdk_spans
from looptrace.errors import InputError


def chosen_of(
    settings: SettingsLike | None,
    select: Collection[str],
    ignore: Collection[str],
    environment: Mapping[str, str],
) -> Settings:
    """Return the settings that are given, or those of the current directory.

    Raises:
        InputError: if they say what cannot be, or there is no rule of a name.
    """
    chosen = in_force(None, environment) if settings is None else settings_of(settings)
    for names in (select, ignore):
        if isinstance(names, str):
            raise InputError(f"rules are a list: [{names!r}], and not {names!r}.")
    return selected(chosen, select, ignore)


def loops_in(
    traces: str | Path | Iterable[ReadableSpan], settings: Settings, baseline: str | Path | None
) -> Loops:
    """Return the loops in traces.

    Raises:
        InputError: if there is no turn, a part cannot be read, or the baseline is none.
    """
    if isinstance(traces, str | Path):
        spans_read = read_spans([str(traces)])
    else:
        spans_read = SpansRead(sdk_spans(traces), ())
    analysis = analyse(spans_read.spans, spans_read.skipped, settings.policy)
    if analysis.skipped:
        parts = "; ".join(f"{part.where}: {part.why}" for part in analysis.skipped)
        raise InputError(f"not all could be read, so that a loop may be missed: {parts}.")
    check_something_was_read(replace(analysis, empty=spans_read.empty))
    whole = with_outages(analysis, failures_of(analysis.turns), settings.outages)
    return Loops(whole, None if baseline is None else baseline_of(Path(baseline)))


def failure_of(loops: Loops, fail_on: str) -> str:
    """Return why a test fails; an empty text where it does not.

    Raises:
        InputError: if `fail_on` is none of the two.
    """
    fails = {"finding": bool(loops.new), "gate": loops.new_gates > 0}
    if fail_on not in fails:
        raise InputError(f"fail_on is {fail_on!r}; it must be one of {', '.join(fails)}.")
    return failure_text(loops) if fails[fail_on] else ""
