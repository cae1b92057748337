"""What the command line of the daemon gives, and where that makes it vote and serve its status."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.ganeti.this_node import (
    DATA,
    SOCKET,
    candidate_addresses,
    master_address,
    master_name,
    own_address,
    own_names,
    this_node,
)
from ganeti_steward.plugins.maintenance.confd.client import PORT as CONFD_PORT
from ganeti_steward.plugins.maintenance.confd.client import Confd
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.daemon.mastership import NotMaster, Voting


class StatusAddress(NamedTuple):
    """Where the status is served."""

    address: str
    port: int
    """TCP"""
    also: str = ""
    """the cluster's address, which this node has as long as it is the master; empty for none"""


class DaemonOptions(NamedTuple):
    """What the command line says."""

    address: str = ""
    """where the status is served; empty: as configured"""
    port: int | None = None
    """TCP port of the status; None: as configured"""
    debug: bool = False
    undecided_is_master: bool = False
    """an admin answers for an undecided vote"""
    record: str = ""
    """a file to which each step's input is added; empty for none"""
    luxi_socket: str = SOCKET
    confd_port: int = CONFD_PORT
    """UDP port of the candidates' confd"""
    data: str = DATA
    """Ganeti's data directory"""
    host: str = ""
    """the name of this machine; empty: its own"""

    def voting(self, key: Callable[[], KeyFile]) -> Voting:
        """The vote; raises NotMaster where Ganeti's own files name another master."""
        own, known = this_node(self.data, self.host).name, master_name(self.data)
        if known and known != own:
            raise NotMaster(f"Ganeti's files here name {known}, this node is {own}")

        def client() -> Confd:
            return Confd(key(), candidate_addresses(self.data), port=self.confd_port)

        return Voting(client, own, undecided_is_master=self.undecided_is_master)

    def names(self) -> frozenset[str]:
        """The names that the status may be called by."""
        return own_names(self.data, self.host)

    def place(self, settings: Maintd) -> StatusAddress:
        """Where the status is served; raises StewardError when there is no address."""
        port = settings.port if self.port is None else self.port
        if address := self.address or settings.address:
            return StatusAddress(address, port)
        own, cluster = own_address(this_node(self.data, self.host)), master_address(self.data)
        return StatusAddress(own, port, "" if cluster == own else cluster)
