"""The addresses that users may connect us to: those of the public internet, and networks that an operator permits.

A caller resolves the name once, checks every address here, and connects to a checked address: a second look-up could
give another.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# IANA's special-purpose registry, and the addresses of cloud services. Spelled out, because the standard library's
# ``is_global`` differs between patch releases.
_NOT_PUBLIC_4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host: Linux connects to itself
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers; one cloud's metadata is at 100.100.100.200
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # looks public: the host agent of one cloud, as seen from its machines
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; another cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4, abandoned
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)

_GLOBAL_UNICAST = IPv6Network("2000::/3")  # all other ranges are loopback, local, multicast or unused

_NOT_PUBLIC_6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo tunnels to any IPv4 address, ORCHID, benchmarks
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: tunnels to any IPv4 address
        "3fff::/20",  # documentation
    )
)

# An IPv6 address in one of these contains an IPv4 address in its last four bytes. The second is used by hosts without
# IPv4 to reach the internet, so it is as public as the address it contains.
_EMBEDDING = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))


def is_public(address: str | Address) -> bool:
    """Return whether this is an address of the public internet; False if it is not an address in its usual form."""
    parsed = _parsed(address)
    if isinstance(parsed, IPv4Address):
        return not is_within(parsed, _NOT_PUBLIC_4)
    return (
        parsed is not None
        and parsed.scope_id is None
        and parsed in _GLOBAL_UNICAST
        and not is_within(parsed, _NOT_PUBLIC_6)
    )


def may_connect(address: str | Address, *, permitted: Iterable[Network] = ()) -> bool:
    """Return whether to connect to ``address``: it is public, or inside a network that the operator permits."""
    return is_public(address) or is_within(address, permitted)


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, not a name."""
    return _parsed(host.removeprefix("[").removesuffix("]")) is not None


def is_within(address: str | Address, networks: Iterable[Network]) -> bool:
    """Return whether ``address`` is in one of these networks."""
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in networks)


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse a comma-separated list of networks. Raises ValueError that names the first invalid entry."""
    networks = []
    for name in filter(None, map(str.strip, text.split(","))):
        try:
            networks.append(ip_network(name))
        except ValueError:
            raise ValueError(f"{name} is not a network such as 10.1.0.0/16") from None
    return tuple(networks)


def _parsed(address: str | Address) -> Address | None:
    """Return the address, or the IPv4 address that it contains."""
    if isinstance(address, str):
        try:
            address = ip_address(address)
        except ValueError:
            return None
    if isinstance(address, IPv6Address) and any(address in network for network in _EMBEDDING):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
