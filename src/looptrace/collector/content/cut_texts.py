"""Long texts as both of their ends, with a mark of what rules need to know about the rest."""

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, takewhile

from looptrace._core import chant_of, failed_tests, figures
from looptrace.analyzer.fingerprint.equivalence import NOTHING
from looptrace.analyzer.fingerprint.fingerprints import policy_of
from looptrace.analyzer.text.cut_texts import END_BYTES, CutMark
from looptrace.collector.content.keyed_hashes import exact_of, hash_of

_POLICY = policy_of(NOTHING)
# Lines are read from at most so much of each end; without their volatile parts they are shorter.
_READ_BYTES = 2 * END_BYTES


def cut_texts(texts: Collection[str], key: bytes) -> dict[str, str]:
    """Return each long text as its two ends and a mark (`CutMark`) between them."""
    # Lines around the mark keep it out of a stack trace, which is left out of an error.
    return {
        text: f"{head}\n{_mark(text, (head, tail), key)}\n\n{tail}"
        for text, (head, tail) in zip(texts, _ends(texts), strict=True)
    }


def _mark(text: str, ends: tuple[str, str], key: bytes) -> CutMark:
    """Return the mark of a text of which only the ends stay."""
    chant, counts = chant_of(text), figures(text)
    named = failed_tests(text)
    return CutMark(
        result=hash_of(_POLICY.answer(text), key),
        error=hash_of(_POLICY.masked(text, error=True), key),
        prompt=hash_of(_POLICY.prompt_words(text) or "", key),
        exact=exact_of(text, key),
        chant=chant if any(chant) else None,
        figures=None if counts == (None, None, None) else counts,
        names=None if named == failed_tests("\n".join(ends)) else hash_of(f"{named}", key),
    )


def _ends(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return both ends of each text, in whole lines where these are short.

    Lines are counted without their volatile parts. So texts that compare as equal have equal ends,
    however long their times and ids are.
    """
    sides = [side for text in map(str.strip, texts) for side in (_lines(text), _lines(text[::-1]))]
    forward = [line if i % 2 == 0 else line[::-1] for i, side in enumerate(sides) for line in side]
    masked_lines = iter([_POLICY.masked(line, error=True) for line in forward])
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
