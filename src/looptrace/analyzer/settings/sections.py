"""The settings of `looptrace.toml`: rules, recovery, equivalence, webhooks and servers.

A file starts from a profile and lists the differences. Each key is checked; an error names the
file, the line, the problem, and the allowed values. It is long because each section is made here.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from looptrace.analyzer.detect.budgets.limits import Budgets
from looptrace.analyzer.detect.counters import Counting
from looptrace.analyzer.detect.kept_prices import PACKAGE
from looptrace.analyzer.detect.persons import Persons
from looptrace.analyzer.detect.phases import METRICS, Convergence, Converging
from looptrace.analyzer.detect.prices import Prices
from looptrace.analyzer.detect.rule_plugins import every_rule
from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.engine.outages import OutageSettings
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fields.dialect_table import FIELDS, SHIPPED, DialectTable, kind_row
from looptrace.analyzer.fingerprint import embeddings
from looptrace.analyzer.fingerprint.embeddings import EmbeddingsError
from looptrace.analyzer.fingerprint.equivalence import (
    Results,
    Sameness,
    Sessions,
    TextMask,
    Tool,
    check_pattern,
)
from looptrace.analyzer.fingerprint.similarity import SENTENCES, Meaning
from looptrace.analyzer.gates.directives import DirectiveError, Directives
from looptrace.analyzer.gates.waiting import Waiting
from looptrace.analyzer.settings import prices
from looptrace.analyzer.settings.file_tables import (
    BETTER,
    CONVERGES_ON,
    DIRECTIVES,
    JUDGE,
    MEANING,
    MEASURE,
    MODEL,
    PRICES,
    file_table,
)
from looptrace.analyzer.settings.judge import ChatSettings
from looptrace.analyzer.settings.outcomes.sources import OutcomeSources
from looptrace.analyzer.settings.page import PageSettings
from looptrace.analyzer.settings.prices import PriceTable
from looptrace.analyzer.settings.profiles import (
    DEFAULT_PROFILE,
    PROFILES,
    THRESHOLD,
    rules_of_profile,
)
from looptrace.analyzer.settings.rule_forms import Form, effective_overrides, forms_of, overrides_of
from looptrace.analyzer.settings.server_limits import Limits, ServiceRetention
from looptrace.analyzer.settings.shards import ShardSettings
from looptrace.analyzer.settings.tables import checked, made, stated
from looptrace.analyzer.settings.toml_reader import (
    FILE_BYTES_MAX,
    Errors,
    Node,
    SettingsError,
    content,
    read,
    shown,
)
from looptrace.analyzer.settings.webhook import FILE, Webhook
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.near_names import did_you_mean
from looptrace.rules.contract import Rule, SettingError, numbers
from looptrace.rules.prediction.likely_failure import LikelyFailure, model_of

FILE_NAME = "looptrace.toml"
THRESHOLD_VARIABLE = "LOOPTRACE_LOOP_THRESHOLD"
PIVOTS_VARIABLE = "LOOPTRACE_MAX_PIVOTS"
# The widest bounds of a rule's threshold; each rule uses the nearest value within its own bounds.
THRESHOLD_LEAST, THRESHOLD_MOST = 2, 100

T = TypeVar("T")

# Settings of the section `recovery` that decide how to count.
_PAUSES = numbers(Counting()).keys()

_ERROR_LENGTH_MAX = 300
_UNPRICED: tuple[str, Prices | None] = "", None


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a file, and the profile from which it started."""

    profile: str
    policy: DetectionPolicy
    directives_dir: str = ""  # with templates of one's own
    webhooks: tuple[Webhook, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    retention: tuple[ServiceRetention, ...] = ()
    page: PageSettings = field(default_factory=PageSettings)
    shards: ShardSettings = field(default_factory=ShardSettings)
    server: Limits = field(default_factory=Limits)
    outages: OutageSettings = field(default_factory=OutageSettings)
    outcomes: OutcomeSources = field(default_factory=OutcomeSources)
    judge: ChatSettings | None = None
    model_file: str = ""  # of one's own, for the rule likely_failure
    prices_file: str = ""

    @property
    def prices(self) -> Prices | None:
        """The prices of models; None where money does not count."""
        return self.policy.rule_set.counting.prices

    @property
    def directives(self) -> Directives:
        """The templates of directives."""
        folder = Path(self.directives_dir) if self.directives_dir else None
        return Directives(folder, self.policy.recovery, self.waiting)


def default() -> Settings:
    """Return the settings without a file."""
    return of_profile(DEFAULT_PROFILE)


def of_profile(profile: str) -> Settings:
    """Return the unchanged settings of a profile."""
    rules = tuple(rule for rule in rules_of_profile(profile) if rule.on_by_default)
    return Settings(profile, DetectionPolicy(RuleSet(rules), PROFILES[profile].recovery))


def load(path: str | os.PathLike[str]) -> Settings:
    """Read a settings file.

    Raises:
        SettingsError: if it cannot be read, is not TOML, or has a wrong key or value.
    """
    return parsed(content(Path(path)), os.fspath(path))


def parsed(data: bytes, name: str) -> Settings:
    """Read the content of a settings file; `name` is its name in errors."""
    errors = Errors()
    top, file = checked(read(data, name), file_table(every_rule()), errors)
    settings = _settings(top, file, Path(name).parent, errors)
    errors.check()
    return settings


def _settings(top: Node, file: Any, beside: Path, errors: Errors) -> Settings:
    """Return the settings of a file; the rest of them is read where a section has an error."""
    profile = PROFILES[file.profile]
    bases = {rule.name: Form(rule, rule.on_by_default) for rule in rules_of_profile(file.profile)}
    likely = bases[LikelyFailure.name]
    model_file, bases[LikelyFailure.name] = errors.tried(
        lambda: _model(top, file.model, beside, likely), ("", likely)
    )
    changes = stated(top.at("recovery", {}), file.recovery)
    pauses = {name: changes.pop(name) for name in _PAUSES & changes.keys()}
    recovery = replace(profile.recovery, **changes)
    bases |= forms_of(top.at("rules", {}), file.rules, bases, recovery, errors)
    rules = tuple(form.rule for form in bases.values() if form.enabled)
    overrides = overrides_of(top.at("overrides"), file.overrides, bases, recovery, errors)
    _check_model(top, rules, overrides, errors)
    rules, overrides = (rules, overrides) if file.enabled else ((), ())
    of = partial(_section, top, file, errors)
    prices_file, table = errors.tried(lambda: _prices(top, file.prices, beside), _UNPRICED)
    phases = _converging(top.at("phases"), file.phases, errors)
    counting = Counting(converging=phases, persons=of("persons", Persons), prices=table, **pauses)
    meaning = errors.tried(lambda: _meaning(top, file.meaning), None)
    rule_set = RuleSet(rules, overrides, counting, meaning)
    sameness = Sameness(
        _tools(top.at("tools"), file.tools, errors),
        _masks(top.at("masks"), file.masks, errors),
        of("results", Results),
        of("sessions", Sessions),
    )
    dialects = _dialects(top.at("attributes", {}), file.attributes, errors)
    budgets = errors.tried(lambda: _budgets(top, file, table), Budgets())
    page = of("page", PageSettings)
    return Settings(
        profile=file.profile,
        policy=DetectionPolicy(rule_set, recovery, sameness, dialects, budgets),
        directives_dir=errors.tried(lambda: _directives(top, file.directives, beside), ""),
        webhooks=_webhooks(top.at("webhooks"), file.webhooks, beside, page, errors),
        waiting=_waiting(top.at("waiting"), file.waiting, file.webhooks, errors),
        retention=_retention(top.at("retention"), file.retention, errors),
        page=page,
        shards=of("shards", ShardSettings),
        server=of("server", Limits),
        outages=of("outages", OutageSettings),
        outcomes=of("outcomes", OutcomeSources),
        judge=errors.tried(
            lambda: None if file.judge is UNSET else _made(top, JUDGE, ChatSettings, file.judge),
            None,
        ),
        model_file=model_file,
        prices_file=prices_file,
    )


def _section(top: Node, file: Any, errors: Errors, name: str, maker: Callable[..., T]) -> T:
    """Return what a section makes; without it where it has an error."""
    return errors.tried(lambda: _made(top, name, maker, getattr(file, name)), maker())


def in_force(file: Path | None, environment: Mapping[str, str]) -> Settings:
    """Return the settings of a file, else of the current folder's, with the environment's."""
    here = Path(FILE_NAME)
    is_none = file is None and not here.exists()
    return overridden(default() if is_none else load(file or here), environment)


def overridden(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """Apply the environment variables, which override the file; empty ones are ignored.

    Raises:
        SettingsError: if a value is wrong; it names the variable.
    """
    changes = {THRESHOLD_VARIABLE: _with_threshold, PIVOTS_VARIABLE: _with_pivots}
    for variable, change in changes.items():
        if value := environment.get(variable, ""):
            try:
                settings = change(settings, int(value))
            except SettingError as error:
                raise SettingsError(f"{variable}: {error}") from error
            except ValueError as error:
                why = f"{variable} is {shown(value)}; it must be a whole number."
                raise SettingsError(why) from error
    return settings


def _with_threshold(settings: Settings, threshold: int) -> Settings:
    """Set the threshold of every rule that has one, also in overrides."""
    if not THRESHOLD_LEAST <= threshold <= THRESHOLD_MOST:
        why = f"it must be between {THRESHOLD_LEAST} and {THRESHOLD_MOST}."
        raise SettingError(f"it is {threshold}; {why}")
    rule_set = settings.policy.rule_set
    at_threshold = partial(_at_threshold, threshold=threshold)
    rules = tuple(map(at_threshold, rule_set.rules))
    overrides = [override.each(at_threshold) for override in rule_set.overrides]
    still = tuple(override for override in effective_overrides(rules, overrides) if override.rules)
    return with_rules(settings, replace(rule_set, rules=rules, overrides=still))


def _at_threshold(rule: Rule, threshold: int) -> Rule:
    """Set the threshold of a rule to the nearest allowed value."""
    if THRESHOLD not in rule.settings():
        return rule
    now, about = rule.settings()[THRESHOLD]
    nearest = min(max(threshold, about["ge"]), about["le"])
    for value in range(nearest, now, -1 if nearest > now else 1):
        changes: dict[str, Any] = {THRESHOLD: value}
        try:
            return replace(rule, **changes)
        except SettingError:  # A window may hold fewer than the bounds allow.
            continue
    return rule


def nearest_thresholds(settings: Settings, environment: Mapping[str, str]) -> dict[str, int]:
    """Return the thresholds in force, by rule, that could not be that of the environment."""
    if not (value := environment.get(THRESHOLD_VARIABLE, "")):
        return {}
    rules = settings.policy.rule_set.rules
    thresholds = {rule.name: rule.settings().get(THRESHOLD) for rule in rules}
    return {name: own[0] for name, own in thresholds.items() if own and own[0] != int(value)}


def _with_pivots(settings: Settings, pivots: int) -> Settings:
    policy = settings.policy
    recovery = replace(policy.recovery, max_pivots=pivots)
    return replace(settings, policy=replace(policy, recovery=recovery))


def with_rules(settings: Settings, rule_set: RuleSet) -> Settings:
    """Return the settings with other rules."""
    return replace(settings, policy=replace(settings.policy, rule_set=rule_set))


def _directives(top: Node, folder: str | UnsetType, beside: Path) -> str:
    """Return the folder of templates, whose path is relative to the file."""
    if folder is UNSET:
        return ""
    path = beside / folder
    try:
        Directives(path).check()
    except DirectiveError as error:
        raise top.at(DIRECTIVES).error(str(error)) from error
    return str(path)


def _model(top: Node, file: str | UnsetType, beside: Path, form: Form) -> tuple[str, Form]:
    """Read a user's model, whose path is relative to the file, into its rule."""
    if file is UNSET:
        return "", form
    path = beside / file
    try:
        with path.open("rb") as opened:
            model = model_of(msgspec.json.decode(opened.read(FILE_BYTES_MAX)))
    except (OSError, ValueError) as error:
        why = plain(str(error), _ERROR_LENGTH_MAX)
        raise top.at(MODEL).error(f"{MODEL} cannot be used: {why.rstrip('.')}.") from error
    changed: dict[str, Any] = {MODEL: model}
    return str(path), replace(form, rule=replace(form.rule, **changed))


def _check_model(
    top: Node, rules: Iterable[Rule], overrides: Iterable[Override], errors: Errors
) -> None:
    """Refuse a rule that needs a model, and would find nothing without one."""
    every = chain(rules, *(override.rules.values() for override in overrides))
    if any(isinstance(rule, LikelyFailure) and rule.model is None for rule in every):
        why = f"is on, but {MODEL} names no file; `looptrace calibrate --model` fits one."
        errors.add(top.error(f"rules.{LikelyFailure.name} {why}"))


def _prices(
    top: Node, file: str | PriceTable | UnsetType, beside: Path
) -> tuple[str, Prices | None]:
    """Return the prices of models and their file, whose path is relative to the settings."""
    if file is UNSET:
        return "", None
    if isinstance(file, PriceTable):
        return "", prices.of_table(top.at(PRICES), file)
    path = file if file == PACKAGE else str(beside / file)
    try:
        return path, prices.load(path)
    except SettingsError as error:
        raise top.at(PRICES).error(f"{PRICES} cannot be used: {error}") from error


def _budgets(top: Node, file: Any, table: Prices | None) -> Budgets:
    """Return the budgets of several tasks; those in money need prices."""
    node = top.at("budgets", {})
    budgets = made(node, Budgets, stated(node, file.budgets)) if file.enabled else Budgets()
    if table is None:
        for name in budgets.limits:
            if name.endswith("money"):
                at = node.at(name)
                raise at.error(f"{at.name} needs {PRICES}, without which there is no money.")
    return budgets


def _converging(node: Node, tables: Mapping[str, Any], errors: Errors) -> Converging:
    """Return the metric of each phase; a metric of the user's own says which way is better."""
    converging: dict[str, Convergence] = {}
    for name, table in tables.items():
        metric, better = table.converges_on, None if table.better is UNSET else table.better
        if (metric in METRICS) == (better is None):
            converging[name] = Convergence(metric, better)
            continue
        at = node.at(name)
        if better is not None:
            at = at.at(BETTER)
            errors.add(at.error(f"{at.name} is known for {metric}; leave it out."))
            continue
        at = at.at(CONVERGES_ON)
        why = (
            f"{at.name} is {shown(metric)}. {did_you_mean(metric, METRICS)} "
            f'A metric of your own needs {BETTER} = "lower" or "higher".'
        )
        errors.add(at.error(why))
    return converging


def _meaning(top: Node, table: Struct | UnsetType) -> Meaning | None:
    """Return how meaning is compared; None if the file does not say."""
    if table is UNSET:
        return None
    meaning = Meaning(**structs.asdict(table))
    try:
        if meaning.measure == SENTENCES:
            embeddings.check()
    except EmbeddingsError as error:
        at = top.at(MEANING).at(MEASURE)
        raise at.error(f"{at.name} is {shown(meaning.measure)}, but {error}.") from error
    return meaning


def _made(top: Node, section: str, maker: Callable[..., T], table: Struct) -> T:
    node = top.at(section, {})
    return made(node, maker, stated(node, table))


def _tools(node: Node, tables: Mapping[str, Struct], errors: Errors) -> dict[str, Tool]:
    tools = {name: Tool(**structs.asdict(table)) for name, table in tables.items()}
    for name, tool in tools.items():
        if tool.volatile_keys and tool.same_call:
            at = node.at(name).at("volatile_keys")
            why = f"{at.name} changes nothing: same_call names the only keys that count."
            errors.add(at.error(why))
    return tools


def _masks(node: Node, tables: Sequence[Struct], errors: Errors) -> tuple[TextMask, ...]:
    masks = tuple(TextMask(**structs.asdict(table)) for table in tables)
    for index, mask in enumerate(masks):
        at = node.at(index).at("pattern")
        if mask.pattern in (earlier.pattern for earlier in masks[:index]):
            errors.add(at.error("masks.pattern is the same as that of an earlier mask."))
        try:
            check_pattern(mask.pattern)
        except ValueError as error:
            errors.add(at.error(f"masks.pattern: {plain(str(error), _ERROR_LENGTH_MAX)}."))
    return masks


def _dialects(node: Node, table: Any, errors: Errors) -> DialectTable:
    """Return the table of dialects, with a user's own keys if there are any."""
    fields = {name: keys for name in FIELDS if (keys := getattr(table, name))}
    kinds = node.at("kinds", [])
    rows = [kind_row(stated(kinds.at(i), given)) for i, given in enumerate(table.kinds)]
    for index, row in enumerate(rows):
        if not (row.key or row.name or row.scope) or (row.values and not row.key):
            why = "attributes.kinds needs a key, a name or a scope, and a key for `is`."
            errors.add(kinds.at(index).error(why))
    return SHIPPED.with_own(rows, fields) if rows or fields else SHIPPED


def _webhooks(
    node: Node, tables: Sequence[Any], beside: Path, page: PageSettings, errors: Errors
) -> tuple[Webhook, ...]:
    """Return the webhooks; paths of secrets are relative to the settings file."""
    webhooks: list[Webhook] = []
    for index, table in enumerate(tables):
        at = node.at(index)
        values = stated(at, table)
        values["url"] = _beside(values["url"], beside)
        values["secrets"] = tuple(_beside(secret, beside) for secret in values.get("secrets", ()))
        if errors.has(at.at("format").keys):
            continue  # What else it needs depends on its format.
        if values["name"] in (table.name for table in tables[:index]):
            why = "webhooks.name is the same as that of an earlier webhook."
            errors.add(at.at("name").error(why))
        if values.get("decision_hours") and not page.url and not errors.has(("page",)):
            why = "webhooks.decision_hours needs page.url, because its links lead there."
            errors.add(at.at("decision_hours").error(why))
        if webhook := errors.tried(partial(made, at, Webhook, values), None):
            webhooks.append(webhook)
    return tuple(webhooks)


def _waiting(
    node: Node, tables: Sequence[Any], webhooks: Sequence[Any], errors: Errors
) -> tuple[Waiting, ...]:
    """Return what happens when nobody decides; it passes gates on to webhooks of the file."""
    names = [webhook.name for webhook in webhooks]
    for index, table in enumerate(tables):
        for name in set(table.escalate_to) - set(names):
            why = f"waiting.escalate_to has {shown(name)}. {did_you_mean(name, names)}"
            errors.add(node.at(index).at("escalate_to").error(why))
    return _every(node, tables, Waiting, errors)


def _retention(node: Node, tables: Sequence[Any], errors: Errors) -> tuple[ServiceRetention, ...]:
    """Return the times of services; each service has one."""
    known = set[str]()
    for index, table in enumerate(tables):
        for name in known.intersection(table.services):
            why = f"retention.services has {shown(name)} a second time; a service has one time."
            errors.add(node.at(index).at("services").error(why))
        known.update(table.services)
    return _every(node, tables, ServiceRetention, errors)


def _every(
    node: Node, tables: Sequence[Struct], maker: Callable[..., T], errors: Errors
) -> tuple[T, ...]:
    """Return what each table of a list makes that has no error."""
    at = [(node.at(index), table) for index, table in enumerate(tables)]
    made_of = (errors.tried(partial(made, n, maker, stated(n, each)), None) for n, each in at)
    return tuple(each for each in made_of if each is not None)


def _beside(value: str, folder: Path) -> str:
    if not value.startswith(FILE) or value == FILE:
        return value
    return f"{FILE}{folder / value.removeprefix(FILE)}"
