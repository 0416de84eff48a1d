"""The bodies of the HTTP API, which the server writes, its client reads, and OpenAPI describes."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from looptrace.analyzer.gates.decisions import Decision
from looptrace.analyzer.gates.events import GateEvent, TaskStatus
from looptrace.analyzer.gates.incidents import SAID
from looptrace.analyzer.gates.notes import ResolutionNote
from looptrace.analyzer.gates.silences import Silence
from looptrace.collector.api_paths import STREAM_NAMES_MAX
from looptrace.collector.store.gate_file.incidents import Incident
from looptrace.collector.store.gate_file.stored_gates import StoredGate

ErasureKind = Literal["session", "task", "user", "service"]
ERASURE_KINDS: tuple[ErasureKind, ...] = get_args(ErasureKind)
ErasureState = Literal["asked", "erased", "failed"]
_OR_NAME = "; if the token has a name, that one is recorded."


class ApiError(msgspec.Struct):
    """The problem, and what to do, in one line."""

    error: str


class GateList(msgspec.Struct):
    """At most 1,000 gates, the open ones first, then the newest."""

    gates: list[StoredGate]
    total: Annotated[int, Meta(description="Number of all gates.")]


class ShownGate(msgspec.Struct):
    """A gate, the event that opened it, and people's notes on similar gates."""

    gate: StoredGate
    event: GateEvent
    notes: tuple[ResolutionNote, ...]
    report: Annotated[
        msgspec.Raw,
        Meta(
            description="The output of `looptrace escalation --format json` "
            "(docs/escalation.schema.json); null until the turns are in the store.",
            extra_json_schema={"type": ["object", "null"]},
        ),
    ]


class GateAnswer(msgspec.Struct):
    """A gate, with its decision."""

    gate: StoredGate


class IncidentDecisionBody(msgspec.Struct, forbid_unknown_fields=True):
    """One decision on all open gates of an incident."""

    # The store has the list of decisions; its error names the nearest one.
    decision: Annotated[str, Meta(extra_json_schema={"enum": list(get_args(Decision))})]
    note: Annotated[
        str | None, Meta(description="Note for the agent, and for people who get this loop again.")
    ] = None
    who: Annotated[str | None, Meta(description=f"Who decides{_OR_NAME}")] = None


class DecisionBody(IncidentDecisionBody):
    """The decision on a gate."""

    add: Annotated[
        float | None,
        Meta(
            description="What a gate of `[budgets]` adds to its budget, in tokens or money; null "
            "for as much as the limit."
        ),
    ] = None


class IncidentList(msgspec.Struct):
    """At most 1,000 incidents: those that need somebody first, then the newest."""

    incidents: list[Incident]
    total: Annotated[int, Meta(description="Number of all incidents.")]


class IncidentAnswer(msgspec.Struct):
    """An incident, with what was said of it."""

    incident: Incident


class WordBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a person says of an incident."""

    state: Annotated[str | None, Meta(extra_json_schema={"enum": [*SAID, None]})] = None
    until_ns: Annotated[int | None, Meta(description="End of a mute.")] = None
    owner: Annotated[str | None, Meta(description="Its owner; empty for nobody.")] = None
    why: Annotated[str | None, Meta(description="The reason, for people.")] = None
    who: Annotated[str | None, Meta(description=f"Who sets it{_OR_NAME}")] = None


class DecidedGates(msgspec.Struct):
    """The gates that a decision on an incident ended."""

    gates: Annotated[list[str], Meta(description="Their ids.")]


class SilenceList(msgspec.Struct):
    """The silences that hold, the first to end first."""

    silences: list[Silence]


class SilenceAnswer(msgspec.Struct):
    """A silence."""

    silence: Silence


class SilenceBody(msgspec.Struct, forbid_unknown_fields=True):
    """A silence to make. A gate must match all that is given, and something must be."""

    ends_ns: Annotated[int, Meta(description="Its end.")]
    why: Annotated[str, Meta(description="The reason, for people.")]
    rule: Annotated[str, Meta(description="Only gates of this rule.")] = ""
    tool: Annotated[str, Meta(description="Only gates of loops that call this tool.")] = ""
    agent: Annotated[str, Meta(description="Only gates of this agent.")] = ""
    service: Annotated[str, Meta(description="Only gates of this service (service.name).")] = ""
    incident: Annotated[str, Meta(description="Only gates of the incident with this id.")] = ""
    who: Annotated[str | None, Meta(description=f"Who makes it{_OR_NAME}")] = None


_NAMES = Meta(max_length=STREAM_NAMES_MAX)
# Ten years, longer than a process waits.
WAIT_S_MAX = 315_360_000


class FollowBody(msgspec.Struct, forbid_unknown_fields=True):
    """The tasks and traces on which the process behind a stream works."""

    tasks: Annotated[list[str], _NAMES, Meta(description="Tasks or sessions to follow.")] = []
    traces: Annotated[
        list[str], _NAMES, Meta(description="Ids, in hex, of the traces of the process.")
    ] = []
    dropped: Annotated[list[str], _NAMES, Meta(description="Traces to follow no longer.")] = []
    service: Annotated[
        str | None, Meta(description="Service (`service.name`) of the sessions.")
    ] = None
    waiting: Annotated[
        dict[str, Annotated[float, Meta(ge=0, le=WAIT_S_MAX)]],
        _NAMES,
        Meta(
            description="All tasks, sessions and traces for whose gate the process waits now, each "
            "with the seconds since when."
        ),
    ] = {}
    host: Annotated[
        str | None, Meta(description="Name of its machine, in at most 120 characters.")
    ] = None
    ends: Annotated[
        bool, Meta(description="Whether the process ends, and its tasks and traces with it.")
    ] = False


class FollowAnswer(msgspec.Struct):
    """The number of names of a stream."""

    followed: int


class ShownTask(msgspec.Struct):
    """The state of a task."""

    task: str
    status: TaskStatus
    loop_count: int
    pivots: Annotated[int, Meta(description="New approaches that were asked for.")]
    turns: Annotated[int, Meta(description="Steps that are in the store.")]
    attempts: Annotated[int, Meta(description="Attempts that the agent recorded.")]
    last_attempt: Annotated[str | None, Meta(description="End of the last attempt, ISO 8601.")]
    last_status: str | None
    last_blockers: Annotated[
        str | None, Meta(description="As it was recorded, usually a list in JSON.")
    ]
    gates: list[StoredGate]


class ListedTask(msgspec.Struct):
    """A task in a list."""

    task: str
    status: TaskStatus
    loop_count: int
    pivots: Annotated[int, Meta(description="New approaches that were asked for.")]
    service: str
    agents: list[str]
    turns: Annotated[int, Meta(description="Steps that are in the store.")]
    last_turn: Annotated[str | None, Meta(description="End of the last of them, ISO 8601.")]
    waits_since: Annotated[
        str | None,
        Meta(description="Since when its last call waits for a person or an approval, ISO 8601."),
    ] = None


class TaskList(msgspec.Struct):
    """At most 1,000 tasks: those that wait for a person first, then the most recently active."""

    tasks: list[ListedTask]
    total: Annotated[int, Meta(description="Number of all tasks.")]


class Readiness(msgspec.Struct):
    """Whether each part works."""

    checks: Annotated[
        dict[str, bool], Meta(description="The parts are `detection`, `storing` and `log`.")
    ]
    backlog_spans: Annotated[
        int, Meta(description="Spans from before the start on which the rules have not run yet.")
    ]
    spending_age_s: Annotated[
        dict[str, float],
        Meta(description="By other server, the age of its last sums of the budgets of all."),
    ]


@dataclass(frozen=True, slots=True)
class WarmingTask:
    """An active task, and its rule that is one attempt short of a loop."""

    task: str
    agent: str
    service: str
    last_ns: int
    rule: str
    attempts: int
    needed: int


class WarmingList(msgspec.Struct):
    """Tasks without a loop yet, the most recently active first."""

    tasks: list[WarmingTask]


class Erasure(msgspec.Struct, frozen=True):
    """An erasure: whose, how far it is, and the rows that were erased, by table."""

    id: str
    state: ErasureState
    kind: ErasureKind
    who: str | None = None
    rows: dict[str, int] = {}
    copies: list[str] = []
    error: str | None = None
    asked_ns: int = 0


class ErasureBody(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be erased: whose, and the name."""

    kind: ErasureKind
    name: Annotated[str, Meta(min_length=1, max_length=4096)]
