"""By which names a server may be called: its own only.

A web page from elsewhere can have its own name lead to an address of this network (DNS
rebinding); the browser then reads the server's answers for that page.  The name that it calls
is still the page's, in the header ``Host``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.service.callers import LOCAL, caller

#: The name that resolves to this machine on every machine.
_LOCALHOST: Final = "localhost"


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
