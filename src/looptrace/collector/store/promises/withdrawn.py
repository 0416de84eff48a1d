"""The promises of learned limits that a server withdrew, and since when each is tested.

They are a note in the store, because a server does not write the file of its settings. Whoever
writes to the store evaluates it by the settings in which these limits only warn.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.settings.sections import Settings
from looptrace.analyzer.tuning.drift import without_promises
from looptrace.collector.store.layout import PROMISES_FILE, put_note, read_note


class WithdrawnPromise(msgspec.Struct, frozen=True):
    """A promise that did not hold: its key, when that was seen, the rule, and why in words."""

    key: str
    at_ns: int
    rule: str
    selectors: dict[str, str]  # of the turns that the limit is for; all where there are none
    why: str


class PromiseNote(msgspec.Struct, frozen=True):
    """The note: what was withdrawn, and by key since when the runs of a store test a promise."""

    withdrawn: tuple[WithdrawnPromise, ...] = ()
    since_ns: dict[str, int] = {}

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the promises that were withdrawn."""
        return frozenset(each.key for each in self.withdrawn)


def read_promises(store_dir: Path) -> PromiseNote:
    """Return the note of a store; an empty one where there is none."""
    what_then = "delete it, and withdrawn limits are gates again until the next test"
    return read_note(store_dir / PROMISES_FILE, PromiseNote, what_then) or PromiseNote()


def withdraw(store_dir: Path, withdrawn: Iterable[WithdrawnPromise]) -> None:
    """Note that promises do not hold."""
    noted = read_promises(store_dir)
    new = [each for each in withdrawn if each.key not in noted.keys]
    put_note(
        store_dir / PROMISES_FILE,
        msgspec.structs.replace(noted, withdrawn=(*noted.withdrawn, *new)),
    )


def renew(store_dir: Path, cleared: Iterable[str], made: Iterable[str], now_ns: int) -> None:
    """Forget withdrawals that the settings have by now, and note which promises were made.

    A promise that is made once more, and was kept, is tested by the runs that tested it before.
    """
    noted, keys, gone = read_promises(store_dir), [*made], {*cleared}
    still = tuple(each for each in noted.withdrawn if each.key not in gone)
    since_ns = {key: noted.since_ns.get(key, now_ns) for key in keys}
    since_ns |= {key: now_ns for key in keys if key in noted.keys}
    kept = {key: at_ns for key, at_ns in noted.since_ns.items() if key not in gone}
    put_note(store_dir / PROMISES_FILE, PromiseNote(still, kept | since_ns))


def policy_in(store_dir: Path, policy: DetectionPolicy) -> DetectionPolicy:
    """Return a policy in which the limits whose promise a store withdrew only warn."""
    rule_set = without_promises(policy.rule_set, read_promises(store_dir).keys)
    return policy if rule_set is policy.rule_set else replace(policy, rule_set=rule_set)


def settings_in(store_dir: Path, settings: Settings) -> Settings:
    """Return the settings with the policy in force in a store; raises what `policy_in` raises."""
    return replace(settings, policy=policy_in(store_dir, settings.policy))
