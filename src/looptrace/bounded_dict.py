"""A dictionary of bounded size; it needs only the standard library."""

from collections import OrderedDict
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """Keeps at most `count_max` keys: a new key removes the oldest.

    A key that is set again keeps its place, unless it is moved or popped before. Each step is one
    operation of C, so threads may share it like a dictionary.
    """

    def __init__(self, count_max: int) -> None:
        super().__init__()
        self.count_max = count_max

    def __reduce__(self) -> Any:
        return type(self), (self.count_max,), None, None, iter(self.items())

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self.count_max:
            self.popitem(last=False)
