"""A proxy in front that has signed a person in, and names the person in a header."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from looptrace.analyzer.text.display import plain
from looptrace.collector.server.tokens.roles import Role
from looptrace.collector.server.tokens.token_file import AccessError, Holder

_NAME_CHARS_MAX = 100

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class SigningProxy:
    """The header in which a proxy names a person, the addresses of proxies, and a person's role.

    The header of anybody else says nothing.
    """

    header: str
    networks: tuple[Network, ...]
    role: Role

    def holder(self, headers: Mapping[str, Sequence[str]], address: str) -> Holder | None:
        """Return who asks, by the headers (in lower case) of a request from an address."""
        named = headers.get(self.header, [])
        if len(named) != 1 or not named[0].strip() or not self._is_trusted(address):
            return None
        return Holder(plain(named[0].strip(), _NAME_CHARS_MAX), self.role)

    def _is_trusted(self, address: str) -> bool:
        try:
            given = ipaddress.ip_address(address)
        except ValueError:  # A socket of Unix has no address.
            return False
        own = getattr(given, "ipv4_mapped", None) or given
        return any(own in network for network in self.networks)


def signing_proxy(header: str | None, addresses: Sequence[str], role: Role) -> SigningProxy | None:
    """Return the proxy that options name; None where they name none.

    Raises:
        AccessError: if the header comes without addresses, or they are none.
    """
    if header is None and not addresses:
        return None
    if not header or not addresses:
        raise AccessError(
            "a header of a proxy and the proxy's address come together; give --user-header and "
            "--user-header-from, or neither."
        )
    try:
        networks = tuple(ipaddress.ip_network(each) for each in addresses)
    except ValueError as error:
        raise AccessError(f"--user-header-from: {error}; write 10.0.0.5 or 10.0.0.0/24.") from error
    return SigningProxy(header.lower(), networks, role)
