"""The records of incidents, in memory."""

from __future__ import annotations

from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.plugins.maintenance.edges.store import Records


class MemoryStore:
    """The part `Store` of the daemon's loop."""

    def __init__(self) -> None:
        self.incidents: dict[str, Incident] = {}

    def read_all(self) -> Records:
        """All incidents."""
        return Records(dict(self.incidents), ())

    def write(self, incident: Incident) -> None:
        """Write one record."""
        self.incidents[incident.uuid] = incident

    def remove(self, uuid: str) -> None:
        """Remove one record."""
        self.incidents.pop(uuid, None)
