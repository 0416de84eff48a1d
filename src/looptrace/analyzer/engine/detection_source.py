"""What findings depend on, so that turns are evaluated again only after a change."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from looptrace.analyzer.engine.policy import DetectionPolicy
from looptrace.analyzer.fingerprint.fingerprints import fingerprint_source
from looptrace.analyzer.text.digests import digest

# The code from turns to findings; later code does not change which tasks have findings.
_PACKAGES = (
    "looptrace.analyzer.detect",
    "looptrace.analyzer.fingerprint",
    "looptrace.analyzer.schema",
    "looptrace.analyzer.text",
    "looptrace.rules",
)


def detection_source(policy: DetectionPolicy) -> str:
    """Return a hash of everything that findings depend on besides the spans; "" if it is not known.

    The imports of a plug-in rule are not known, and neither is the model that compares meanings, or
    what tasks elsewhere spend from the same budget.
    """
    rule_set = policy.rule_set
    overriding = (rule for override in rule_set.overrides for rule in override.rules.values())
    rules = (rule for rule in (*rule_set.rules, *overriding) if rule is not None)
    own = all(type(rule).__module__.startswith("looptrace.rules.") for rule in rules)
    if rule_set.meaning is not None or not own or policy.budgets.limits:
        return ""
    return digest(f"{policy!r} {fingerprint_source(policy.sameness)} {_code()}")


@cache
def _code() -> str:
    """Return a hash of the modules of the detection."""
    texts = (text for package in _PACKAGES for text in _modules(files(package)))
    return digest("".join(sorted(texts)))


def _modules(folder: Traversable) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_text("utf-8")
