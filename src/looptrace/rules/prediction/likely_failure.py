"""The rule `likely_failure`, and the signs that it reads."""

import zlib
from dataclasses import dataclass
from math import isfinite, log, log2
from typing import Any

import numpy as np

from looptrace.rules.contract import (
    Evaluation,
    Loop,
    Rule,
    Rung,
    SettingError,
    ladder_setting,
    repeats,
    setting,
)
from looptrace.rules.turns import KINDS, UNKNOWN, Codes, Figures, Flags, Lane, LaneSpec
from looptrace.rules.vocabulary import NS_PER_S, pair, same_as, streak

WINDOW_MAX = 20
# Sums of whole numbers are the same however many turns are evaluated at once.
_PARTS = 1_000
# Only the beginning of a longer output is read, so that a turn takes a bounded time.
_CHARS_MAX = 500
_PERCENT = 100

# The signs of the last turns, including the newest; all except the last two are shares.
SIGNS = {
    "again": "Actions that came before: calls with arguments, responses.",
    "same_answer": "Outcomes of calls that came before.",
    "both": "Actions that came before with the same outcome.",
    "failed": "Turns that are known to have failed.",
    "same_failure": "Failures that came before.",
    "entropy": "Entropy of the actions, as a share of its maximum.",
    "novelty": "Share of an output that remains after compression with the earlier outputs.",
    "novelty_now": "The same for the last output only.",
    "pause": "Mean of the logarithms (base 2) of one second plus the time since the previous turn.",
}


@dataclass(frozen=True, slots=True)
class Model:
    """A logistic regression over standardised signs: plain numbers, as `calibrate` fits.

    Raises:
        SettingError: if it does not fit the signs, or has numbers that are not finite.
    """

    window: int  # turns
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float

    def __post_init__(self) -> None:
        numbers = (*self.mean, *self.scale, *self.weights, self.intercept)
        sizes = {len(self.mean), len(self.scale), len(self.weights)}
        is_sound = all(map(isfinite, numbers)) and all(value > 0 for value in self.scale)
        if sizes != {len(SIGNS)} or not is_sound or not 2 <= self.window <= WINDOW_MAX:
            raise SettingError(
                f"model must have {len(SIGNS)} finite numbers of each kind, scales above 0, and a"
                f" window of 2 to {WINDOW_MAX} turns."
            )

    def score(self, signs: Figures) -> Figures:
        """Return the logarithm of the odds of each row; added up in one order, for all rows."""
        total = np.full(len(signs), self.intercept)
        for column, parts in enumerate(zip(self.mean, self.scale, self.weights, strict=True)):
            mean, scale, weight = parts
            total += (signs[:, column] - mean) / scale * weight
        return total


def model_of(data: Any) -> Model:
    """Return the model of parsed JSON; other keys are ignored.

    Raises:
        SettingError: if it has no model.
    """
    try:
        if tuple(data["signs"]) != tuple(SIGNS):
            raise SettingError("model was made for other signs.")
        lists = {name: tuple(map(float, data[name])) for name in ("mean", "scale", "weights")}
        return Model(int(data["window"]), **lists, intercept=float(data["intercept"]))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, SettingError):
            raise
        raise SettingError("model is not a file of `looptrace calibrate`.") from error


# The least log-odds of each percent, from 1 to 99.
_ODDS = np.array([log(percent / (_PERCENT - percent)) for percent in range(1, _PERCENT)])


def percents(scores: Figures) -> Codes:
    """Return the whole percents of log-odds, rounded down, from 0 to 99."""
    return np.searchsorted(_ODDS, scores, side="right").astype(np.int64)


@dataclass(frozen=True, slots=True)
class LikelyFailure(Rule):
    """A run is likely to fail, by a model of your own runs whose outcome is known.

    A small model turns signs of the last turns (actions and outcomes that came before,
    failures, variety of actions, news in outputs) into a probability.
    [`calibrate`](../calibrate.md#a-model) fits it, and puts it into use only where it saves
    more than any counter. No model ships, and without one the rule finds nothing.

    ## Looping
    - `look({n})->"There is nothing new in the inbox of the support team" x12`
    - `(list(a)->"a.py b.py c.py d.py" read(a.py)->"def main(): return run(parse())") x6`

    ## Not looping
    - `(edit(a{n})->ok run(tests)->!"{n} is wrong, and so is {n}4") x9`: new failures.
    - `look(a)->"There is nothing new in the inbox of the support team" x3`: too few turns.
    - `(user("And now?") look(a)->"There is nothing new in the inbox") x9`: a person asked.
    """

    name = "likely_failure"
    lane = LaneSpec(by="task", kinds=("tool", "model", "handoff"))
    learns_limit = True
    exact = False
    on_by_default = False
    reads_texts = True
    actions = ("warn", "gate")

    attempts_min: int = setting(
        3, ge=2, le=20, doc="Turns in a row at which a failure must be likely."
    )
    likely_percent: int = setting(
        90, ge=1, le=99, doc="Least probability of a failure, in percent."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(3, "warn"),))
    model: Model | None = None

    @property
    def lookback(self) -> int:
        """The likely turns, the window of each, and the turns before the window's first turn."""
        window = self.model.window if self.model else 1
        return self.attempts_min + 2 * window - 2

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the turns in a row at which a failure is likely."""
        one = np.ones_like(lane.rows)
        if self.model is None:
            return repeats(np.zeros_like(lane.rows), self.attempts_min, one)
        likely = percents(self.model.score(signs_of(lane, self.model.window)))
        holds = (likely >= self.likely_percent) & tells(lane, self.model.window)
        return repeats(streak(lane, holds), self.attempts_min, one)

    def say(self, loop: Loop) -> str:
        """Say that it is a guess."""
        return f"the run is likely to fail, since {loop.labels[0]}"


def tells(lane: Lane, window: int) -> Flags:
    """Return which turns have half a window before them; with fewer the signs mean little."""
    return lane.position + 1 >= window // 2


def signs_of(lane: Lane, window: int) -> Figures:
    """Return the `SIGNS` at each turn of a lane: one row a turn, one column a sign."""
    is_model = lane.turns.kind[lane.rows] == KINDS.index("model")
    failed = lane.turns.failed[lane.rows]
    action = np.where(is_model, lane.response, lane.call)
    answer = np.where(is_model, UNKNOWN, lane.outcome)
    failure = np.where(failed, answer, UNKNOWN)
    novelty, is_told = _novelty(lane, window)
    columns = (
        *(_share(lane, _seen(lane, codes, window), window) for codes in (action, answer)),
        _share(lane, _seen(lane, pair(action, answer), window), window),
        _share(lane, failed, window),
        _share(lane, _seen(lane, failure, window), window),
        _entropy(lane, action, window),
        _over(_sums(lane, novelty, window), _sums(lane, is_told, window)),
        np.where(is_told, novelty, _PARTS) / _PARTS,
        _over(_sums(lane, _pauses(lane), window), _sizes(lane, window)),
    )
    return np.column_stack(columns)


def _sizes(lane: Lane, window: int) -> Codes:
    """Return the number of turns in each window, which is small at the start of a lane."""
    return np.minimum(lane.position + 1, window)


def _sums(lane: Lane, numbers: Codes | Flags, window: int) -> Codes:
    """Add up whole numbers over the last turns."""
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(numbers, dtype=np.int64)])
    end = np.arange(1, len(lane.rows) + 1)
    added: Codes = sums[end] - sums[end - _sizes(lane, window)]
    return added


def _over(parts: Codes, counts: Codes) -> Figures:
    """Return the means of counts in parts; 1 where there is no count."""
    return np.where(counts > 0, parts / (np.maximum(counts, 1) * _PARTS), 1.0)


def _share(lane: Lane, holds: Flags, window: int) -> Figures:
    share: Figures = _sums(lane, holds, window) / _sizes(lane, window)
    return share


def _seen(lane: Lane, codes: Codes, window: int) -> Flags:
    """Return which turns are known to equal an earlier one within a window."""
    seen = np.zeros(len(codes), dtype=np.bool_)
    for back in range(1, window):
        seen |= same_as(lane, codes, back)
    return seen


def _entropy(lane: Lane, codes: Codes, window: int) -> Figures:
    """Return the entropy of the codes in each window, divided by its maximum.

    The entropy is log n - (1/n) sum log c, where c is the number of turns in the window that equal
    each turn.
    """
    logs = np.array([round(log2(max(count, 1)) * _PARTS) for count in range(window + 1)])
    counts = np.ones((window, len(codes)), dtype=np.int64)
    for later in range(window):
        for back in range(1, window - later):
            alike = np.zeros(len(codes), dtype=np.bool_)
            alike[later:] = same_as(lane, codes, back)[: max(len(codes) - later, 0)]
            counts[later] += alike
            counts[later + back] += alike
    size = _sizes(lane, window)
    there = np.arange(window)[:, None] < size
    lost = np.where(there, logs[counts], 0).sum(axis=0)
    most = logs[size] * size
    entropy: Figures = np.where(most > 0, 1 - lost / np.maximum(most, 1), 1.0)
    return entropy


def _novelty(lane: Lane, window: int) -> tuple[Codes, Flags]:
    """Return the remaining share of each output, in parts of 1,000, and whether it is known."""
    texts = [(text or "")[:_CHARS_MAX].encode("utf-8", "replace") for text in lane.texts]
    novelty = np.zeros(len(texts), dtype=np.int64)
    for i, (text, position) in enumerate(zip(texts, lane.position.tolist(), strict=True)):
        if text:
            before = b"\n".join(texts[i - min(window - 1, position) : i])
            novelty[i] = _PARTS * _packed(text, before) // _packed(text, b"")
    return novelty, np.array([bool(text) for text in texts], dtype=np.bool_)


def _packed(text: bytes, known: bytes) -> int:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS, zdict=known) if known else _fresh()
    return len(packer.compress(text)) + len(packer.flush())


def _fresh() -> Any:
    return zlib.compressobj(wbits=-zlib.MAX_WBITS)


def _pauses(lane: Lane) -> Codes:
    """Return the logarithm of each pause, in parts of 1,000; 0 at the start of a lane."""
    pauses = np.zeros(len(lane.rows), dtype=np.int64)
    pauses[1:] = np.maximum(np.diff(lane.end_ns), 0)
    pauses[lane.position == 0] = 0
    parts: Codes = np.rint(np.log2(1 + pauses / NS_PER_S) * _PARTS).astype(np.int64)
    return parts
