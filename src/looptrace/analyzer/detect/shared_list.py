"""A list that grows at its end in constant time, and never changes for its holders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar, overload

T = TypeVar("T")


class SharedList(Sequence[T]):
    """The first items of a list; all lists that grew from one another share these items.

    Batch uses tuples instead, which do not need to grow.
    """

    __slots__ = ("_count", "_items")

    def __init__(self, items: list[T], count: int) -> None:
        self._items = items
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...

    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        if isinstance(place, slice):
            return [self._items[each] for each in range(*place.indices(self._count))]
        return self._items[range(self._count)[place]]

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._count)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SharedList) and other._items is self._items:
            return other._count == self._count
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def grown(self, more: Sequence[T]) -> SharedList[T]:
        """Return the list with more items at its end.

        Nothing is copied if the same items were added before, as when late turns are looked at
        again.
        """
        end = self._count + len(more)
        known = self._items[self._count : end]
        items = self._items if known == list(more[: len(known)]) else self._items[: self._count]
        items.extend(islice(more, len(items) - self._count, None))
        return SharedList(items, end)


def grown(items: Sequence[T], more: Sequence[T]) -> Sequence[T]:
    """Return items with more items at their end."""
    shared: Any = items if isinstance(items, SharedList) else SharedList(list(items), len(items))
    result: SharedList[T] = shared.grown(more)
    return result
