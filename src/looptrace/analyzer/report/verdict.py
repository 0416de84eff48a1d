"""The verdict, and how much it rests on, so that silence is not taken for health."""

from collections.abc import Sequence

from looptrace.analyzer.detect.loops import CountedLoop
from looptrace.analyzer.engine.analysis import Analysis, Unknown
from looptrace.analyzer.normalize.understanding import Understood
from looptrace.analyzer.report.wording import NAME_LENGTH_MAX, counted, events_by_task
from looptrace.analyzer.schema.span_fields import Shape
from looptrace.analyzer.text.display import plain

# Shapes of spans that are shown, and the keys of each.
SHAPES_SHOWN_MAX = 5
_KEYS_SHOWN_MAX = 12
# Sources without spans that are named.
SOURCES_SHOWN_MAX = 5
# An agent with tools has about a call for each response; other spans of a program are fewer.
CALLS_PER_RESPONSE_MIN = 0.5
WHAT_TO_DO = "Name your keys in [attributes] of looptrace.toml (docs/dialects.md)"
_HOW_TO_SEE = "`looptrace analyze PATH --explain-span ID` shows what a span is read as."
_WHERE_RESULTS_ARE = (
    "switch on your framework's capture of content, or name the keys of results in [attributes] of "
    "looptrace.toml (docs/dialects.md)"
)


def warning_text(analysis: Analysis) -> str:
    """Write what makes a report without loops worth little; "" if nothing does.

    Where nothing at all was checked, the verdict says it.
    """
    unknown = analysis.summary.unknown
    if not analysis.summary.turns:
        return ""
    if little := little_text(analysis.understood):
        return little
    if unknown.calls and unknown.results == unknown.calls:
        return (
            f"Hardly watched: none of {counted(unknown.calls, 'tool turn')} has a result, so that "
            f"no rule could compare outcomes: {_WHERE_RESULTS_ARE}."
        )
    seen = analysis.understood
    if not unknown.calls and seen.unread > seen.turns * CALLS_PER_RESPONSE_MIN:
        return (
            f"Hardly watched: no call of a tool was found, and {counted(seen.unread, 'span')} that "
            f"may be calls {'was' if seen.unread == 1 else 'were'} not understood: "
            f"{shapes_text(seen.shapes)}. {WHAT_TO_DO}."
        )
    return ""


def little_text(seen: Understood) -> str:
    """Write that less was understood than a guard needs; "" if it is enough."""
    if not seen.is_little:
        return ""
    share = f"{seen.share or 0.0:.0%}".replace("%", " %")
    return (
        f"Hardly watched: {seen.unread:,} of {counted(seen.spans, 'span')} were not understood, "
        f"and only {share} of what is no structure was: {shapes_text(seen.shapes)}. {WHAT_TO_DO}."
    )


def verdict(analysis: Analysis, groups: Sequence[CountedLoop]) -> str:
    """Write the result in one line."""
    if nothing := nothing_text(analysis):
        return nothing
    outages = counted(len(analysis.outages), "outage") if analysis.outages else ""
    if not groups:
        return f"No loops found; {outages}." if outages else "No loops found."
    tasks = len({finding.task for finding in analysis.own})
    loops = f"{counted(len(groups), 'loop')} in {tasks:,} of"
    gates = sum(events.gate is not None for events in events_by_task(analysis.events).values())
    is_open = f"; {counted(gates, 'gate')} open" if gates else ""
    of_outages = f"; {outages}" if outages else ""
    return f"{loops} {counted(analysis.summary.tasks, 'task')}{of_outages}{is_open}."


def nothing_text(analysis: Analysis) -> str:
    """Write what the input is if no turn is in it, because silence about it is no result.

    Empty if there is a turn.
    """
    summary = analysis.summary
    if summary.turns:
        return ""
    if summary.spans:
        seen = analysis.understood
        shapes = shapes_text(seen.shapes + seen.known_shapes)
        agents = f"{counted(seen.agents, 'span')} of agents" if seen.agents else ""
        return (
            f"Nothing was checked: of {counted(summary.spans, 'span')} none is a turn of an agent"
            " in a dialect that looptrace knows. There are:"
            f" {'; '.join(filter(None, [agents, shapes]))}. {WHAT_TO_DO}."
        )
    what = [f"{plain(part.where, NAME_LENGTH_MAX)}: {part.why}" for part in analysis.empty]
    if len(what) > SOURCES_SHOWN_MAX:
        what[SOURCES_SHOWN_MAX:] = [counted(len(what) - SOURCES_SHOWN_MAX, "other source")]
    return f"Nothing was checked: no span was read{'; '.join(['', *what])}."


def understood_lines(analysis: Analysis) -> list[str]:
    """Write how much was understood, and what was not."""
    seen = analysis.understood
    if analysis.summary.spans and not seen.spans:
        lines = ["How much was understood was not looked at, because the store is remote."]
        return lines + _unknown_lines(analysis.summary.unknown)
    of = "" if seen.spans == analysis.summary.spans else " that were looked at"
    lines = seen_lines(seen, of) + _unknown_lines(analysis.summary.unknown)
    if seen.incomplete:
        lines.append(
            f"{counted(seen.incomplete, 'trace')} {'lacks' if seen.incomplete == 1 else 'lack'} "
            "parents of spans: a sampler, a filter or a lost export may hide what the agent did."
        )
    if seen.differing_tokens:
        lines.append(
            f"The usage of runs and the sum of their responses differ by {seen.differing_tokens:,} "
            "tokens: the larger counts."
        )
    return [*lines, _HOW_TO_SEE] if seen.unread else lines


def seen_lines(seen: Understood, of: str = "") -> list[str]:
    """Write what the spans became, and how those look that were not understood."""
    if not seen.spans:
        return []
    turns = "turn" if seen.turns == 1 else "turns"
    agents = "agent" if seen.agents == 1 else "agents"
    parts = [
        f"{count:,} {what}"
        for count, what in (
            (seen.turns, turns),
            (seen.parts, "within turns"),
            (seen.agents, agents),
            (seen.structure, "structure"),
            (seen.unread, "not understood"),
        )
        if count
    ]
    lines = [f"{counted(seen.spans, 'span')}{of}: {', '.join(parts)}."]
    if seen.unread:
        lines.append(f"Not understood: {shapes_text(seen.shapes)}. {WHAT_TO_DO}.")
    return lines


def shapes_text(shapes: Sequence[tuple[Shape, int]]) -> str:
    """Write `acme.tool (scope acme, 24 spans; attributes acme.args, acme.name)` for each shape."""
    shown = [_shape_text(*pair) for pair in shapes[:SHAPES_SHOWN_MAX]]
    others = len(shapes) - SHAPES_SHOWN_MAX
    return "; ".join(shown) + (f"; and {counted(others, 'other shape')}" if others > 0 else "")


def _shape_text(shape: Shape, spans: int) -> str:
    scope = f"scope {plain(shape.scope, NAME_LENGTH_MAX)}" if shape.scope else "no scope"
    keys = [plain(key, NAME_LENGTH_MAX) for key in shape.keys[:_KEYS_SHOWN_MAX]]
    keys += ["…"] if len(shape.keys) > _KEYS_SHOWN_MAX else []
    of_keys = f"; attributes {', '.join(keys)}" if keys else "; no attributes"
    name = plain(shape.name, NAME_LENGTH_MAX)
    return f"{name} ({scope}, {counted(spans, 'span')}{of_keys})"


def _unknown_lines(unknown: Unknown) -> list[str]:
    missing = (
        (unknown.arguments, "arguments", "calls"),
        (unknown.results, "results", "outcomes"),
    )
    return [
        f"{counted(count, 'tool turn')} {'carries' if count == 1 else 'carry'} no {what}:"
        f" no rule could compare their {compared}."
        for count, what, compared in missing
        if count
    ]
