"""The section `shards` of the settings: the servers that share the sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from looptrace.analyzer.settings.addresses import URL_CHARS_MAX, address_of
from looptrace.rules.contract import SettingError

SHARDS_MAX = 100

_Text = Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)]


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Several servers, each with a part of the tasks; empty if one server has all.

    Raises:
        SettingError: if a value is wrong.
    """

    urls: Annotated[
        tuple[_Text, ...],
        Meta(
            max_length=SHARDS_MAX,
            description="The address of each server; `serve --shard` says which one it is.",
        ),
    ] = ()
    names: Annotated[
        tuple[_Text, ...],
        Meta(
            max_length=SHARDS_MAX,
            description="Names of the servers at a load balancer, in the same order, if they are "
            "not host and port of the address. They decide which server has which session.",
        ),
    ] = ()
    by: Annotated[
        Literal["session", "trace"],
        Meta(
            description="The unit that stays on one server. With trace, spans need not name their "
            "session, and loops over several traces are not found."
        ),
    ] = "session"

    def __post_init__(self) -> None:
        if wrong := next((url for url in self.urls if not address_of(url)), None):
            raise SettingError(
                f"shards.urls has {wrong!r}, which is not an https:// or http:// address."
            )
        if self.names and len(self.names) != len(self.urls):
            raise SettingError("shards.names must have one name for each of the urls.")
        if len(set(self.ring)) < len(self.urls):
            raise SettingError("shards.urls names a server twice.")

    @property
    def ring(self) -> tuple[str, ...]:
        """The name of each server, by which tasks are shared."""
        return self.names or tuple(url.partition("://")[2].split("/")[0] for url in self.urls)
