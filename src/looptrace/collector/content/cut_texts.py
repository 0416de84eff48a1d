"""Long texts as both of their ends, with a mark of what rules need to know about the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, takewhile

import polars as pl

from looptrace.analyzer.fingerprint.chants import chant_of
from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.fingerprint.masks import masked_results, masked_texts, prompt_texts
from looptrace.analyzer.fingerprint.runner_output import failed_tests, figures_of
from looptrace.analyzer.text.cut_texts import END_BYTES, CutMark
from looptrace.collector.content.keyed_hashes import exact_of, hash_of

# Lines are read from at most so much of each end; without their volatile parts they are shorter.
_READ_BYTES = 2 * END_BYTES


def cut_texts(texts: Collection[str], key: bytes) -> dict[str, str]:
    """Return each long text as its two ends and a mark (`CutMark`) between them."""
    given = pl.Series("text", list(texts), dtype=pl.String)
    if given.is_empty():
        return {}
    forms = zip(
        masked_results(given, NOTHING),
        masked_texts(given, NOTHING, error=True),
        prompt_texts(given, NOTHING),
        strict=True,
    )
    ends = _ends(given)
    shown = failed_tests(pl.Series("text", ["\n".join(both) for both in ends], dtype=pl.String))
    names = zip(failed_tests(given).rows(), shown.rows(), strict=True)
    figures = figures_of(given).rows()
    cut = {}
    for text, hashed, (named, named_by_ends), counts, (head, tail) in zip(
        given, forms, names, figures, ends, strict=True
    ):
        chant = chant_of(text)
        result, error, prompt = (hash_of(form or "", key) for form in hashed)
        mark = CutMark(
            result=result,
            error=error,
            prompt=prompt,
            exact=exact_of(text, key),
            chant=chant if chant.times else None,
            figures=None if counts == (None, None, None) else counts,
            names=None if named == named_by_ends else hash_of(f"{named}", key),
        )
        # Lines around the mark keep it out of a stack trace, which is left out of an error.
        cut[text] = f"{head}\n{mark}\n\n{tail}"
    return cut


def _ends(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return both ends of each text, in whole lines where these are short.

    Lines are counted without their volatile parts. So texts that compare as equal have equal ends,
    however long their times and ids are.
    """
    sides = [side for text in map(str.strip, texts) for side in (_lines(text), _lines(text[::-1]))]
    forward = [line if i % 2 == 0 else line[::-1] for i, side in enumerate(sides) for line in side]
    masked_lines = iter(masked_texts(pl.Series("text", forward), NOTHING, error=True))
    ends = []
    for number, side in enumerate(sides):
        step = 1 if number % 2 == 0 else -1
        ends.append(_head(side, [next(masked_lines)[::step] for _ in side])[::step])
    return list(zip(ends[::2], ends[1::2], strict=True))


def _lines(text: str) -> list[str]:
    return text[:_READ_BYTES].split("\n")


def _head(lines: Sequence[str], masked_lines: Sequence[str]) -> str:
    """Return the lines that fit; masked ones, and a part of the next, where they fit badly."""
    sizes = list(accumulate(_size(line) + 1 for line in masked_lines))
    whole = sum(1 for _ in takewhile(lambda size: size <= END_BYTES, sizes))
    if not whole or sizes[whole - 1] <= END_BYTES // 2:
        head = "\n".join(masked_lines[: whole + 1])
    else:
        head = "\n".join(lines[:whole])
        if _size(head) > END_BYTES:  # A path is longer than its mask.
            head = "\n".join(masked_lines[:whole])
    return head.encode("utf-8", "surrogatepass")[:END_BYTES].decode(errors="ignore")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
