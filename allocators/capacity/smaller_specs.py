"""Making an instance smaller step by step, as hspace does for tiered specs (allocation 12)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ganeti_steward.core.model.cluster import Disk, Instance, Spec

MEMORY: Final = "memory"
DISK: Final = "disk"
VCPUS: Final = "vcpus"
SPINDLES: Final = "spindles"
#: What can be made smaller, and by how much at a time (MiB; disk: of each disk).
STEPS: Final = {MEMORY: 64, DISK: 256, VCPUS: 1, SPINDLES: 1}


def amount(instance: Instance, resource: str) -> int:
    """How much it has; of each disk the smallest counts, 0 without one."""
    if resource == MEMORY:
        return instance.memory
    if resource == VCPUS:
        return instance.vcpus
    if resource == SPINDLES:
        return instance.spindle_use
    return min((disk.size for disk in instance.disks), default=0)


def smallest(specs: Iterable[Spec], resource: str) -> int:
    """The smallest amount among the bounds."""
    return min((int(getattr(spec, resource)) for spec in specs), default=0)


def steps_to(instance: Instance, resource: str, least: int) -> int:
    """How many steps down it stays at or above ``least``."""
    return max((amount(instance, resource) - least) // STEPS[resource], 0)


def lowered(instance: Instance, resource: str, steps: int) -> Instance:
    """The instance with so many steps less."""
    less = steps * STEPS[resource]
    if resource == MEMORY:
        return instance._replace(memory=instance.memory - less)
    if resource == VCPUS:
        return instance._replace(vcpus=instance.vcpus - less)
    if resource == SPINDLES:
        disks = tuple(_with_spindles(disk, less) for disk in instance.disks)
        return instance._replace(spindle_use=instance.spindle_use - less, disks=disks)
    disks = tuple(disk._replace(size=disk.size - less) for disk in instance.disks)
    return instance._replace(disks=disks, disk_space=instance.disk_space - less * len(disks))


def _with_spindles(disk: Disk, less: int) -> Disk:
    return disk if disk.spindles is None else disk._replace(spindles=disk.spindles - less)
