"""The disks of an instance as a check of Ganeti found them."""

from __future__ import annotations

from typing import NamedTuple


class DiskHealth(NamedTuple):
    """What the last check found of the disks of one instance."""

    at: int
    """when the check was submitted, ns since the epoch"""
    faults: tuple[str, ...] = ()
    """what is wrong, in a few words for each disk and node; empty: nothing"""
    syncing: bool = False
    """whether a disk is being synchronized"""
    primary_good: bool = True
    """whether all disks on the primary node are good"""
    lost_on: tuple[str, ...] = ()
    """names of the nodes on which a disk itself is faulty, sorted"""
    nodes: tuple[str, ...] = ()
    """names of the nodes of the instance then, the primary first; empty: not known"""

    @property
    def in_sync(self) -> bool:
        """Whether both copies are complete."""
        return not self.faults and not self.syncing
