"""Names of calls that a person answers; a wait for a person is no hang."""

import re

# `core/data/waiting.toml` has the names of calls that wait for a machine.
PERSON_PATTERN = (
    r"(?i:human|approv|confirm|permission|consent|elicit)"
    r"|(?:^|[_.:/ -])(?i:ask|prompt|blocked[_-]on)[_.:/ -]?(?i:user|person|question|customer)"
    r"|(?:ask|prompt|Ask|Prompt)(?:User|Person|Question|Customer)"
    r"|(?i:user[_.:/ -]?(?:input|question|reply|response))|ExitPlanMode|exit_plan_mode"
)
_ASKS_PERSON = re.compile(PERSON_PATTERN)


def asks_person(name: str | None) -> bool:
    """Return whether a call of this name is answered by a person."""
    return name is not None and _ASKS_PERSON.search(name) is not None
