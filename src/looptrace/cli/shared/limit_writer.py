"""Writes what `calibrate` learned: limits into the settings, and their promises into the store."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from looptrace.analyzer.detect.ruleset import Override
from looptrace.analyzer.settings.outcomes.sources import OutcomeSources
from looptrace.analyzer.settings.sections import FILE_NAME, Settings, load, of_profile
from looptrace.analyzer.settings.toml_editor import with_model, with_outcomes, with_override
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.tuning.drift import PromiseTest, as_warning, promise_key, promises
from looptrace.analyzer.tuning.failure_model import model_json
from looptrace.analyzer.tuning.limits import Limit
from looptrace.cli.shared import traces
from looptrace.collector.store.promises.withdrawn import PromiseNote, read_promises, renew
from looptrace.rules.prediction.likely_failure import LikelyFailure, Model

_NAME_CHARS_MAX = 60  # of a model in a comment


def changes_of(
    learned: Sequence[Limit],
    tests: Sequence[PromiseTest],
    settings: Settings,
    noted: PromiseNote,
    lost: float,
    spared: int | None,
) -> list[tuple[Override, str]]:
    """Return the overrides that withdraw promises, and those that make some, with comments.

    If it is not said how many tasks are `spared`, it is as many as by the limits before.
    """
    rule_set = settings.policy.rule_set
    if spared is None:
        before = (rule.ladder[-1].spared_percent for _, rule in promises(rule_set))
        spared = max(before, default=0)
    gone = noted.keys | {each.key for each in tests if each.is_withdrawn}
    changes = [
        (replace(override, rules={rule.name: as_warning(rule)}), _WITHDRAWN)
        for override, rule in promises(rule_set)
        if promise_key(override, rule) in gone
    ]
    kept = [each for each in learned if each.is_kept(lost)]
    return changes + [(e.override(rule_set, lost, spared), _source_of(e)) for e in kept]


def _text_of(settings: Settings) -> str:
    """Return the text of a file with these settings; of a profile alone its name is enough."""
    is_plain = settings == of_profile(settings.profile)
    return f'profile = "{settings.profile}"\n\n' if is_plain else toml_of(settings)


def note_promises(store: Path | None, changes: Sequence[tuple[Override, str]]) -> None:
    """Note in the store which promises are made, and forget those that the settings have not."""
    if store is None or not changes:
        return
    wanted = {
        promise_key(override, rule)
        for override, _ in changes
        for rule in override.rules.values()
        if rule
    }
    keys = {promise_key(*each) for each in promises(load(FILE_NAME).policy.rule_set)}
    absent = read_promises(store).keys - keys
    renew(store, absent | wanted, wanted & keys, time.time_ns())


def say_what_tests(sources: OutcomeSources, spared: int | None) -> None:
    """Say that no server can test a promise, where that is so."""
    if spared and not sources.are_known:
        click.echo(
            "A server cannot test what is promised, as nothing in its store says which runs were "
            "solved: call calibrate again, or name an evaluation in [outcomes].",
            err=True,
        )


_WITHDRAWN = "a learned limit whose promise was withdrawn: it only warns"


def _source_of(limit: Limit) -> str:
    """Return the comment on a learned limit: from what it was learned, and what it promises."""
    made, of_model = limit.together, plain(limit.kind.model, _NAME_CHARS_MAX)
    return (
        f"learned from {limit.chosen_on + made.losable:,} solved runs of "
        f"{of_model or 'any model'}: at most {made.at_most:.1%} lost (95 %), "
        f"{made.saved:.0%} of the other runs' steps saved"
    )


def write_overrides(
    changes: Sequence[tuple[Override, str]],
    model: Model | None,
    model_file: Path | None,
    settings: Settings,
    sources: OutcomeSources,
) -> None:
    """Write overrides into the file of the settings, each with a comment, and the sources."""
    if not changes:
        click.echo("Nothing is written: no limit keeps the promise.", err=True)
        return
    path = Path(FILE_NAME)
    own = path.exists() and load(path) == settings
    text = path.read_bytes().decode("utf-8-sig") if own else _text_of(settings)
    if model and model_file and any(LikelyFailure.name in each.rules for each, _ in changes):
        traces.write(model_json(model), model_file)
        text = with_model(text, str(model_file))
    if sources != settings.outcomes:
        text = with_outcomes(text, sources)
    for override, said in changes:
        text = with_override(text, FILE_NAME, override, said)
    replace_file(path, text, keep=path.exists() and not own)


def replace_file(path: Path, text: str, *, keep: bool) -> None:
    """Write the file whole or not at all; `keep` the earlier one under another name."""
    new = path.with_suffix(".toml.new")
    try:
        new.write_text(text, encoding="utf-8", newline="")
        if keep:
            kept = path.with_suffix(".toml.before")
            path.replace(kept)
            click.echo(f"The earlier {path} is kept as {kept}.", err=True)
        new.replace(path)
    except OSError as error:
        raise click.UsageError(
            f"{path} cannot be written ({error.strerror}); name another file."
        ) from error
    click.echo(f"The settings are in {path}.", err=True)
