"""The addresses to which webhooks may be sent: public ones, and allowed private ones."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

IPAddress = IPv4Address | IPv6Address

# Addresses that Python, depending on its version, calls global but that lead elsewhere: to services
# of the cloud that a machine is in, into an IPv4 network by translation or a tunnel, to many hosts,
# or to examples and routers. Other clouds serve metadata at private and link-local addresses.
_NOT_PUBLIC = tuple(
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's wire server
        "161.26.0.0/16",  # services of IBM Cloud
        "166.8.0.0/14",  # its endpoints of services
        "192.0.0.0/24",  # protocols, of which Python 3.11 knows some as private
        "192.88.99.0/24",  # relays of 6to4
        "::/96",  # IPv4-compatible
        "::ffff:0:0:0/96",  # IPv4-translated
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",  # NAT64 of one's own network
        "2001::/23",  # Teredo and other protocols
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
        "5f00::/16",  # SRv6
        "fec0::/10",  # site-local
    )
)


# An IPv6 address whose second half begins so leads to the IPv4 address at its end (ISATAP).
_ISATAP = (0x00005EFE, 0x02005EFE)


def may_be_reached(text: str, allow_private: Iterable[str], *, public: bool) -> bool:
    """Return whether a connection to an address is allowed; `public` allows public ones."""
    address: IPAddress = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if any(address in ip_network(network) for network in allow_private):
        return True
    return public and _is_public(address)


def _is_public(address: IPAddress) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not (address.version == 6 and (int(address) >> 32) & 0xFFFFFFFF in _ISATAP)
        and not any(address in network for network in _NOT_PUBLIC)
    )
