"""Who calls: an address, a network whose addresses one machine may have at will, or this one."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

#: Bits; every host of such a network can choose among all of its addresses.
_NETWORK: Final = 64

#: Any user of this machine, who can call from each of its addresses.
LOCAL: Final = "this machine"

#: Seconds after which the addresses of this machine are looked up again.
_VALID: Final = 10.0


def own_addresses() -> frozenset[str]:
    """The addresses of this machine's interfaces."""
    import psutil

    found = psutil.net_if_addrs().values()
    return frozenset(one.address.partition("%")[0] for each in found for one in each)


class Callers:
    """What callers are counted by."""

    def __init__(
        self,
        addresses: Callable[[], frozenset[str]] = own_addresses,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``addresses``: those of this machine; ``clock``: seconds."""
        self._addresses, self._clock = addresses, clock
        self._own, self._until = frozenset[str](), 0.0

    def __call__(self, address: str) -> str:
        """`LOCAL`, an IPv4 address, of IPv6 the network of 64 bits."""
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return address
        if parsed.version == 6 and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        if parsed.is_loopback or self._is_own(str(parsed)):
            return LOCAL
        if parsed.version == 4:
            return str(parsed)
        return str(ipaddress.ip_network((parsed, _NETWORK), strict=False))

    def _is_own(self, address: str) -> bool:
        now = self._clock()
        if now >= self._until:
            self._until = now + _VALID
            # If it fails, those that were known are still the best there is.
            with suppress(OSError):
                self._own = self._addresses()
        return address in self._own


caller: Final = Callers()
