"""Prices: which one a model has, and what is wrong with a table and where."""

import time
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from looptrace.analyzer.detect import kept_prices
from looptrace.analyzer.detect.kept_prices import KeptPrices
from looptrace.analyzer.detect.prices import Price, Prices
from looptrace.analyzer.settings.given import settings_of
from looptrace.analyzer.settings.prices import MODELS_MAX, load, parsed
from looptrace.analyzer.settings.sections import load as load_settings
from looptrace.analyzer.settings.sections import parsed as parsed_settings
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.settings.toml_writer import toml_of
from tests.paths import ROOT

EXAMPLE = ROOT / "examples" / "prices.toml"
FREE = "input_per_million = 0\noutput_per_million = 0\n"


def prices(*patterns: str) -> Prices:
    """Give each pattern a price of its own, counted from 1."""
    return Prices("EUR", tuple(Price(pattern, n, n) for n, pattern in enumerate(patterns, 1)))


def refused(text: str) -> str:
    """Return the error for an unusable table."""
    with pytest.raises(SettingsError) as caught:
        parsed(text.encode(), "prices.toml")
    return str(caught.value)


def test_a_table_is_read_in_its_order() -> None:
    """The first that fits counts, so that the order is part of the table."""
    text = f'currency = "USD"\n[models."b*"]\n{FREE}[models.a]\n{FREE.replace("0", "2.5")}'

    assert parsed(text.encode(), "prices.toml") == Prices(
        "USD", (Price("b*", 0, 0), Price("a", 2.5, 2.5))
    )


@pytest.mark.parametrize(
    ("patterns", "model", "price"),
    [
        (["small-1"], "small-1", 1),
        (["small-1"], "small-10", None),
        (["mall-1"], "small-1", None),
        (["big*", "*"], "small-1", 2),
        (["*", "small-1"], "small-1", 1),
        (["*mini*"], "gpt-mini-2", 1),
        (["s*l*1"], "small-1", 1),
        (["gpt.4"], "gpt-4", None),
        (["gpt.4"], "gpt.4", 1),
        (["[a-z]+", "(", "\\d"], "a", None),
        (["a*"], "a\nb", 1),
        (["Small"], "small", None),
    ],
)
def test_the_first_pattern_that_fits_counts(
    patterns: list[str], model: str, price: int | None
) -> None:
    """A star is any text, and every other character is itself."""
    found = prices(*patterns).of([model, "other model"]).get(model)

    assert (found and found.input_per_million) == price


def test_no_pattern_is_slow() -> None:
    """A pattern of stars would keep a backtracking engine busy for hours."""
    started_s = time.process_time()

    assert prices("*a" * 90).of(["a" * 80 + "b"] * 1000) == {}
    assert time.process_time() - started_s < 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "prices.toml:1: the file has no models; it must be a table. The file has 1 more."),
        (
            f"[models.a]\n{FREE}",
            "prices.toml:1: the file has no currency; it must be a text of 1 to 10 characters.",
        ),
        (
            f'currency = ""\n[models.a]\n{FREE}',
            "prices.toml:1: currency is ''; it must be a text of 1 to 10 characters.",
        ),
        (
            'currency = "EUR"\n[models.a]\ninput_per_million = 1\n',
            "prices.toml:2: models.a has no output_per_million; "
            "it must be a number between 0 and 1000000.",
        ),
        (
            f'currency = "EUR"\n[models.a]\n{FREE.replace("0", "-1", 1)}',
            "prices.toml:3: models.a.input_per_million is -1; "
            "it must be a number between 0 and 1000000.",
        ),
        (
            f'currency = "EUR"\n[models.a]\n{FREE.replace("0", "nan", 1)}',
            "prices.toml:3: models.a.input_per_million is nan; "
            "it must be a number between 0 and 1000000.",
        ),
        (
            f'currency = "EUR"\n[models.a]\n{FREE.replace("0", "true", 1)}',
            "prices.toml:3: models.a.input_per_million is true; "
            "it must be a number between 0 and 1000000.",
        ),
        (
            f'currency = "EUR"\n[models.a]\n{FREE}per_hour = 1\n',
            "prices.toml:5: there is no 'per_hour' in models.a. "
            "Known: input_per_million, output_per_million, cached_per_million, "
            "cache_write_per_million, reasoning_per_million, tiers.",
        ),
        ('currency = "EUR"\nmodels = 3\n', "prices.toml:2: models is 3; it must be a table."),
        ('currency = "EUR"\nmodels.a = 3\n', "prices.toml:2: models.a is 3; it must be a table."),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, said: str) -> None:
    """One clear line: where, what, and what may stand there."""
    assert refused(text) == said


def test_a_table_is_bounded() -> None:
    """Each pattern is compared with each model."""
    many = "".join(f"[models.m{n}]\n{FREE}" for n in range(MODELS_MAX + 1))

    assert f"it may have 0 to {MODELS_MAX}." in refused(f'currency = "EUR"\n{many}')


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A mistyped path is no empty table."""
    with pytest.raises(SettingsError, match=r"no\.toml: cannot be read: No such file"):
        load(tmp_path / "no.toml")


def test_the_example_is_a_table_and_says_that_it_is_none_of_real_prices() -> None:
    """Somebody will copy it."""
    assert load(EXAMPLE).of(["gpt-4.1-mini", "gemini-2.5-flash"]).keys() == {
        "gpt-4.1-mini",
        "gemini-2.5-flash",
    }
    assert "MADE UP" in EXAMPLE.read_text(encoding="utf-8")


def test_settings_name_a_file_of_prices(tmp_path: Path) -> None:
    """Budgets in money are kept by the prices beside the settings, wherever these are read from."""
    (tmp_path / "own.toml").write_text(f'currency = "USD"\n[models."a*"]\n{FREE}', encoding="utf-8")
    file = tmp_path / "looptrace.toml"
    file.write_text('prices = "own.toml"\n', encoding="utf-8")

    settings = load_settings(file)

    assert settings.policy.rule_set.counting.prices == Prices("USD", (Price("a*", 0, 0),))
    assert f'prices = "{tmp_path / "own.toml"}"' in toml_of(settings)

    file.write_text('prices = "none.toml"\n', encoding="utf-8")
    with pytest.raises(SettingsError, match=r"prices cannot be used: .*none\.toml"):
        load_settings(file)


def test_cached_tokens_have_prices_of_their_own() -> None:
    """Nine tenths of what an agent reads come from a cache, at a tenth of the price."""
    table = f'currency = "USD"\n[models.a]\n{FREE}cached_per_million = 0.3\n'.replace(
        "= 0\n", "= 3\n"
    )

    found = parsed(table.encode(), "prices.toml")

    assert found.by_kind("a") == (3, 3, 0.3, 3, 3)
    assert found.by_kind("b") is None


def test_list_prices_come_from_an_installed_package() -> None:
    """Nobody types in what a package knows, and the report says how old it is."""
    found = load("genai-prices")

    assert found.currency == "USD"
    assert found.source.startswith(f"genai-prices {version('genai-prices')}, list prices of 20")
    # Of one name as it is, dated, behind a gateway, and of Bedrock.
    names = ["gpt-4o", "gpt-4o-2024-08-06", "openai/gpt-4o"]
    assert {found.by_kind(name) for name in names} == {(2.5, 10, 1.25, 2.5, 10)}
    assert found.by_kind("anthropic.claude-3-5-sonnet-20241022-v2:0") == (3, 15, 0.3, 3.75, 15)
    assert found.by_kind("made-up-1") is None


def test_own_prices_come_before_those_of_the_package() -> None:
    """A contract is cheaper than the list."""
    own = f'currency = "USD"\nothers = "genai-prices"\n[models."gpt-4o"]\n{FREE}'

    found = parsed(own.encode(), "prices.toml")

    assert found.of(["gpt-4o", "gpt-4.1"]).keys() == {"gpt-4o", "gpt-4.1"}
    assert found.by_kind("gpt-4o") == (0, 0, 0, 0, 0)
    assert refused(own.replace("USD", "EUR")) == (
        "prices.toml:1: currency is 'EUR'; it must be 'USD', as in genai-prices."
    )


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install; the settings say which line asked for it."""

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(kept_prices, "version", missing)

    with pytest.raises(
        SettingsError, match=r"genai-prices is not installed: pip install '.*prices"
    ):
        load("genai-prices")
    with pytest.raises(SettingsError, match=r"settings:1: prices cannot be used: .*prices\]"):
        settings_of({"prices": "genai-prices"})
    asked = refused(f'currency = "USD"\nothers = "genai-prices"\n[models.a]\n{FREE}')
    assert asked.startswith("prices.toml:2: others cannot be used: the package genai-prices is not")


def test_another_day_is_no_other_setting() -> None:
    """A store is not evaluated again each morning."""
    one, other = (KeptPrices("1", date(2026, 11, day)) for day in (1, 2))

    assert (one, repr(one)) == (other, repr(other))


OWN = """
[prices]
currency = "EUR"
[prices.models."small*"]
input_per_million = 2
output_per_million = 10
cached_per_million = 1
cache_write_per_million = 4
reasoning_per_million = 20
tiers = { Batch = 0.5, priority = 2 }
"""


def test_settings_have_prices_of_their_own(tmp_path: Path) -> None:
    """A table in the file is the same as a file beside it, and is written as it was read."""
    file = tmp_path / "looptrace.toml"
    file.write_text(OWN, encoding="utf-8")

    found = load_settings(file)

    assert found.prices == parsed(OWN.replace("prices.", "").encode()[10:], "own.toml")
    assert found.prices is not None
    assert found.prices.by_kind("small-1") == (2, 10, 1, 4, 20)
    # Of a tier that nothing is said of, the whole.
    tiers = {"batch": (1, 5, 0.5, 2, 10), "priority": (4, 20, 2, 8, 40), "auto": (2, 10, 1, 4, 20)}
    assert {tier: found.prices.by_kind("small-1", tier) for tier in tiers} == tiers
    file.write_text(toml_of(found), encoding="utf-8")
    assert load_settings(file).prices == found.prices


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("= 2\n", "= -2\n", "t.toml:5: prices.models.small*.input_per_million is -2"),
        ("currency", "money", "prices has no currency"),
        (
            "Batch = 0.5",
            "Batch = 101",
            "tiers.Batch is 101; it must be a number between 0 and 100.",
        ),
        ('"EUR"', '"EUR"\nothers = "genai-prices"', "prices.currency is 'EUR'; it must be 'USD'"),
        ('"EUR"', '"EUR"\nothers = "litellm"', "prices.others is 'litellm'"),
    ],
)
def test_what_is_wrong_in_own_prices_is_said(before: str, after: str, said: str) -> None:
    """With the line, as of any other section."""
    with pytest.raises(SettingsError) as caught:
        parsed_settings(OWN.replace(before, after, 1).encode(), "t.toml")

    assert said in str(caught.value)
