"""The grammar of `looptrace.toml`: its sections and their keys, as msgspec Structs."""

from functools import cache
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from looptrace.analyzer.detect.budgets.limits import Budgets
from looptrace.analyzer.detect.budgets.rules import BUDGET_RULES
from looptrace.analyzer.detect.counters import Counting
from looptrace.analyzer.detect.persons import Persons
from looptrace.analyzer.detect.phases import METRICS, Better
from looptrace.analyzer.detect.ruleset import SELECTORS, Override
from looptrace.analyzer.engine.outages import OutageSettings
from looptrace.analyzer.fields.dialect_table import FIELDS, KINDS
from looptrace.analyzer.fingerprint.equivalence import Results, Sessions, TextMask, Tool
from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.gates.waiting import Waiting
from looptrace.analyzer.settings.judge import ChatSettings
from looptrace.analyzer.settings.outcomes.sources import OutcomeSources
from looptrace.analyzer.settings.page import PageSettings
from looptrace.analyzer.settings.prices import PriceTable
from looptrace.analyzer.settings.profiles import DEFAULT_PROFILE, LADDER, PROFILES
from looptrace.analyzer.settings.server_limits import Limits, ServiceRetention
from looptrace.analyzer.settings.shards import ShardSettings
from looptrace.analyzer.settings.tables import columns_of, numbers_of, struct, table_of
from looptrace.analyzer.settings.webhook import Webhook
from looptrace.analyzer.text.names import Name
from looptrace.rules.contract import (
    LOST_PERCENT_MAX,
    RUNG_ATTEMPTS_MAX,
    RUNGS_MAX,
    SPARED_PERCENT_MAX,
    Action,
    Rule,
)
from looptrace.rules.docs import summary
from looptrace.semconv import METRIC_PREFIX

ENABLED = "enabled"
DIRECTIVES = "directives"
MODEL = "model"
PRICES = "prices"
CONVERGES_ON, BETTER = "converges_on", "better"
MEANING = "meaning"
JUDGE = "judge"
MEASURE = "measure"

# More than a person can remember; every override that differs costs an evaluation of its rules.
OVERRIDES_MAX = 50
MASKS_MAX = 50
PHASES_MAX = 200
TOOLS_MAX = 200
KINDS_MAX = KEYS_MAX = 50
WEBHOOKS_MAX = 20
WAITING_MAX = RETENTION_MAX = 50

_MASTER = "The master switch; with false no rule runs."
_DIRECTIVES = "Folder of templates for directives, relative to the file."
_MODEL = "File of `looptrace calibrate --model` for the rule likely_failure, relative to the file."
_PRICES = (
    "Prices of models: a table of your own, or the name of a file with one, relative to this one, "
    "or `genai-prices` for the list prices of that package; [more](backtest.md#prices)."
)
_BUDGETS = (
    "What several tasks may spend together; [more](budgets.md). From 80 % on agents are warned; at "
    "the limit a gate opens for each task that goes on."
)
_RECOVERY = "How a looping task recovers, and when counts reset."
_PERSONS = "Who counts as a person; a person resets counts and resolves open gates."
_OUTAGES = "When a failure of many sessions is reported once, as an outage; [more](outages.md)."
_RULES = "Each rule: whether it runs, its thresholds, and its ladder of actions."
_OVERRIDES = (
    "Other settings of rules for matching turns. Each starts from the settings of all turns; "
    "of several that match a turn, the last wins, rule by rule."
)
_PHASES = (
    "Iterative phases. While the metric gets better, visits to the phase and transitions to "
    "it count from 1 again."
)
_MEANING = (
    "How requests to agents, and searches with one result, are compared if they are not the same "
    "word by word; without this section they are not. [More](near_sameness.md)"
)
_JUDGE = (
    "A model that is asked about gates without an exact match; without this section, none "
    "is. [More](judge.md)"
)
_TOOLS = "When calls of a tool are the same."
_RESULTS = "Keys in results that are not compared, in JSON and in lines of text."
_SESSIONS = "Which sessions are the same; a session belongs to its service (`service.name`)."
_MASKS = "Parts of results and errors that are not compared."
_WEBHOOKS = "Receivers of events; [more](webhooks.md)."
_WAITING = (
    "What happens when nobody decides on a gate; of several that match it, the first holds. "
    "[More](gates.md#waiting-has-an-end)"
)
_RETENTION = (
    "Services whose spans are kept for longer or for less time than all others. "
    "[More](server.md#how-long-things-are-kept)"
)
_OUTCOMES = (
    "What says whether a run was solved: `calibrate` learns limits by it, and a server tests what "
    "they promise. [More](calibrate.md)"
)
_PAGE = "The page of `looptrace serve`; [more](page.md)."
_SHARDS = "Several servers that share the sessions; the same on each. [More](scale.md)"
_ATTRIBUTES = (
    "Your own attributes: keys for each field. The first key of a span is read, before the known "
    "ones; a span with a key of `tool` or `model` is one. [Fields](dialects.md#fields)"
)
_KINDS = (
    "What spans are: the first entry whose conditions all hold. At least one of `key`, `name` and "
    "`scope` is needed."
)
_KIND_KEYS = {
    "key": "An attribute that the span has.",
    "name": "A pattern of the span's name, as `acme.tool *`.",
    "scope": "A pattern of the span's instrumentation scope.",
}
_SERVER = "Limits of `looptrace serve`: bytes, seconds, and how long data are kept."

# Sections with entries of a user's own, each with a valid example.
EXAMPLES = {
    "overrides": """[[overrides]]
phase = "refine"

[overrides.rules.phase_visits]
max_visits = 20
""",
    "prices": """[prices]
currency = "EUR"

[prices.models."gpt-4.1*"]
input_per_million = 1.5
output_per_million = 6
cached_per_million = 0.4
tiers = { batch = 0.5, flex = 0.5 }
""",
    "phases": """[phases.refine]
converges_on = "tests_failed"
""",
    "meaning": """[meaning]
measure = "letters"
similar_percent = 85
""",
    "judge": """[judge]
base_url = "http://localhost:8000/v1"
model = "small"
api_key_variable = "JUDGE_KEY"
decides = true
""",
    "tools": """[tools.get_status]
polling = true

[tools.search]
volatile_keys = ["session_token"]
""",
    "results": """[results]
volatile_keys = ["served_by"]
telling_keys = ["etag"]
""",
    "masks": """[[masks]]
pattern = "build-[0-9]+"
name = "<build>"
""",
    "attributes": """[attributes]
tool = ["acme.tool.name"]
arguments = ["acme.tool.input"]
result = ["acme.tool.output#data"]
session = ["acme.chat"]

[[attributes.kinds]]
scope = "acme.llm"
kind = "model"
""",
    "outcomes": """[outcomes]
evaluation = "correctness=pass"
attribute = "looptrace.task.outcome=solved"
decisions = true
""",
    "page": """[page]
trace_url = "https://jaeger.example.com/trace/{trace_id}?uiFind={span_id}"
sign_in_hours = 12
""",
    "shards": """[shards]
urls = ["http://looptrace-0.looptrace:4318", "http://looptrace-1.looptrace:4318"]
names = ["looptrace-0.looptrace:4317", "looptrace-1.looptrace:4317"]
""",
    "webhooks": """[[webhooks]]
name = "on-call"
url = "https://hooks.example.com/looptrace"
secrets = ["env:LOOPTRACE_WEBHOOK_SECRET"]
actions = ["gate"]
""",
    "retention": """[[retention]]
services = ["billing"]
days = 365
""",
    "waiting": """[[waiting]]
services = ["billing"]
remind_minutes = 15
escalate_minutes = 30
escalate_to = ["lead"]
decide_minutes = 60
default = "cancel"

[[webhooks]]
name = "lead"
url = "https://hooks.example.com/lead"
secrets = ["env:LOOPTRACE_WEBHOOK_SECRET"]
escalations_only = true
""",
}


class RungTable(Struct, forbid_unknown_fields=True):
    """One rung of a ladder."""

    attempts: Annotated[int, Meta(ge=1, le=RUNG_ATTEMPTS_MAX)]
    action: Action
    lost_percent: Annotated[
        float,
        Meta(
            ge=0,
            le=LOST_PERCENT_MAX,
            description="Of a gate at a learned limit: the share of solved runs that it loses at "
            "most, as `calibrate` promised.",
        ),
    ] = 0.0
    spared_percent: Annotated[
        int,
        Meta(
            ge=0,
            le=SPARED_PERCENT_MAX,
            description="The share of tasks in which that gate only warns, so that a server and "
            "`calibrate` can test the promise.",
        ),
    ] = 0


_LADDER = Annotated[
    tuple[RungTable, ...],
    Meta(
        min_length=1,
        max_length=RUNGS_MAX,
        description="The actions by number of attempts; attempts must rise, and no action may get "
        "weaker.",
    ),
]
_ENABLED = Annotated[bool, Meta(description="Whether the rule runs.")]
_METRIC = Annotated[
    Name,
    Meta(
        description=f"The metric: {', '.join(METRICS)}, or a metric of your own, which spans "
        f"have as `{METRIC_PREFIX}NAME`."
    ),
]
_BETTER = "Whether a metric of your own should be lower or higher."

# An override must match some turns only, and change something for them.
_OVERRIDE_NEEDS = {
    "required": ["rules"],
    "anyOf": [{"required": [name]} for name in SELECTORS],
    "properties": {"rules": {"minProperties": 1}},
}


@cache
def file_table(rules: tuple[type[Rule], ...]) -> type[Struct]:
    """Return the whole file as a table, with a table for each of these rules."""
    columns = [
        _section(f"rule_{number}", rule_table(rule), summary(rule), rule.name)
        for number, rule in enumerate(rules)
    ]
    rule_tables = struct("Rules", columns)
    override = struct("Override", [*columns_of(Override), _section("rules", rule_tables, _RULES)])
    names: Any = Literal[tuple(rule.name for rule in (*rules, *BUDGET_RULES.values()))]
    webhook = table_of("Webhook", Webhook, kinds={"rules": tuple[names, ...]})
    waiting = table_of("Waiting", Waiting, kinds={"rules": tuple[names, ...]})
    phase = struct("Phase", [(CONVERGES_ON, _METRIC), _optional(BETTER, Better, _BETTER)])
    profiles = " ".join(f"{name}: {profile.doc}" for name, profile in PROFILES.items())
    profile: Any = Literal[tuple(PROFILES)]
    return struct(
        "File",
        [
            (ENABLED, Annotated[bool, Meta(description=_MASTER)], True),
            ("profile", Annotated[profile, Meta(description=profiles)], DEFAULT_PROFILE),
            _optional(DIRECTIVES, Name, _DIRECTIVES),
            _optional(MODEL, Name, _MODEL),
            _optional(PRICES, Name | PriceTable, _PRICES),
            _section("recovery", table_of("Recovery", Recovery, Counting), _RECOVERY),
            _section("persons", table_of("Persons", Persons), _PERSONS),
            _section("outages", table_of("Outages", OutageSettings), _OUTAGES),
            _section("budgets", table_of("Budgets", Budgets), _BUDGETS),
            _section("rules", rule_tables, _RULES),
            _listed("overrides", override, OVERRIDES_MAX, _OVERRIDES, _OVERRIDE_NEEDS),
            _named("phases", phase, PHASES_MAX, _PHASES),
            _optional(MEANING, table_of("Meaning", Meaning), _MEANING),
            _optional(JUDGE, table_of("Judge", ChatSettings), _JUDGE),
            _named("tools", table_of("Tool", Tool), TOOLS_MAX, _TOOLS),
            _section("results", table_of("Results", Results), _RESULTS),
            _section("sessions", table_of("Sessions", Sessions), _SESSIONS),
            _listed("masks", table_of("Mask", TextMask), MASKS_MAX, _MASKS),
            _section("attributes", _attributes(), _ATTRIBUTES),
            _listed("webhooks", webhook, WEBHOOKS_MAX, _WEBHOOKS),
            _listed("waiting", waiting, WAITING_MAX, _WAITING),
            _listed(
                "retention", table_of("Retention", ServiceRetention), RETENTION_MAX, _RETENTION
            ),
            _section("outcomes", table_of("Outcomes", OutcomeSources), _OUTCOMES),
            _section("page", table_of("Page", PageSettings), _PAGE),
            _section("shards", table_of("Shards", ShardSettings), _SHARDS),
            _section("server", table_of("Server", Limits), _SERVER),
        ],
    )


def _attributes() -> type[Struct]:
    values = Annotated[tuple[str, ...], Meta(description="Its value is one of these.")]
    kind = struct(
        "SpanKind",
        [
            ("kind", Annotated[Literal[KINDS], Meta(description=f"One of {', '.join(KINDS)}.")]),
            *(_optional(name, Name, doc) for name, doc in _KIND_KEYS.items()),
            ("values", values, field(name="is", default=())),
        ],
    )
    fields = [
        (name, Annotated[tuple[Name, ...], Meta(max_length=KEYS_MAX, description=meaning)], ())
        for name, meaning in FIELDS.items()
    ]
    return struct("Attributes", [*fields, _listed("kinds", kind, KINDS_MAX, _KINDS)])


@cache
def rule_table(rule: type[Rule]) -> type[Struct]:
    """Return the table of a rule; its defaults are those of the default profile."""
    columns = [(ENABLED, _ENABLED, rule.on_by_default), *numbers_of(rule)]
    return struct(rule.name, [*columns, (LADDER, _LADDER, rule().ladder)])


def _optional(name: str, kind: Any, doc: str) -> Any:
    """Return a key or section that has no default."""
    return name, Annotated[kind, Meta(description=doc)] | UnsetType, UNSET


def _section(attribute: str, table: Any, doc: str, name: str | None = None) -> Any:
    """Return a section that is one table; missing keys have their defaults."""
    kind = Annotated[table, Meta(description=doc)]
    return attribute, kind, field(name=name, default_factory=table)


def _listed(name: str, table: Any, most: int, doc: str, needs: Any = None) -> Any:
    entry = Annotated[table, Meta(extra_json_schema=needs)]
    return name, Annotated[tuple[entry, ...], Meta(max_length=most, description=doc)], ()


def _named(name: str, table: Any, most: int, doc: str) -> Any:
    """Return a section that has a table for each name that a user chooses."""
    kind = Annotated[dict[Name, table], Meta(max_length=most, description=doc)]
    return name, kind, field(default_factory=dict)
