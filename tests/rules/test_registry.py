"""The registry finds the rules by itself, and reports modules that are not rules."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from looptrace.rules.registry import RULES, RegistryError, discover, family_of
from tests.paths import ROOT

PACKAGE = "rules_of_a_test"
RULE = '''
from looptrace.rules.calls.repeated_call import RepeatedCall


class Own(RepeatedCall):
    """A call comes again."""

    name = "{name}"
'''


@pytest.fixture
def families(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a package of rules with the families `a` and `b`, without a module."""
    folder = tmp_path / PACKAGE
    for part in (folder, folder / "a", folder / "b"):
        part.mkdir()
        (part / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_every_module_of_a_family_is_found() -> None:
    """A rule that is not found would never fire, without any error."""
    folder = ROOT / "src/looptrace/rules"
    modules = {path.stem for path in folder.glob("*/*.py")} - {"__init__"}

    assert sorted(rule.name for rule in RULES) == sorted(modules)


def test_guards_frame_the_rules_that_stand_by_name(families: Path) -> None:
    """The order of every listing is that of the names, and guards say when they are checked."""
    for name, checked in (("z", "with_loops"), ("y", "before_loops"), ("x", "with_loops")):
        own = RULE.format(name=name) + f'    checked = "{checked}"\n'
        (families / "a" / f"{name}.py").write_text(own)
    (families / "b" / "k.py").write_text(RULE.format(name="k") + '    checked = "after_loops"\n')

    assert [rule.name for rule in discover(PACKAGE)] == ["y", "x", "z", "k"]


@pytest.mark.parametrize(
    ("modules", "why"),
    [
        ({"a/empty.py": ""}, "empty: it has no rule; a module of a family has one."),
        (
            {"a/two.py": RULE.format(name="two") + "\n\nclass More(Own):\n    pass\n"},
            "two: it has 2 rules; a module of a family has one.",
        ),
        ({"a/one.py": RULE.format(name="other")}, "one: its rule must have the name 'one'."),
        (
            {"a/same.py": RULE.format(name="same"), "b/same.py": RULE.format(name="same")},
            "b.same: rules_of_a_test.a.same has a rule of this name too.",
        ),
    ],
)
def test_a_module_that_is_no_rule_is_named(
    families: Path, modules: dict[str, str], why: str
) -> None:
    """The author of a rule reads at once what is wrong with it, and where."""
    for path, text in modules.items():
        (families / path).write_text(text)

    with pytest.raises(RegistryError) as error:
        discover(PACKAGE)

    assert str(error.value).endswith(why)


@pytest.mark.parametrize("rule", RULES)
def test_every_family_says_what_it_looks_at(rule: type) -> None:
    """The list of the rules shows this sentence."""
    assert (family_of(rule).__doc__ or "").endswith(".")
