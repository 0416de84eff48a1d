"""Addresses in settings, in a form that every reader understands in the same way."""

import re
from ipaddress import ip_address
from typing import NamedTuple

URL_CHARS_MAX = 2_000
PORT_MAX = 65_535
_LABEL_CHARS_MAX = 63  # The domain name system allows this between two dots.

_HOST = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
_URL = re.compile(rf'(?P<scheme>https?)://{_HOST}(?::(?P<port>[0-9]{{1,5}}))?(?:[/?][!"$-~]*)?')


class Address(NamedTuple):
    """The parts of an address that decide where data go, and whether others can read them."""

    scheme: str
    host: str

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        try:
            return self.host == "localhost" or ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False


def address_of(url: str) -> Address | None:
    """Return the parts of https://HOST/PATH or http://HOST/PATH; None for anything else.

    Such an address is in ASCII, and has no user, password or fragment.
    """
    match = _URL.fullmatch(url)
    if not match or len(url) > URL_CHARS_MAX or not 1 <= int(match["port"] or 1) <= PORT_MAX:
        return None
    if any(len(label) > _LABEL_CHARS_MAX for label in match["host"].split(".")):
        return None
    if match["host"].startswith("["):
        try:
            ip_address(match["host"].strip("[]"))
        except ValueError:
            return None
    return Address(match["scheme"], match["host"])
