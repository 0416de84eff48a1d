from collections.abc import Callable
from pathlib import Path

import pytest

from looptrace.analyzer.llm_judge import NoOpinion, Question
from looptrace.collector.judge.plugins import JudgeError, judge_named
from tests.plugins import install_judges

requirement = pytest.mark.requirement

MODULE = """
from looptrace.analyzer.llm_judge import NoOpinion

class Silent:
    def opinion(self, question):
        return NoOpinion("I never say anything.")

def broken():
    raise RuntimeError("no model here")

no_judge = object
"""
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution that offers judges, as pip leaves it on the disk."""

    def install_one(distribution: str = "judges", **offered: str) -> Path:
        folder = tmp_path / distribution
        install_judges(folder, monkeypatch, MODULE, **offered)
        return folder

    return install_one


@requirement("A13")
def test_nobody_is_asked_by_default() -> None:
    """Without a judge nothing is loaded and nothing is sent."""
    assert judge_named("none") is None


@requirement("A13")
def test_a_plug_in_is_found_by_its_name(install: Install) -> None:
    """Another distribution offers a judge, and it is asked."""
    install(silent="Silent")
    judge = judge_named("silent")

    assert judge is not None
    question = Question("t", "monologue", "it talks", None, ())
    assert judge.opinion(question) == NoOpinion("I never say anything.")


@requirement("A13")
@pytest.mark.parametrize(
    ("offered", "name", "message"),
    [
        ({}, "silent", r"there is no judge 'silent'\. Known: none, chat\."),
        ({"silent": "Silent"}, "slient", r"no judge 'slient'\. Did you mean silent\?$"),
        ({"a": "broken"}, "a", r"'judges_module:broken' .* cannot .* RuntimeError: no model here"),
        ({"a": "absent"}, "a", "cannot be used: .*AttributeError: .*absent"),
        ({"a": "no_judge"}, "a", r"'judges_module:no_judge' .* with a method opinion\(question\)"),
    ],
)
def test_a_judge_that_cannot_be_had_is_named(
    install: Install, offered: dict[str, str], name: str, message: str
) -> None:
    """One line says which plug-in it is and what is wrong with it."""
    install(**offered)

    with pytest.raises(JudgeError, match=message) as caught:
        judge_named(name)
    assert "\n" not in str(caught.value)


def test_two_judges_of_one_name_are_refused(install: Install) -> None:
    """Which of the two would be asked depends on the order of folders."""
    install("first", silent="Silent")
    install("second", silent="Silent")

    with pytest.raises(JudgeError, match=r"several judges silent \(first_.*, second_.*\)"):
        judge_named("silent")


def test_one_judge_seen_twice_is_one(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable installation may stand on the path twice."""
    folder = install(silent="Silent")
    monkeypatch.syspath_prepend(f"{folder}/.")

    assert judge_named("silent") is not None
