"""Links into the tracing system, from the template in the settings."""

from dataclasses import dataclass
from urllib.parse import quote

from looptrace.analyzer.settings.page import SESSION, SPAN, TRACE


@dataclass(frozen=True, slots=True)
class TraceLinks:
    """Maker of links to traces; without a template it makes none."""

    template: str

    def to(self, trace_id: str, span_id: str = "", session: str = "") -> str:
        """Return the address of a trace, of a span or of a session; empty if there is none."""
        values = {TRACE: trace_id, SPAN: span_id, SESSION: session}
        address = self.template
        for name, value in values.items():
            address = address.replace(name, quote(value, safe=""))
        return address
