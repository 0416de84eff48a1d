"""A rung that no loop can reach is refused, because its author counts on it."""

import pytest

from looptrace.analyzer.gates.ladders import check_reach
from looptrace.analyzer.settings.profiles import PROFILES, rules_of_profile
from looptrace.analyzer.settings.sections import parsed
from looptrace.analyzer.settings.toml_reader import SettingsError

requirement = pytest.mark.requirement


def rungs(*pairs: tuple[int, str]) -> str:
    """Write a ladder as a settings file has it."""
    entries = ", ".join(f'{{ attempts = {count}, action = "{action}" }}' for count, action in pairs)
    return f"ladder = [{entries}]"


@requirement("F4")
@pytest.mark.parametrize("profile", PROFILES)
def test_every_rung_of_a_profile_can_be_reached(profile: str) -> None:
    """What looptrace ships must pass what it asks of others."""
    for rule in rules_of_profile(profile):
        check_reach(rule, PROFILES[profile].recovery)


@requirement("F4")
@pytest.mark.parametrize(
    ("ladder", "more", "why"),
    [
        (
            rungs((3, "pivot"), (10, "gate")),
            "",
            "has gate at 10 attempts, which no loop can reach: recovery.max_pivots is 2, so a "
            "gate opens at 9.",
        ),
        (
            rungs((3, "force_next"), (5, "gate")),
            "",
            "has gate at 5 attempts, which no loop can reach: the order to move on at 3 clears",
        ),
        (
            rungs((3, "gate"), (5, "gate")),
            "",
            "has gate at 5 attempts, which no loop can reach: the gate at 3 stops the task.",
        ),
        (
            rungs((3, "unblock_authority"), (5, "gate")),
            "",
            "has gate at 5 attempts, which no loop can reach: authority is given at 3, and the",
        ),
        (
            rungs((3, "unblock_authority"), (4, "gate")),
            "[recovery]\nunblock = false\n",
            "has gate at 4 attempts, which no loop can reach: recovery.unblock is false, so a "
            "gate opens at 3.",
        ),
        (
            rungs((4, "warn"), (5, "gate")) + "\nattempts_min = 5",
            "",
            "has warn at 4 attempts, which no loop can reach: attempts_min is 5, where the ladder "
            "asks for gate.",
        ),
        (
            rungs((3, "pivot"), (4, "gate")),
            "[recovery]\nmax_pivots = 0\n",
            "has gate at 4 attempts, which no loop can reach: recovery.max_pivots is 0, so a "
            "gate opens at 3.",
        ),
    ],
)
def test_a_rung_out_of_reach_is_refused(ladder: str, more: str, why: str) -> None:
    """The error names the rung and says what comes before it."""
    with pytest.raises(SettingsError, match=r"rules\.repeated_call\.ladder") as raised:
        parsed(f"{more}[rules.repeated_call]\n{ladder}\n".encode(), "looptrace.toml")
    assert why in str(raised.value)


@requirement("F4")
def test_a_rung_at_the_last_count_is_reached() -> None:
    """The bounds are exact: what opens a gate at nine may as well stand there."""
    for rule, ladder in (
        ("repeated_call", rungs((3, "pivot"), (9, "gate"))),
        ("repeated_call", rungs((3, "unblock_authority"), (4, "gate"))),
        ("hang", rungs((1, "warn"), (2, "gate"))),  # It finds a loop at the first.
    ):
        parsed(f"[rules.{rule}]\n{ladder}\n".encode(), "looptrace.toml")
