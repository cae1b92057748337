"""What is wrong with an instance, and which repair helps."""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.core.maintenance.disks import DiskHealth
from ganeti_steward.core.model.cluster import Instance, Node
from ganeti_steward.plugins.maintenance.harep import tags

#: What is done; the step of the task.
REINSTALL: Final = "reinstall"
FAILOVER: Final = "failover"
MIGRATE: Final = "migrate"
NEW_SECONDARY: Final = "new-secondary"
ACTIVATE: Final = "activate-disks"
REPLACE: Final = "replace-degraded"

#: Step -> the type of repair that has to be allowed for it.
TYPE_OF: Final = {
    REINSTALL: tags.REINSTALL,
    FAILOVER: tags.FAILOVER,
    MIGRATE: tags.MIGRATE,
    NEW_SECONDARY: tags.FIX_STORAGE,
    ACTIVATE: tags.FIX_STORAGE,
    REPLACE: tags.FIX_STORAGE,
}

#: Ganeti's word for an instance that runs.
_RUNNING: Final = "running"


class Need(NamedTuple):
    """A repair an instance needs."""

    step: str
    """what is done, a key of `TYPE_OF`"""
    why: str
    """what is wrong, for a sentence"""

    @property
    def type(self) -> str:
        """The type of repair that has to be allowed."""
        return TYPE_OF[self.step]


class Blocked(NamedTuple):
    """Something is wrong that no repair helps."""

    why: str
    """what, and what a person can do; for a sentence"""


def need_of(
    instance: Instance,
    nodes: dict[str, Node],
    disks: DiskHealth | None = None,
    *,
    outdated: bool = False,
) -> Need | Blocked | None:
    """What an instance needs; None: nothing that is known.

    ``nodes``: by name; ``disks``: what is known of them; ``outdated``: whether they were degraded
    before its last repair, and were not checked since.  A node that is lost (offline, or not
    vm_capable) serves nothing; one that is only drained still has the data.
    """
    primary = nodes[instance.primary]
    if instance.template == "plain":
        return _plain(primary)
    if instance.template != "drbd" or not instance.secondaries:
        return None
    secondary = nodes[instance.secondaries[0]]
    if _is_lost(primary):
        return _primary_lost(primary, secondary)
    if _is_lost(secondary) or secondary.drained:
        return Need(NEW_SECONDARY, f"its secondary {_state(secondary)}")
    if primary.drained:
        return _drained(instance, primary, disks, outdated=outdated)
    return _degraded(instance, disks)


def _is_lost(node: Node) -> bool:
    return node.offline or not node.vm_capable


def _state(node: Node) -> str:
    word = "offline" if node.offline else "not vm_capable" if not node.vm_capable else "drained"
    return f"{node.name} is {word}"


def _plain(primary: Node) -> Need | Blocked | None:
    if _is_lost(primary):
        return Need(REINSTALL, f"its only node {_state(primary)}")
    if primary.drained:
        return Blocked(
            f"its only node {_state(primary)}: it is not installed again, for its data is there"
        )
    return None


def _primary_lost(primary: Node, secondary: Node) -> Need | Blocked:
    if _is_lost(secondary):
        return Need(REINSTALL, f"its primary {_state(primary)}, its secondary {_state(secondary)}")
    if secondary.drained:
        return Blocked(
            f"its primary {_state(primary)}, and Ganeti fails over to no drained node: end the "
            f"drain of {secondary.name}"
        )
    return Need(FAILOVER, f"its primary {_state(primary)}")


def _drained(
    instance: Instance, primary: Node, disks: DiskHealth | None, *, outdated: bool
) -> Need | Blocked:
    """Ganeti moves no instance whose disks are not in sync, so these are repaired first."""
    why = f"its primary {_state(primary)}"
    if instance.up and outdated:
        return Blocked(f"{why}, and its disks were not checked since their repair")
    if instance.up and disks and disks.syncing:
        return Blocked(f"{why}, and its disks are being synchronized")
    step = MIGRATE if instance.status == _RUNNING else FAILOVER
    return _degraded(instance, disks) or Need(step, why)


def _degraded(instance: Instance, disks: DiskHealth | None) -> Need | None:
    """Disks that are not active have no state, so only those of instances that should run count."""
    if not instance.up or disks is None or disks.syncing or not disks.faults:
        return None
    return Need(ACTIVATE, f"its disks are degraded: {', '.join(disks.faults)}")
