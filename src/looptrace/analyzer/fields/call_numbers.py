"""Ids of calls that a conversation uses again: the second call of an id has a number, `id#2`."""

from __future__ import annotations

_NUMBER = "#"


def written_id(call_id: str) -> str:
    """Return the id that a call has in its trace, without its number."""
    before, _, number = call_id.rpartition(_NUMBER)
    return before if before and number.isdigit() else call_id


def id_before(call_id: str) -> str | None:
    """Return the id of the call before, with its number; None if it is the first of its id."""
    written = written_id(call_id)
    number = int(call_id.removeprefix(written).removeprefix(_NUMBER) or 1)
    if number <= 1:
        return None
    return written if number == 2 else f"{written}{_NUMBER}{number - 1}"
