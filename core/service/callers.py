"""Who calls a server, and by which names it may be called: its own only.

A web page from elsewhere can have its own name lead to an address of this network (DNS
rebinding); the browser then reads the server's answers for that page.  The name that it calls
is still the page's, in the header ``Host``.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

#: Bits; every host of such a network can choose among all of its addresses.
_NETWORK: Final = 64

#: Any user of this machine, who can call from each of its addresses.
LOCAL: Final = "this machine"

#: The name that resolves to this machine on every machine.
_LOCALHOST: Final = "localhost"

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


class OwnNames:
    """The names and addresses of a server; may be used by several threads."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """``names``: those of the node and its cluster, and further ones, addresses included.

        Addresses of this machine's interfaces are its own without being named.
        """
        self._names = {_plain(name) for name in names if name} | {_LOCALHOST}

    def __contains__(self, host: str) -> bool:
        """Whether a header ``Host``, with or without a port, names this server."""
        name = _plain(_without_port(host.strip()))
        return name in self._names or (_is_address(name) and caller(name) == LOCAL)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and re.fullmatch("[0-9]*", port) else host


def _plain(name: str) -> str:
    """A name as it is compared: in lower case, without the root's dot and without brackets."""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    name = name.lower().removesuffix(".")
    return str(ipaddress.ip_address(name)) if _is_address(name) else name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
