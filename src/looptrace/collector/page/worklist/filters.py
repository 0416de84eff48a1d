"""Filters of lists, read from the query of an address."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

_PAGE_DIGITS_MAX = 6


def choices_of(values: Iterable[str | None]) -> list[str]:
    """Return the values to choose from, without those that have control characters."""
    return sorted({value for value in values if value and value.isprintable()})


@dataclass(frozen=True, slots=True)
class ListFilter:
    """A search and a page of a list; each kind of list adds fields, and an empty one is no filter.

    A list is cut into pages, counted from 1.
    """

    q: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Return the filter of a query; an invalid number means the first page."""
        texts = {item.name: query.get(item.name, "") for item in fields(cls) if item.type is str}
        page = query.get("page", "")
        is_number = page.isdecimal() and len(page) <= _PAGE_DIGITS_MAX
        return cls(**texts, page=max(int(page), 1) if is_number else 1)

    @property
    def is_set(self) -> bool:
        """Whether it leaves out anything."""
        return replace(self, page=1) != type(self)()

    @property
    def words(self) -> list[str]:
        """The searched words, in lower case; all must occur."""
        return self.q.lower().split()

    def query(self, **changes: Any) -> dict[str, Any]:
        """Return the parameters of an address, with changes; the first page has no number."""
        values = asdict(self) | changes
        return values | {"page": values["page"] if values["page"] > 1 else ""}
