"""The section `shards` of the settings: the servers that share the sessions."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from looptrace.analyzer.text.addresses import URL_CHARS_MAX, address_of
from looptrace.rules.contract import SettingError, setting

SHARDS_MAX = 100

_Text = Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)]


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Several servers, each with a part of the tasks; empty if one server has all."""

    urls: Annotated[tuple[_Text, ...], Meta(max_length=SHARDS_MAX)] = setting(
        (), doc="The address of each server; `serve --shard` names its own."
    )
    names: Annotated[tuple[_Text, ...], Meta(max_length=SHARDS_MAX)] = setting(
        (),
        doc="Names of the servers at a load balancer, in the same order, if not host "
        "and port of the address. They decide the server of a session.",
    )
    by: Literal["session", "trace"] = setting(
        "session",
        doc="The unit that stays on one server. With trace, spans need not name their "
        "session, and loops over several traces are not found.",
    )

    attribute: Annotated[str, Meta(max_length=URL_CHARS_MAX)] = setting(
        "",
        doc="The attribute in `routing_attributes` of a Collector's load-balancing "
        "exporter, such as session.id; empty without one, or for one from before May 2026.",
    )
    tell_s: Annotated[float, Meta(ge=0.1, le=60.0)] = setting(
        0.5,
        doc="Seconds between two messages to the other servers about spending on shared budgets.",
    )
    former_urls: Annotated[tuple[_Text, ...], Meta(max_length=SHARDS_MAX)] = setting(
        (),
        doc="The urls before their number changed, while sessions from that time go "
        "on; each such session stays on its server.",
    )
    former_names: Annotated[tuple[_Text, ...], Meta(max_length=SHARDS_MAX)] = setting(
        (), doc="The names that go with former_urls."
    )

    def __post_init__(self) -> None:
        for prefix, urls, names in (
            ("", self.urls, self.names),
            ("former_", self.former_urls, self.former_names),
        ):
            if wrong := next((url for url in urls if not address_of(url)), None):
                raise SettingError(
                    f"shards.{prefix}urls has {wrong!r}, which is not an https:// or http:// "
                    "address."
                )
            if names and len(names) != len(urls):
                raise SettingError(f"shards.{prefix}names must have one name for each of the urls.")
            if len(set(_ring(urls, names))) < len(urls):
                raise SettingError(f"shards.{prefix}urls names a server twice.")

    @property
    def ring(self) -> tuple[str, ...]:
        """The name of each server, by which tasks are shared."""
        return _ring(self.urls, self.names)

    @property
    def former_ring(self) -> tuple[str, ...]:
        """The name of each server of before; empty where nothing has changed."""
        return _ring(self.former_urls, self.former_names)


def _ring(urls: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return names or tuple(url.partition("://")[2].split("/")[0] for url in urls)
