"""Who calls: the address, or the network whose addresses one machine may have at will."""

from __future__ import annotations

import ipaddress
from typing import Final

#: Bits; every host of such a network can choose among all of its addresses.
_NETWORK: Final = 64


def caller(address: str) -> str:
    """What callers are counted by: an IPv4 address, of IPv6 the network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _NETWORK), strict=False))
