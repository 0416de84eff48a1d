"""The list of incidents: its filter, its pages, and what one may choose from."""

from collections.abc import Sequence
from dataclasses import dataclass

from looptrace.collector.page.worklist.filters import ListFilter, choices_of
from looptrace.collector.store.gate_file.incidents import Incident

ROWS_A_PAGE = 100


@dataclass(frozen=True, slots=True)
class IncidentFilter(ListFilter):
    """The filter of the list of incidents."""

    state: str = ""
    service: str = ""
    agent: str = ""

    def leaves(self, incident: Incident) -> bool:
        """Return whether it leaves an incident in."""
        asked = (self.state, self.service, self.agent)
        own = (incident.state, incident.service, incident.agent)
        if any(value and value != of_it for value, of_it in zip(asked, own, strict=True)):
            return False
        said = (incident.owner or "", incident.said_by or "", incident.why or "")
        about = (incident.id, incident.title, incident.reason, incident.tool, incident.signature)
        text = " ".join((*about, *own, *said, *incident.versions)).lower()
        return all(word in text for word in self.words)


@dataclass(frozen=True, slots=True)
class IncidentListPage:
    """A page of the matching incidents, and the possible values of the filter."""

    rows: Sequence[Incident]
    first: int  # incidents before these
    total: int  # that match
    choices: dict[str, list[str]]

    @property
    def has_more(self) -> bool:
        """Whether there are incidents after these."""
        return self.first + len(self.rows) < self.total


def page_of(incidents: Sequence[Incident], wanted: IncidentFilter) -> IncidentListPage:
    """Return the page that a filter asks for, in the order of the incidents."""
    fitting = [incident for incident in incidents if wanted.leaves(incident)]
    first = (wanted.page - 1) * ROWS_A_PAGE
    choices = {
        "service": choices_of(incident.service for incident in incidents),
        "agent": choices_of(incident.agent for incident in incidents),
    }
    return IncidentListPage(fitting[first : first + ROWS_A_PAGE], first, len(fitting), choices)
