"""Which node of the cluster this machine is: its name, address and, where it can be known, uuid.

Every node has the files ``ssconf_*``, which name nodes and addresses but no uuids.  Only a
master candidate knows its own: ``ssconf_master_candidates_certs`` names the uuid that has the
certificate in ``client.pem`` of the same directory.  Other nodes are identified by their full name.
"""

from __future__ import annotations

import binascii
import hashlib
import ipaddress
import os
import re
import socket
from typing import Final, NamedTuple

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.safe_files import UnsafeFile, read_regular

#: Ganeti's data directory.
DATA: Final = "/var/lib/ganeti"
#: luxid's socket for queries and jobs.
SOCKET: Final = "/var/run/ganeti/socket/ganeti-query"

_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL
)


class ThisNode(NamedTuple):
    """This machine as Ganeti knows it."""

    name: str
    """its full name; the host's own where Ganeti does not know it"""
    uuid: str = ""
    """empty where it cannot be known"""
    address: str = ""
    """the primary address; empty where Ganeti does not know the host"""

    @property
    def identity(self) -> str:
        """What a message names this node by: the uuid if it is known, else the name."""
        return self.uuid or self.name

    def is_called(self, text: str) -> bool:
        """Whether a message means this node."""
        return text != "" and text in (self.uuid, self.name)


def this_node(data: str = DATA, host: str = "") -> ThisNode:
    """This node by the files in Ganeti's data directory; ``host`` defaults to the host's name."""
    host = host or socket.gethostname()
    addresses = node_addresses(data)
    name = full_name(host, [*addresses, *lines(data, "ssconf_node_list")])
    return ThisNode(name, _uuid(data), addresses.get(name, ""))


def lines(data: str, file: str) -> list[str]:
    """The lines of a file of Ganeti's directory; none where there is no such file.

    The directory may belong to a user of Ganeti's daemons, who could put a FIFO there.
    """
    try:
        return read_regular(f"{data}/{file}", 2**24).decode(errors="replace").splitlines()
    except (OSError, UnsafeFile):
        return []


def node_addresses(data: str = DATA) -> dict[str, str]:
    """Full name -> primary address of all nodes, as far as this one knows them."""
    # A file that was cut may end within a line.
    pairs = map(str.split, lines(data, "ssconf_node_primary_ips"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def candidate_addresses(data: str = DATA) -> list[str]:
    """Primary addresses of the master candidates, as far as this node knows them."""
    return lines(data, "ssconf_master_candidates_ips")


def master_name(data: str = DATA) -> str:
    """The master's full name, as far as this node knows it; empty where it does not."""
    return next(iter(lines(data, "ssconf_master_node")), "")


def master_address(data: str = DATA) -> str:
    """The cluster's own address, which its master has; empty where this node does not know it."""
    return next(iter(lines(data, "ssconf_master_ip")), "").strip()


def cluster_name(data: str = DATA) -> str:
    """The cluster's name, as far as this node knows it; empty where it does not."""
    return next(iter(lines(data, "ssconf_cluster_name")), "")


def own_names(data: str = DATA, host: str = "") -> frozenset[str]:
    """What others may call this machine by: its names and the cluster's, with and without domain.

    The cluster's address and the node's primary one are among them, also where no interface has
    them now.
    """
    node = this_node(data, host)
    full = {node.name, host or socket.gethostname(), cluster_name(data)}
    return frozenset(
        {*full, *(name.partition(".")[0] for name in full), node.address, master_address(data)}
    ) - {""}


def own_address(node: ThisNode) -> str:
    """The address others reach this node at; raises StewardError when it is unknown."""
    if node.address:
        return node.address
    try:
        found = socket.getaddrinfo(node.name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        found = []
    for _, _, _, _, place in found:
        address = str(place[0])
        parsed = ipaddress.ip_address(address.partition("%")[0])
        # Debian's installer lets a host's own name lead to 127.0.1.1.
        if not (parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local):
            return address
    raise StewardError(
        f"the address of this node is unknown: Ganeti does not know {node.name}, and the "
        "name leads to no address that others could reach; name one"
    )


def full_name(host: str, nodes: list[str]) -> str:
    """The node that the host is; a host's name may lack the domain."""
    if host in nodes:
        return host
    longer = {name for name in nodes if name.startswith(f"{host}.")}
    if len(longer) == 1:
        return longer.pop()
    try:
        return socket.getfqdn(host)
    except UnicodeError:
        # Linux takes names that are none in the DNS, such as one of 64 characters.
        return host


def _uuid(data: str) -> str:
    """Whose certificate lies here, among those of the master candidates."""
    own = _fingerprint(os.path.join(data, "client.pem"))
    pairs = (line.partition("=") for line in lines(data, "ssconf_master_candidates_certs"))
    return next((uuid for uuid, _, digest in pairs if own and digest.strip().upper() == own), "")


def _fingerprint(path: str) -> str:
    """The SHA-1 of a certificate as Ganeti writes it, AA:BB:...; empty when there is none."""
    try:
        found = _CERTIFICATE.search(read_regular(path, 2**20))
        content = binascii.a2b_base64(found[1]) if found else b""
    except (OSError, UnsafeFile, binascii.Error):
        return ""
    digest = hashlib.sha1(content, usedforsecurity=False)
    return digest.digest().hex(":").upper() if content else ""
