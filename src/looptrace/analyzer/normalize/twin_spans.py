"""Twin spans of two instrumentations that record the same call, merged into the outer span.

A span of no kind may be a call as well, if a model asked for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from looptrace.analyzer.normalize.span_tree import SpanTree
from looptrace.analyzer.schema.message import ToolCall
from looptrace.analyzer.schema.span_fields import SpanFields

SpanKey = tuple[str, str]  # trace_id, span_id


def merge_twins(fields: list[SpanFields], tree: SpanTree) -> list[SpanFields]:
    """Merge a span into its ancestor if another instrumentation recorded the same thing there.

    That is a tool's span within a span of the same call, or a model's within a model's. Each span
    adds what the other does not know. A failure that either of them saw is kept.
    """
    by_key = {(span.trace_id, span.span_id): span for span in fields}
    twins = {key: twin for key, span in by_key.items() if (twin := twin_of(span, tree))}
    twins |= _copies((span for key, span in by_key.items() if key not in twins), tree)
    # A span that is still open has nothing to merge with yet.
    outermost = _lasts({key: twin for key, twin in twins.items() if twin in by_key})
    if not outermost and len(by_key) == len(fields):
        return fields
    for key, last in outermost.items():
        by_key[last] = _both(by_key[last], by_key[key])
    return [span for key, span in by_key.items() if key not in outermost]


def twin_of(span: SpanFields, tree: SpanTree) -> SpanKey | None:
    """Return the nearest ancestor that has a kind, if it records the same thing."""
    if span.parent_span_id is None or span.kind not in ("tool", "model"):
        return None
    above = tree.by_id.get((span.trace_id, span.parent_span_id))
    if above and not above.kind:
        above = next((a for a in tree.ancestors(span) if a.kind), None)
    if above and above.kind == span.kind and (span.kind == "model" or _is_same_call(above, span)):
        return above.trace_id, above.span_id
    if span.kind == "model" or span.arguments is None:
        return None
    # Agents and responses may lie between the spans of one call.
    around = (each for each in tree.ancestors(span) if each.kind == "tool")
    same = next((each for each in around if _does_same(each, span)), None)
    return (same.trace_id, same.span_id) if same else None


def calls_without_kind(
    spare: Iterable[SpanFields],
    asked: Iterable[ToolCall],
    tools: Iterable[SpanFields],
    tree: SpanTree,
) -> list[SpanFields]:
    """Return the spans of no kind that have name and arguments of a call that was asked for.

    Each call takes one. A span that lies around or within a call's own is no second one.
    """
    waiting = Counter((call.name, call.arguments) for call in asked)
    around = {(above.span_id, tool.name) for tool in tools for above in tree.ancestors(tool)}
    found: dict[str, SpanFields] = {}
    for span in sorted(spare, key=lambda s: (s.start_ns, s.span_id)):
        if not waiting[span.name, span.arguments] or (span.span_id, span.name) in around:
            continue
        above = (each for each in tree.ancestors(span) if each.name == span.name)
        if not any(each.kind == "tool" or each.span_id in found for each in above):
            waiting[span.name, span.arguments] -= 1
            found[span.span_id] = replace(span, kind="tool")
    return list(found.values())


def copy_key(span: SpanFields) -> Hashable:
    """Return what a span and its copies share; None if it has no copies."""
    if span.kind not in ("tool", "model") or span.call_id or span.start_ns == span.end_ns:
        return None
    return span.trace_id, span.kind, span.name, span.start_ns, span.end_ns, span.arguments


def _copies(spans: Iterable[SpanFields], tree: SpanTree) -> dict[SpanKey, SpanKey]:
    """Return the copies of spans, each with the span that it repeats.

    BeeAI's instrumentation wrote a run when it ended, and again within each run around it, as that
    ended. So the parent of the one is above the other too; calls at one time have one parent.
    """
    alike: dict[Hashable, list[SpanFields]] = defaultdict(list)
    for span in spans:
        if key := copy_key(span):
            alike[key].append(span)
    found: dict[SpanKey, SpanKey] = {}
    for group in alike.values():
        for span in group if len(group) > 1 else ():
            above = {None, *(each.span_id for each in tree.ancestors(span))} - {span.parent_span_id}
            first = next((each for each in group if each.parent_span_id in above), None)
            found |= (
                {(span.trace_id, span.span_id): (span.trace_id, first.span_id)} if first else {}
            )
    return found


def _does_same(outer: SpanFields, inner: SpanFields) -> bool:
    same_ids = None in (outer.call_id, inner.call_id) or outer.call_id == inner.call_id
    return (outer.name, outer.arguments) == (inner.name, inner.arguments) and same_ids


def _is_same_call(outer: SpanFields, inner: SpanFields) -> bool:
    """Return whether two spans of tools show one call.

    Agents write the server before the name of a tool, `github__search`, and the server does not.
    """
    names = outer.name.lower(), inner.name.lower()
    if inner.is_part or names[0] == names[1]:
        return True
    if inner.call_id and inner.call_id == outer.call_id:
        return True
    before = names[0].removesuffix(names[1])
    is_longer = before != names[0] and not before[-1].isalnum()
    return is_longer and inner.arguments in (None, outer.arguments)


def _lasts(following: dict[SpanKey, SpanKey]) -> dict[SpanKey, SpanKey]:
    """Return the last key that follows each key; a key that leads into a circle has none."""
    found: dict[SpanKey, SpanKey | None] = {}
    for start in following:
        key, passed = start, {start: None}
        while key in following and key not in found:
            key = following[key]
            if key in passed:
                break
            passed[key] = None
        last = found.get(key) if key in following else key
        found |= {each: last for each in passed if each in following}
    return {key: last for key, last in found.items() if last is not None}


def _both(outer: SpanFields, inner: SpanFields) -> SpanFields:
    failed = True if outer.failed or inner.failed else outer.failed
    return replace(
        outer,
        failed=inner.failed if failed is None else failed,
        call_id=outer.call_id or inner.call_id,
        arguments=_known(outer.arguments, inner.arguments),
        result=_known(outer.result, inner.result),
        error_type=outer.error_type or inner.error_type,
        error=outer.error or inner.error,
        stacktrace=outer.stacktrace or inner.stacktrace,
        given=outer.given or inner.given,
        answer=outer.answer or inner.answer,
        finish_reason=outer.finish_reason or inner.finish_reason,
        compacted=outer.compacted or inner.compacted,
        differing_tokens=_known(outer.differing_tokens, inner.differing_tokens),
        **_fuller(outer, inner, ("input_tokens", "cached_tokens", "cache_write_tokens")),
        **_fuller(outer, inner, ("output_tokens", "reasoning_tokens")),
    )


def _fuller(outer: SpanFields, inner: SpanFields, names: Sequence[str]) -> dict[str, int | None]:
    """Return a whole and its parts from the span that knows more of them."""
    told = [{name: getattr(span, name) for name in names} for span in (outer, inner)]
    return max(told, key=lambda counts: sum(count is not None for count in counts.values()))


def _known(first: Any, second: Any) -> Any:
    return second if first is None else first
