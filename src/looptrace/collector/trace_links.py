"""Links into the tracing system, out of the template of the settings."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from looptrace.analyzer.settings.page import SESSION, SPAN, TRACE


@dataclass(frozen=True, slots=True)
class TraceLinks:
    """Where a trace is shown; nowhere where the settings do not say."""

    template: str

    def to(self, trace_id: str, span_id: str = "", session: str = "") -> str:
        """Return the address of a trace, of a span or of a session; empty where there is none."""
        values = {TRACE: trace_id, SPAN: span_id, SESSION: session}
        address = self.template
        for name, value in values.items():
            address = address.replace(name, quote(value, safe=""))
        return address
