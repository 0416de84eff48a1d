"""The files of a day, in the order in which rows came to them."""

import random
from pathlib import Path

import pytest

from looptrace.collector.store.file_names import DATA, covered, file_name, in_order, range_of
from tests.seeds import seeds


def test_names_say_their_range() -> None:
    """The first file keeps the name that it has in stores of earlier versions."""
    assert file_name(0, 0) == DATA
    assert file_name(2, 9) == "data-000002-000009.parquet"
    for first, last in ((0, 0), (0, 7), (8, 8), (1_000_000, 1_000_001)):
        assert range_of(Path("turns/day=2026-03-02/bucket=07", file_name(first, last))) == (
            first,
            last,
        )
    with pytest.raises(ValueError, match="is not a file of a table"):
        range_of("turns/day=2026-03-02/bucket=07/data.parquet.damaged")


@pytest.mark.parametrize("seed", seeds(20))
def test_a_file_within_the_range_of_another_is_covered(seed: int) -> None:
    """Whatever is merged and left by a kill, the files that count have each number once."""
    chance = random.Random(seed)
    folders = [Path(f"spans/day=2026-03-0{day}/bucket=01") for day in (2, 3)]
    kept = {folder: [(n, n) for n in range(12)] for folder in folders}
    every = {folder / file_name(n, n) for folder in folders for n in range(12)}
    for _ in range(6):
        folder = chance.choice(folders)
        start = chance.randrange(len(kept[folder]))
        parts = kept[folder][start : start + chance.randint(2, 4)]
        merged = (parts[0][0], parts[-1][1])
        kept[folder][start : start + len(parts)] = [merged]
        every.add(folder / file_name(*merged))
    expected = [folder / file_name(*each) for folder in folders for each in kept[folder]]
    shuffled = chance.sample(sorted(every), len(every))
    assert in_order(shuffled) == expected
    assert covered(shuffled) == every.difference(expected)
