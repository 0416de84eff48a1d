"""A sampler that lets looptrace see the spans that the provider's own sampler drops.

A dropped span reaches no processor (OpenTelemetry's specification, Trace SDK, Sampling). A span
that is recorded and not sampled reaches all of them, and the exporters' processors leave it out.
"""

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind
from opentelemetry.trace.span import TraceState
from opentelemetry.util.types import Attributes


class WatchingSampler(Sampler):
    """Decides as another sampler does, but records what that one drops."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Return the decision; a span that would be dropped is recorded and not sampled."""
        result = self._sampler.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )
        if result.decision is not Decision.DROP:
            return result
        # What is dropped has lost its attributes.
        return SamplingResult(Decision.RECORD_ONLY, attributes, result.trace_state)

    def get_description(self) -> str:
        """Return the other sampler's description."""
        return f"WatchingSampler({self._sampler.get_description()})"
