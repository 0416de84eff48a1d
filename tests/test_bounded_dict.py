"""The dictionary that bounds what a process holds of tasks, spans and sessions."""

from concurrent.futures import ThreadPoolExecutor

from looptrace.bounded_dict import BoundedDict


def test_the_oldest_key_goes() -> None:
    """Memory that grows with the number of tasks ends a process that runs for months."""
    items: BoundedDict[str, int] = BoundedDict(2)
    items["a"] = 1
    items["b"] = 2
    items["a"] = 3
    items.update({"c": 4})

    assert dict(items) == {"b": 2, "c": 4}


def test_threads_may_share_it() -> None:
    """An agent's threads begin and end spans at once, and none may fail for it."""
    items: BoundedDict[int, int] = BoundedDict(8)

    def fill(start: int) -> None:
        for key in range(start, start + 20_000):
            items[key] = key
            items.pop(key - 3, None)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(0, 400_000, 100_000)))

    assert len(items) <= 8
