"""Settings files: what they change, and that what is written reads back."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from docs.settings_page import page
from looptrace.analyzer.detect.counters import Counting
from looptrace.analyzer.detect.phases import Convergence
from looptrace.analyzer.detect.rule_plugins import known_rules
from looptrace.analyzer.detect.ruleset import Override, RuleSet
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint import embeddings
from looptrace.analyzer.fingerprint.embeddings import EmbeddingsError
from looptrace.analyzer.fingerprint.equivalence import Sameness, TextMask, Tool
from looptrace.analyzer.gates.recovery import Recovery
from looptrace.analyzer.settings.file_tables import EXAMPLES
from looptrace.analyzer.settings.judge import ChatSettings
from looptrace.analyzer.settings.outcomes.sources import OutcomeSources
from looptrace.analyzer.settings.profiles import PROFILES, rules_of_profile
from looptrace.analyzer.settings.sections import Settings, default, load
from looptrace.analyzer.settings.toml_reader import LINE_DOTS_MAX, SettingsError
from looptrace.analyzer.settings.toml_writer import starter, toml_of
from looptrace.analyzer.testing.notation import turns_in
from looptrace.analyzer.tuning.failure_model import model_json
from looptrace.rules.contract import ACTIONS, Action, Rule, Rung, SettingError
from looptrace.rules.prediction.likely_failure import LikelyFailure
from looptrace.rules.registry import RULES, default_rules
from tests.analyzer.settings.files import (
    NEEDS_NO_FILE,
    Laddered,
    any_settings,
    ladder_of,
    read,
    refused,
    rule_in,
)
from tests.analyzer.settings.test_mistakes import HOOK, SHARDS
from tests.drivers import findings_of
from tests.rules.models import EXAMPLE
from tests.seeds import seed_count

WARN_GATE = ("warn", "gate")


def test_balanced_is_what_holds_without_a_file() -> None:
    """Writing down the default profile changes nothing."""
    assert rules_of_profile("balanced") == known_rules()
    assert read("") == read('profile = "balanced"') == default()


@pytest.mark.requirement("B7")
@pytest.mark.parametrize(
    ("profile", "attempts", "ladder", "rounds", "cycle_ladder"),
    [
        ("conservative", 5, [(5, "warn"), (6, "gate")], 5, [(5, "warn"), (6, "gate")]),
        ("balanced", 3, [(3, "warn"), (4, "gate")], 3, [(3, "warn"), (4, "gate")]),
        ("aggressive", 2, [(2, "warn"), (3, "gate")], 2, [(2, "warn"), (3, "gate")]),
    ],
)
def test_profiles_set_thresholds_and_ladders(
    profile: str, attempts: int, ladder: Laddered, rounds: int, cycle_ladder: Laddered
) -> None:
    """A profile is one word for the numbers of all rules."""
    found = read(f'profile = "{profile}"')
    call, cycle = rule_in(found, "repeated_call"), rule_in(found, "cycle")

    assert call.settings()["attempts_min"][0] == attempts
    assert ladder_of(call) == ladder
    assert cycle.settings()["rounds_min"][0] == rounds
    assert cycle.settings()["period_max"][0] == 40
    assert ladder_of(cycle) == cycle_ladder


@pytest.mark.parametrize("rule", RULES)
def test_profiles_order_every_rule(rule: type[Rule]) -> None:
    """No rule acts later in a profile that promises to act earlier."""
    late, middle, early = [
        rule_in(Settings(name, DetectionPolicy(RuleSet(rules_of_profile(name)))), rule.name)
        for name in ("conservative", "balanced", "aggressive")
    ]
    for name in rule().settings():
        at = [variant.settings()[name][0] for variant in (late, middle, early)]
        assert at == sorted(at, reverse=True)
    for attempts in range(1, 20):
        strength = [ACTIONS.index(variant.action(attempts)) for variant in (late, middle, early)]
        assert strength == sorted(strength)


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("rule", NEEDS_NO_FILE)
def test_every_rule_can_be_tuned(rule: type[Rule]) -> None:
    """A file can set the ladder and the numbers of every rule."""
    most = {name: about["le"] for name, (_, about) in rule().settings().items()}
    lines = [f"{name} = {value}" for name, value in most.items()]
    most_of_all = rule_in(
        read("\n".join([f"[rules.{rule.name}]", "enabled = true", *lines])), rule.name
    )

    assert {name: value for name, (value, _) in most_of_all.settings().items()} == most
    later: Action = "pivot" if "pivot" in rule.actions else "warn"
    rungs = f'[{{ attempts = 4, action = "warn" }}, {{ attempts = 9, action = "{later}" }}]'
    tuned = rule_in(read(f"[rules.{rule.name}]\nenabled = true\nladder = {rungs}"), rule.name)

    changes: dict[str, Any] = {"ladder": (Rung(4, "warn"), Rung(9, later))}

    assert tuned == replace(rule(), **changes)
    assert [tuned.action(attempts) for attempts in (4, 8, 9)] == ["warn", "warn", later]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_can_be_switched_off(rule: type[Rule]) -> None:
    """Switching one off leaves all others as they are."""
    found = read(f"[rules.{rule.name}]\nenabled = false")

    assert found.policy.rule_set.rules == tuple(r for r in default_rules() if r.name != rule.name)


def test_a_file_wins_over_its_profile() -> None:
    """What the file says holds, and the rest is the profile's."""
    found = read('profile = "conservative"\n[rules.repeated_call]\nattempts_min = 4')
    call = rule_in(found, "repeated_call")

    assert call.settings()["attempts_min"][0] == 4
    assert ladder_of(call) == [(5, "warn"), (6, "gate")]


@settings(max_examples=seed_count(80), suppress_health_check=[HealthCheck.filter_too_much])
@given(any_settings())
def test_any_settings_read_back(wanted: Settings) -> None:
    """What is written of any settings reads back as the same settings.

    Settings with a rung that no loop can reach are refused, which has tests of its own.
    """
    try:
        again = read(toml_of(wanted))
    except SettingsError as error:
        assume("which no loop can reach" not in str(error))
        raise
    assert again == wanted


@pytest.mark.parametrize("profile", PROFILES)
def test_shown_settings_read_back(profile: str) -> None:
    """What `config show` prints can be kept as the file."""
    every = [rule for rule in rules_of_profile(profile) if type(rule) in NEEDS_NO_FILE]
    rules = RuleSet(tuple(every[1:]))
    wanted = Settings(profile, DetectionPolicy(rules, PROFILES[profile].recovery))

    assert read(toml_of(wanted)) == wanted


def test_texts_of_many_dots_read_back() -> None:
    """The parser is kept from lines of many dots, which a pattern or a name may have."""
    dots = "." * (LINE_DOTS_MAX + 10)
    wanted = replace(
        default(),
        policy=DetectionPolicy(
            RuleSet(counting=Counting(converging={dots: Convergence("markers")})),
            sameness=Sameness({dots: Tool(same_call=(dots, "a"))}, (TextMask(dots, dots),)),
        ),
    )

    assert read(toml_of(wanted)) == wanted


def test_starter_file_changes_nothing() -> None:
    """A new file holds what holds without it, commented out or not."""
    text = starter()

    assert read(text) == default()
    assert read(re.sub(r"^#(?! )", "", text, flags=re.MULTILINE)) == default()
    examples = read(re.sub(r"^#(?=    )", "", text, flags=re.MULTILINE))
    assert examples.policy.rule_set.overrides[0].selectors == {"phase": "refine"}
    assert examples.policy.rule_set.counting.converging == {"refine": ("tests_failed", None)}
    assert examples.policy.sameness.tools["get_status"].polling
    assert examples.policy.sameness.masks == (TextMask("build-[0-9]+", "<build>"),)
    assert examples.webhooks[0].actions == ("gate",)
    assert examples.waiting[0].escalate_to == ("lead",)
    for rule in known_rules():
        for _, about in rule.settings().values():
            assert f"# {about['doc']} {about['ge']} to {about['le']}." in text


@pytest.mark.requirement("B7")
def test_conservative_unblocks_nothing_by_itself() -> None:
    """A profile is also how loops are brought back, and the file wins over it."""
    assert not read('profile = "conservative"').policy.recovery.unblock
    assert read('profile = "conservative"\nrecovery.unblock = true').policy.recovery.unblock
    assert read('profile = "balanced"').policy.recovery.unblock
    assert read('profile = "aggressive"').policy.recovery.unblock


@pytest.mark.requirement("D5")
def test_master_switch_lets_no_rule_judge() -> None:
    """One line silences looptrace, and what else the file says is still checked."""
    override = "[[overrides]]\nphase = 'a'\n[overrides.rules.cycle]\nrounds_min = 4"
    found = read(f"enabled = false\nrecovery.max_pivots = 3\n{override}")

    assert found.policy.rule_set == RuleSet(())
    assert found.policy.recovery.max_pivots == 3
    assert read(toml_of(found)) == found
    assert "rounds_min is 49" in refused(f"enabled = false\n{override}9")
    assert findings_of(turns_in("read(a)->b x9"), found.policy.rule_set) == []


@pytest.mark.requirement("D5")
def test_overrides_start_from_what_the_file_says() -> None:
    """An override says what differs, also of a rule that is off elsewhere."""
    found = read(
        "[rules.repeated_call]\nenabled = false\nattempts_min = 6\n"
        "[rules.cycle]\nperiod_max = 5\n"
        "[[overrides]]\nphase = 'a'\ntool = 'b'\n"
        "[overrides.rules.repeated_call]\nenabled = true\n"
        "[overrides.rules.cycle]\nrounds_min = 4\n"
        "[[overrides]]\nagent = 'c'\ntask_kind = 'd'\nrules.cycle.enabled = false\n"
    )
    first, second = found.policy.rule_set.overrides
    call, cycle = first.rules["repeated_call"], first.rules["cycle"]

    assert first.selectors == {"phase": "a", "tool": "b"}
    assert second == Override({"cycle": None}, agent="c", task_kind="d")
    assert "repeated_call" not in {rule.name for rule in found.policy.rule_set.rules}
    assert call is not None
    assert call.settings()["attempts_min"][0] == 6
    assert cycle is not None
    assert [value for value, _ in cycle.settings().values()] == [4, 5]


def test_recovery_and_sameness_are_read() -> None:
    """Every section reaches the settings."""
    found = read(
        "recovery = { idle_s = 60, retry_after_s = 5, unblock = false }\n"
        "phases.fix.converges_on = 'coverage'\n"
        "[tools.'a b']\nvolatile_keys = ['x.y', 'z']\n[tools.c]\nsame_call = ['q']\n"
        "[[masks]]\npattern = 'v[0-9]'\nname = '<v>'\n"
    )

    assert found.policy.recovery == Recovery(retry_after_s=5, unblock=False)
    assert found.policy.rule_set.counting == Counting(60, {"fix": Convergence("coverage")})
    assert found.policy.sameness == Sameness(
        {"a b": Tool(("x.y", "z")), "c": Tool(same_call=("q",))}, (TextMask("v[0-9]", "<v>"),)
    )


ONE = "[[overrides]]\nphase = 'a'\n[overrides.rules.cycle]\nrounds_min = 4\n"


def test_an_override_may_set_back_an_earlier_one() -> None:
    """For one agent a phase's exception does not hold, which is no override without effect."""
    back = "[[overrides]]\nphase = 'a'\nagent = 'b'\n[overrides.rules.cycle]\nrounds_min = 3\n"
    found = read(f"{ONE}{back}")

    assert found.policy.rule_set.overrides[1].rules["cycle"] == rule_in(default(), "cycle")
    assert read(toml_of(found)) == found


def test_examples_can_be_used() -> None:
    """People copy the examples before they read the lists, from the page or the starter file."""
    shown = re.findall(r"```toml\n(.*?)```", page(), re.DOTALL)

    assert any(read(example).policy.rule_set.overrides for example in shown)
    assert {*shown} < {*EXAMPLES.values()}
    for example in EXAMPLES.values():
        assert read(example) != default()


def test_a_folder_of_directives_is_named_from_the_file(tmp_path: Path) -> None:
    """Its templates are tried when the settings are read, and then agents receive them."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "warn.txt.j2").write_text("Stop, {{ attempts }} times is enough.")
    file = tmp_path / "looptrace.toml"
    file.write_text('directives = "own"\n')
    settings = load(file)
    (warning,) = detect(turns_in("run(a)->b x3")).events

    assert settings.directives.text_of(warning) == "Stop, 3 times is enough."
    assert read(toml_of(settings)) == settings
    (own / "gate.txt.j2").write_text("{{ reason }}")
    with pytest.raises(SettingsError, match=r"looptrace\.toml:1: .*'reason' is undefined"):
        load(file)
    file.write_text('\ndirectives = "none"\n')
    with pytest.raises(SettingsError, match=r"looptrace\.toml:2: .*none: is not a folder"):
        load(file)


def test_files_of_secrets_lie_beside_the_settings(tmp_path: Path) -> None:
    """A service is started anywhere; the settings and what they name stay together."""
    path = tmp_path / "looptrace.toml"
    path.write_text(f"{HOOK}url = 'file:url'\nsecrets = ['file:new', 'env:OLD']\n")

    (webhook,) = load(path).webhooks

    assert webhook.url == f"file:{tmp_path / 'url'}"
    assert webhook.secrets == (f"file:{tmp_path / 'new'}", "env:OLD")
    assert read(toml_of(load(path))).webhooks == (webhook,)


def test_servers_are_known_by_host_and_port_unless_they_have_names() -> None:
    """Names are for those whom a load balancer reaches at another port."""
    assert read("").shards.urls == ()
    assert read(SHARDS).shards.ring == ("a:4318", "b:4318")
    named = read(f'{SHARDS}names = ["a:4317", "b:4317"]\nby = "trace"\n').shards
    assert (named.ring, named.by) == (("a:4317", "b:4317"), "trace")
    assert replace(named, former_urls=("http://c:1",)).former_ring == ("c:1",)
    assert read(toml_of(read(SHARDS))).shards == read(SHARDS).shards


@pytest.mark.parametrize(
    ("condition", "given", "holds"),
    [
        ("tests=pass", ("tests", "pass", None), True),
        ("tests=pass", ("tests", "fail", 1.0), False),
        ("tests=pass", ("tests", None, 1.0), None),
        ("tests>=0.8", ("tests", "pass", 0.8), True),
        ("tests>=0.8", ("tests", "pass", 0.7), False),
        ("tests>=0.8", ("tests", "pass", None), None),
        ("tests>=0.8", ("other", "pass", 1.0), None),
    ],
)
def test_an_outcome_says_solved_or_not_or_nothing(
    condition: str, given: tuple[str, str | None, float | None], holds: bool | None
) -> None:
    """A score of another kind says nothing of a run."""
    sources = OutcomeSources(evaluation=condition)
    assert sources.by_evaluation
    assert sources.by_evaluation.holds(*given) is holds
    assert (sources.are_known, OutcomeSources().are_known) == (True, False)
    assert sources.by_attribute is None


def test_what_a_file_needs_beside_it_is_read_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of the user's own, and the model of a language."""
    path = tmp_path / "looptrace.toml"
    (tmp_path / "model.json").write_text(model_json(EXAMPLE))
    path.write_text('model = "model.json"\n[rules.likely_failure]\nenabled = true\n')
    assert rule_in(load(path), "likely_failure") == LikelyFailure(model=EXAMPLE)

    def missing() -> None:
        raise EmbeddingsError("install the extra")

    monkeypatch.setattr(embeddings, "check", missing)
    with pytest.raises(SettingsError, match="measure is 'sentences', but install the extra"):
        read('[meaning]\nmeasure = "sentences"')
    with pytest.raises(SettingError, match=r"judge\.model is empty"):
        ChatSettings(base_url="https://x/v1", model="")
