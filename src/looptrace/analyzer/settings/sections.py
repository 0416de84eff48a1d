"""Settings: what judges, what follows, what is the same, who is told, out of `looptrace.toml`.

A file starts from a profile and says what differs. What it holds is checked key by key, and an
error names the file, the line, what is wrong, and what may stand there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from looptrace.analyzer.detect.counters import METRICS, Counting
from looptrace.analyzer.detect.rule_plugins import known_rules
from looptrace.analyzer.detect.ruleset import SELECTORS, Override, RuleSet
from looptrace.analyzer.engine.outages import OutageSettings
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint import embeddings
from looptrace.analyzer.fingerprint.embeddings import EmbeddingsError
from looptrace.analyzer.fingerprint.equivalence import (
    PATTERN_CHARS_MAX,
    Sameness,
    TextMask,
    Tool,
    check_pattern,
)
from looptrace.analyzer.fingerprint.similarity import MEASURES, SENTENCES, Meaning
from looptrace.analyzer.gates.directives import DirectiveError, Directives
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.server_limits import Limits
from looptrace.analyzer.settings.toml_reader import (
    FILE_BYTES_MAX,
    Node,
    SettingsError,
    content,
    read,
    shown,
)
from looptrace.analyzer.settings.webhook import (
    FILE,
    FILTER_MAX,
    FILTERS,
    FORMATS,
    SECRETS_MAX,
    URL_CHARS_MAX,
    Webhook,
)
from looptrace.analyzer.text.display import plain
from looptrace.rules.contract import (
    ACTIONS,
    RUNG_ATTEMPTS_MAX,
    RUNGS_MAX,
    Rule,
    Rung,
    SettingError,
    numbers,
)
from looptrace.rules.likely_loop import LikelyLoop, model_of

FILE_NAME = "looptrace.toml"
THRESHOLD_VARIABLE = "LOOPTRACE_LOOP_THRESHOLD"
PIVOTS_VARIABLE = "LOOPTRACE_MAX_PIVOTS"
ENABLED = "enabled"
LADDER = "ladder"
UNBLOCK = "unblock"
IDLE = "idle_s"
CONVERGES_ON = "converges_on"
MEANING = "meaning"
MEASURE = "measure"
DIRECTIVES = "directives"
MODEL = "model"

SECTIONS = (
    ENABLED,
    "profile",
    DIRECTIVES,
    MODEL,
    "recovery",
    "outages",
    "rules",
    "overrides",
    "phases",
    "meaning",
    "tools",
    "masks",
    "webhooks",
    "server",
)

# More than a person can keep in mind; every override that differs costs a judging of its rules.
OVERRIDES_MAX = 50
MASKS_MAX = 50
PHASES_MAX = 200
TOOLS_MAX = 200
TOOL_KEYS_MAX = 50
WEBHOOKS_MAX = 20
PRIVATE_MAX = 20  # networks of one webhook

_THRESHOLD = "attempts_min"

# The settings that a profile scales, and with them the ladder of their rule.
_SCALED = (_THRESHOLD, "rounds_min")

# One attempt repeats nothing, so that no profile makes a loop of it.
_SCALED_LEAST = 2

_ERROR_LENGTH_MAX = 300


@dataclass(frozen=True, slots=True)
class Profile:
    """How soon a loop is found, and how it is brought back.

    Counts of the rules' defaults are multiplied by `scale`.
    """

    scale: Fraction
    doc: str
    recovery: Recovery = field(default_factory=Recovery)


DEFAULT_PROFILE = "balanced"
PROFILES = {
    "conservative": Profile(
        Fraction(8, 5),
        "Acts late: from 5 attempts on, and again at 8. Unblocks nothing by itself.",
        Recovery(unblock=False),
    ),
    DEFAULT_PROFILE: Profile(Fraction(1), "The default: from 3 attempts on, and again at 5."),
    "aggressive": Profile(Fraction(3, 5), "Acts early: from 2 attempts on, and again at 3."),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a file says, and the profile that it started from."""

    profile: str
    policy: DetectionPolicy
    directives_dir: str = ""  # with templates of one's own
    webhooks: tuple[Webhook, ...] = ()
    server: Limits = field(default_factory=Limits)
    outages: OutageSettings = field(default_factory=OutageSettings)
    model_file: str = ""  # of one's own, for the rule likely_loop

    @property
    def directives(self) -> Directives:
        """The templates of what agents are told."""
        folder = Path(self.directives_dir) if self.directives_dir else None
        return Directives(folder, self.policy.recovery)


@dataclass(frozen=True, slots=True)
class _Form:
    """A rule as a table has it; one that is off has settings too, for overrides that need them."""

    rule: Rule
    enabled: bool = True

    @property
    def judging(self) -> Rule | None:
        """The rule where it judges."""
        return self.rule if self.enabled else None


def default() -> Settings:
    """Return the settings that hold where there is no file."""
    return of_profile(DEFAULT_PROFILE)


def rules_of_profile(profile: str) -> tuple[Rule, ...]:
    """Return every rule as a profile has it, also those that have to be switched on."""
    return tuple(_scaled(rule, PROFILES[profile].scale) for rule in known_rules())


def of_profile(profile: str) -> Settings:
    """Return a profile as it stands."""
    rules = tuple(rule for rule in rules_of_profile(profile) if rule.on_by_default)
    return Settings(profile, DetectionPolicy(RuleSet(rules), PROFILES[profile].recovery))


def load(path: Path) -> Settings:
    """Read a settings file.

    Raises:
        SettingsError: if it cannot be read, is no TOML, or says what cannot be.
    """
    return parsed(content(path), str(path))


def parsed(data: bytes, name: str) -> Settings:
    """Read the content of a settings file; `name` is what errors call it.

    Raises:
        SettingsError: if it is no TOML, or says what cannot be.
    """
    top = read(data, name).table(SECTIONS)
    profile = top.at("profile", DEFAULT_PROFILE).choice("profile", PROFILES)
    bases = {rule.name: _Form(rule, rule.on_by_default) for rule in rules_of_profile(profile)}
    model_file, bases[LikelyLoop.name] = _model(top, Path(name).parent, bases[LikelyLoop.name])
    bases |= _forms(top.at("rules", {}), bases)
    rules = tuple(form.rule for form in bases.values() if form.enabled)
    overrides = _overrides(top.at("overrides", []), bases)
    recovery, idle = _recovery(top.at("recovery", {}), PROFILES[profile].recovery)
    counting = replace(idle, converging=_converging(top.at("phases", {})))
    if not top.at(ENABLED, value=True).switch():
        rules, overrides = (), ()
    sameness = Sameness(_tools(top.at("tools", {})), _masks(top.at("masks", [])))
    own = _directives(top, Path(name).parent)
    webhooks = _webhooks(top.at("webhooks", []), Path(name).parent)
    policy = DetectionPolicy(RuleSet(rules, overrides, counting, _meaning(top)), recovery, sameness)
    server = _server(top.at("server", {}))
    outages = _outages(top.at("outages", {}))
    return Settings(profile, policy, own, webhooks, server, outages, model_file)


def overridden(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """Apply the variables of the environment, which win over the file; an empty one is none.

    Raises:
        SettingsError: if a value cannot be; it names the variable.
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
    """Set the threshold of every rule that has one, in overrides too."""
    rule_set = settings.policy.rule_set
    rules = tuple(_at_threshold(rule, threshold) for rule in rule_set.rules)
    overrides = [
        replace(
            override,
            rules={
                name: rule and _at_threshold(rule, threshold)
                for name, rule in override.rules.items()
            },
        )
        for override in rule_set.overrides
    ]
    still = tuple(override for override in _effective(rules, overrides) if override.rules)
    return with_rules(settings, replace(rule_set, rules=rules, overrides=still))


def _at_threshold(rule: Rule, threshold: int) -> Rule:
    changes: dict[str, Any] = {_THRESHOLD: threshold}
    return replace(rule, **changes) if _THRESHOLD in rule.settings() else rule


def _with_pivots(settings: Settings, pivots: int) -> Settings:
    policy = settings.policy
    recovery = replace(policy.recovery, max_pivots=pivots)
    return replace(settings, policy=replace(policy, recovery=recovery))


def with_rules(settings: Settings, rule_set: RuleSet) -> Settings:
    """Return the settings with other rules."""
    return replace(settings, policy=replace(settings.policy, rule_set=rule_set))


def _scaled(rule: Rule, scale: Fraction) -> Rule:
    """Multiply what a rule counts; of two rungs that fall together the stronger one stays."""
    counts = {name: count for name, count in rule.settings().items() if name in _SCALED}
    if not counts:
        return rule
    changed: dict[str, Any] = {
        name: min(max(_times(count, scale), about["ge"]), about["le"])
        for name, (count, about) in counts.items()
    }
    rungs = {_times(rung.attempts, scale): rung.action for rung in rule.ladder}
    changed[LADDER] = tuple(Rung(*rung) for rung in rungs.items())
    return replace(rule, **changed)


def _times(count: int, scale: Fraction) -> int:
    return max(round(count * scale), min(count, _SCALED_LEAST))


def _forms(node: Node, bases: Mapping[str, _Form]) -> dict[str, _Form]:
    """Apply the tables of rules; returned are those that have one."""
    node.table(bases)
    given = {name: form for name, form in bases.items() if name in node.value}
    return {name: _form(node, name, form) for name, form in given.items()}


def _form(rules: Node, name: str, form: _Form) -> _Form:
    known = form.rule.settings()
    node = rules.at(name).table((ENABLED, *known, LADDER))
    changes: dict[str, Any] = _numbers(node, form.rule)
    if LADDER in node.value:
        changes[LADDER] = tuple(_rung(rung) for rung in node.at(LADDER).items(RUNGS_MAX))
    try:
        rule = replace(form.rule, **changes)
    except SettingError as error:
        raise _refused(error, node, f"{rules.name}.") from error
    return _Form(rule, node.at(ENABLED, form.enabled).switch())


def _refused(error: SettingError, node: Node, prefix: str = "") -> SettingsError:
    """Return the error of a table in which a setting cannot be; the message begins with it."""
    key = str(error).split(" ", 1)[0].rpartition(".")[2]
    return node.at(key).error(f"{prefix}{error}")


def _numbers(node: Node, of: object) -> dict[str, int]:
    """Return what a table says of the settings of a dataclass."""
    return {
        name: node.at(name).number(about["ge"], about["le"])
        for name, (_, about) in numbers(of).items()
        if name in node.value
    }


def _rung(node: Node) -> Rung:
    names = [item.name for item in fields(Rung)]
    for name in names:
        if name not in node.table(names).value:
            raise node.error(f"{node.name} has a rung without {name}.")
    attempts = node.at("attempts").number(1, RUNG_ATTEMPTS_MAX)
    action = node.at("action").choice("action", ACTIONS)
    return Rung(attempts, next(known for known in ACTIONS if known == action))


def _overrides(node: Node, bases: Mapping[str, _Form]) -> tuple[Override, ...]:
    """Read the overrides; each rule in one starts from what the file says of it for all turns."""
    nodes = node.items(OVERRIDES_MAX)
    overrides = tuple(_override(one, bases) for one in nodes)
    rules = [form.rule for form in bases.values() if form.enabled]
    effective = _effective(rules, overrides)
    for index, (one, override) in enumerate(zip(nodes, overrides, strict=True)):
        for name in override.rules:
            at = one.at("rules").at(name)
            if name not in effective[index].rules:
                raise at.error(f"{at.name} changes nothing: without it, the rule is the same.")
            if any(_covers(later, override, name) for later in overrides[index + 1 :]):
                raise at.error(f"{at.name} never holds: a later override fits wherever it does.")
    return overrides


def _override(node: Node, bases: Mapping[str, _Form]) -> Override:
    node.table((*SELECTORS, "rules"))
    asked = {name: node.at(name).words() for name in SELECTORS if name in node.value}
    if not asked:
        raise node.error(f"an override must have one of {', '.join(SELECTORS)} at least.")
    forms = _forms(node.at("rules", {}), bases)
    if not forms:
        raise node.error("the override changes nothing: it has no rules.")
    return Override({name: form.judging for name, form in forms.items()}, **asked)


def _covers(later: Override, earlier: Override, name: str) -> bool:
    """Say whether a later override of a rule fits every turn that an earlier one fits."""
    return name in later.rules and later.selectors.items() <= earlier.selectors.items()


def _effective(rules: Sequence[Rule], overrides: Sequence[Override]) -> list[Override]:
    """Leave out of overrides the rules that are the same without them.

    One that an earlier override changes may be set back by a later one for some of its turns.
    """
    bases: dict[str, Rule | None] = {rule.name: rule for rule in rules}
    effective: list[Override] = []
    for override in overrides:
        before = [earlier for earlier in effective if _may_meet(earlier, override)]
        differ = {
            name: rule
            for name, rule in override.rules.items()
            if rule != bases.get(name) or any(name in earlier.rules for earlier in before)
        }
        effective.append(replace(override, rules=differ))
    return effective


def _may_meet(one: Override, other: Override) -> bool:
    """Say whether a turn can fit both."""
    first, second = one.selectors, other.selectors
    return all(first[name] == second[name] for name in first.keys() & second.keys())


def _recovery(node: Node, base: Recovery) -> tuple[Recovery, Counting]:
    """Read how loops are brought back, and which pauses mean something."""
    node.table((*numbers(base), UNBLOCK, *numbers(Counting())))
    unblock = node.at(UNBLOCK, base.unblock).switch()
    try:
        recovery = replace(base, unblock=unblock, **_numbers(node, base))
        pauses: dict[str, Any] = dict(_numbers(node, Counting()))
        return recovery, Counting(**pauses)
    except SettingError as error:
        raise _refused(error, node) from error


def _server(node: Node) -> Limits:
    node.table(numbers(Limits()))
    try:
        return replace(Limits(), **_numbers(node, Limits()))
    except SettingError as error:
        raise _refused(error, node) from error


def _outages(node: Node) -> OutageSettings:
    node.table(numbers(OutageSettings()))
    try:
        return OutageSettings(**_numbers(node, OutageSettings()))
    except SettingError as error:
        raise _refused(error, node) from error


def _directives(top: Node, beside: Path) -> str:
    """Read the folder of templates, which is named from where the file lies."""
    if DIRECTIVES not in top.value:
        return ""
    folder = beside / top.at(DIRECTIVES).words()
    try:
        Directives(folder).check()
    except DirectiveError as error:
        raise top.at(DIRECTIVES).error(str(error)) from error
    return str(folder)


def _model(top: Node, beside: Path, form: _Form) -> tuple[str, _Form]:
    """Read a model of one's own, which is named from where the file lies, into its rule."""
    if MODEL not in top.value:
        return "", form
    path = beside / top.at(MODEL).words()
    try:
        with path.open("rb") as file:
            model = model_of(json.loads(file.read(FILE_BYTES_MAX)))
    except (OSError, ValueError) as error:
        why = plain(str(error), _ERROR_LENGTH_MAX)
        raise top.at(MODEL).error(f"{MODEL} cannot be used: {why}") from error
    changed: dict[str, Any] = {MODEL: model}
    return str(path), replace(form, rule=replace(form.rule, **changed))


def _converging(node: Node) -> dict[str, str]:
    """Read the iterative phases, each with the metric that it converges on."""
    phases = node.named(PHASES_MAX)
    for phase in phases.values():
        if CONVERGES_ON not in phase.table((CONVERGES_ON,)).value:
            raise phase.error(f"{phase.name} must say what it {CONVERGES_ON}.")
    return {
        name: phase.at(CONVERGES_ON).choice("metric", METRICS) for name, phase in phases.items()
    }


def _meaning(top: Node) -> Meaning | None:
    """Read how meaning is compared; None where nothing is said of it."""
    if MEANING not in top.value:
        return None
    node = top.at(MEANING).table((MEASURE, *numbers(Meaning(SENTENCES))))
    if MEASURE not in node.value:
        raise node.error(f"{node.name} must have a {MEASURE}.")
    at = node.at(MEASURE)
    chosen = at.choice(MEASURE, MEASURES)
    try:
        measure = next(known for known in MEASURES if known == chosen)
        meaning = Meaning(measure, **_numbers(node, Meaning(measure)))
        if meaning.measure == SENTENCES:
            embeddings.check()
    except SettingError as error:
        raise _refused(error, node) from error
    except EmbeddingsError as error:
        raise at.error(f"{at.name} is {shown(chosen)}, but {error}.") from error
    return meaning


def _tools(node: Node) -> dict[str, Tool]:
    return {name: _tool(tool) for name, tool in node.named(TOOLS_MAX).items()}


def _tool(node: Node) -> Tool:
    node.table([item.name for item in fields(Tool)])
    volatile, same = (
        tuple(key.words() for key in node.at(name, []).items(TOOL_KEYS_MAX))
        for name in ("volatile_keys", "same_call")
    )
    if volatile and same:
        why = "changes nothing: same_call names the only keys that count."
        raise node.at("volatile_keys").error(f"{node.name}.volatile_keys {why}")
    return Tool(volatile, same, node.at("polling", value=False).switch())


def _masks(node: Node) -> tuple[TextMask, ...]:
    seen: set[str] = set()
    masks = []
    for one in node.items(MASKS_MAX):
        mask = _mask(one)
        if mask.pattern in seen:
            raise one.at("pattern").error("masks.pattern is that of an earlier mask.")
        seen.add(mask.pattern)
        masks.append(mask)
    return tuple(masks)


def _mask(node: Node) -> TextMask:
    names = [item.name for item in fields(TextMask)]
    for name in names:
        if name not in node.table(names).value:
            raise node.error(f"a mask must have a {name}.")
    pattern = node.at("pattern").words(PATTERN_CHARS_MAX)
    try:
        check_pattern(pattern)
    except ValueError as error:
        why = plain(str(error), _ERROR_LENGTH_MAX)
        raise node.at("pattern").error(f"masks.pattern: {why}.") from error
    return TextMask(pattern, node.at("name").words())


def _webhooks(node: Node, beside: Path) -> tuple[Webhook, ...]:
    webhooks: dict[str, Webhook] = {}
    for one in node.items(WEBHOOKS_MAX):
        webhook = _webhook(one, beside)
        if webhook.name in webhooks:
            raise one.at("name").error("webhooks.name is that of an earlier webhook.")
        webhooks[webhook.name] = webhook
    return tuple(webhooks.values())


def _webhook(node: Node, beside: Path) -> Webhook:
    """Read a webhook; files with secrets are named from where the settings lie."""
    node.table([item.name for item in fields(Webhook)])
    for name in ("name", "url"):
        if name not in node.value:
            raise node.error(f"a webhook must have a {name}.")
    form = node.at("format", FORMATS[0]).choice("format", FORMATS)
    filters = {name: _filter(node.at(name, []), name) for name in FILTERS}
    try:
        return Webhook(
            name=node.at("name").words(),
            url=_beside(_secret_words(node.at("url")), beside),
            format=next(known for known in FORMATS if known == form),
            secrets=tuple(
                _beside(_secret_words(secret), beside)
                for secret in node.at("secrets", []).items(SECRETS_MAX)
            ),
            gate_url=node.at("gate_url").words(URL_CHARS_MAX) if "gate_url" in node.value else "",
            allow_private=tuple(
                network.words() for network in node.at("allow_private", []).items(PRIVATE_MAX)
            ),
            **filters,
        )
    except SettingError as error:
        raise _refused(error, node) from error


def _secret_words(node: Node) -> str:
    """Return a text that may be a secret put in the wrong place, so that no error quotes it."""
    if not isinstance(node.value, str) or not 1 <= len(node.value) <= URL_CHARS_MAX:
        raise node.error(f"{node.name} must be a text of 1 to {URL_CHARS_MAX} characters.")
    return node.value


def _beside(value: str, folder: Path) -> str:
    if not value.startswith(FILE) or value == FILE:
        return value
    return f"{FILE}{folder / value.removeprefix(FILE)}"


def _filter(node: Node, name: str) -> tuple[str, ...]:
    known = {"rules": [rule.name for rule in known_rules()], "actions": ACTIONS}.get(name)
    return tuple(
        one.choice(name.removesuffix("s"), known) if known else one.words()
        for one in node.items(FILTER_MAX)
    )
