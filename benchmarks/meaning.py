"""Measures the comparison by meaning: `python -m benchmarks.meaning [--measure letters]`.

The pairs of `meaning_pairs.tsv` are labelled by hand: one request in other words, or two requests
that share words, figures or names. Every second pair is held out: thresholds were chosen by the
others. The report shows, for each measure, its recall at several thresholds, its errors at the
default one, and the number of new texts that it reads in a second.
"""

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from looptrace.analyzer.fingerprint.similarity import MEASURES, Meaning, Measure, sketch

PAIRS = Path(__file__).parent / "meaning_pairs.tsv"
PERCENTS = (75, 80, 85, 90, 95)
SAME = "same"


class Pair(NamedTuple):
    """Two requests, and whether they are the same for a person."""

    label: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a measure on pairs."""

    found: int
    rightly: int
    same: int

    @property
    def precision(self) -> float:
        """The share of the found pairs that are the same."""
        return self.rightly / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The share of the same pairs that were found."""
        return self.rightly / self.same


def pairs() -> list[Pair]:
    """Read the labelled pairs."""
    return [Pair(*line.split("\t")) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


def halves() -> tuple[list[Pair], list[Pair]]:
    """Return the pairs by which thresholds were chosen, and those that were held out."""
    every = pairs()
    return every[::2], every[1::2]


def are_alike(pair: Pair, meaning: Meaning) -> bool:
    """Return whether two requests to one agent mean the same, as rules see them."""
    first, second = (sketch(meaning.measure, text) for text in (pair.first, pair.second))
    if first is None or second is None or first.marks != second.marks:
        return False
    return int(first.vector @ second.vector) >= meaning.product_min


def score(of: Iterable[Pair], meaning: Meaning) -> Score:
    """Compare the pairs that a measure finds with the labels."""
    told = [(pair.label == SAME, are_alike(pair, meaning)) for pair in of]
    found = sum(alike for _, alike in told)
    rightly = sum(same and alike for same, alike in told)
    return Score(found, rightly, sum(same for same, _ in told))


def texts_per_s(measure: Measure) -> float:
    """Time sketches of texts that were never seen before, each a little longer than a pair's."""
    sketch(measure, "Load what has to be loaded.")
    texts = [f"{pair.first} {number}" for number, pair in enumerate(pairs())]
    start = time.perf_counter()
    for text in texts:
        sketch(measure, text)
    return len(texts) / (time.perf_counter() - start)


def lines(measure: Measure) -> list[str]:
    """Return the report on one measure."""
    report = [f"{measure}: {texts_per_s(measure):,.0f} texts/s", "  percent  chosen by   held out"]
    for percent in PERCENTS:
        chosen, held_out = (score(half, Meaning(measure, percent)) for half in halves())
        told = [f"{one.precision:.2f}/{one.recall:.2f}" for one in (chosen, held_out)]
        report.append(f"  {percent:7}  {told[0]:>9}  {told[1]:>9}   precision/recall")
    meaning = Meaning(measure)
    wrong = [pair for pair in pairs() if pair.label != SAME and are_alike(pair, meaning)]
    report += [f"  wrongly the same: {pair.first} | {pair.second}" for pair in wrong]
    return report


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", choices=MEASURES, action="append")
    for measure in parser.parse_args().measure or MEASURES:
        print("\n".join(lines(measure)))


if __name__ == "__main__":
    main()
