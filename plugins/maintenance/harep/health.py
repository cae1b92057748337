"""What is wrong with an instance, which repair helps, and the operations of each repair."""

from __future__ import annotations

from typing import Final, NamedTuple

from ganeti_steward.allocators.jobs.operations import failover, migrate
from ganeti_steward.core.model.cluster import Instance, Node
from ganeti_steward.core.model.opcodes import REPLACE_DISKS, Job, Operation
from ganeti_steward.plugins.maintenance.harep import tags
from ganeti_steward.plugins.model.disks import LOST_CONNECTION, DiskHealth
from ganeti_steward.plugins.model.operations import after, remove_tags, set_tags

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
    not_replaced: str = ""
    """why no copy is given up all the same, for a sentence; empty: one may be"""

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
    split: str = "",
    reported: bool = True,
) -> Need | Blocked | None:
    """What an instance needs; None: nothing that is known.

    ``nodes``: by name; ``disks``: what is known of them; ``outdated``: whether they were degraded
    before its last repair, and were not checked since; ``split``: a node that reports that both
    copies have been written without each other; empty: none does; ``reported``: whether one of its
    nodes reports at all.  A node that is lost (offline, or not vm_capable) serves nothing; one that
    is only drained still has the data.
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
        degraded = _degraded(instance, disks, split, reported=reported)
        return _drained(instance, primary, disks, degraded, outdated=outdated)
    return _degraded(instance, disks, split, reported=reported)


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
            f"its only node {_state(primary)}: it is not installed again because its data is there"
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
    instance: Instance,
    primary: Node,
    disks: DiskHealth | None,
    degraded: Need | Blocked | None,
    *,
    outdated: bool,
) -> Need | Blocked:
    """Ganeti moves no instance whose disks are not in sync, so these are repaired first."""
    why = f"its primary {_state(primary)}"
    if instance.up and outdated:
        return Blocked(f"{why}, and its disks were not checked since their repair")
    if instance.up and disks and disks.syncing and not disks.stalled:
        return Blocked(f"{why}, and {disks.progress}")
    step = MIGRATE if instance.status == _RUNNING else FAILOVER
    return degraded or Need(step, why)


def _degraded(
    instance: Instance, disks: DiskHealth | None, split: str, *, reported: bool
) -> Need | Blocked | None:
    """Disks that are not active have no state, so only those of instances that should run count.

    What could take the only good copy, or one of two that differ, is left to a person.
    """
    if not instance.up or disks is None or (disks.syncing and not disks.stalled):
        return None
    faults = ", ".join((*disks.faults, *([disks.progress] if disks.stalled else [])))
    if not faults:
        return None
    if split:
        return Blocked(
            f"{split} reports a split brain of its disks, so each copy has data that the other "
            f"lacks; to keep the copy on {instance.primary}: gnt-instance replace-disks -n NODE "
            f"{instance.name}; to keep the other one, before that: gnt-instance failover "
            f"--ignore-consistency {instance.name}"
        )
    if {*instance.nodes} <= {*disks.lost_on}:
        return Blocked(f"no copy of its disks is good, {faults}: restore it from a backup")
    if disks.stalled and not disks.primary_good:
        return Blocked(f"{faults}, and the copy on {instance.primary} is not complete itself")
    # Activating them has both sides meet: a split brain is found and reported then.
    unsure = any(one.endswith(LOST_CONNECTION) for one in disks.faults) and not reported
    why = f"no agent of {' and '.join(instance.nodes)} reports, so it may be a split brain"
    return Need(ACTIVATE, f"its disks are degraded: {faults}", why if unsure else "")


def repair_job(
    step: str, name: str, iallocator: str, *, may_fail_over: bool, primary_good: bool = True
) -> Job:
    """The job of one repair of an instance.

    ``iallocator`` finds new nodes; ``may_fail_over``: whether a migration may become a failover;
    ``primary_good``: whether its disks on the primary are good.
    """
    if step == REINSTALL:
        return [_recreate(name, iallocator), _reinstall(name)]
    if step == FAILOVER:
        return [failover(name)]
    if step == MIGRATE:
        return [{**migrate(name), "allow_failover": may_fail_over}]
    if step == ACTIVATE:
        return [{"OP_ID": "OP_INSTANCE_ACTIVATE_DISKS", "instance_name": name}]
    if step == REPLACE and not primary_good:
        return [_replace(name, "replace_auto")]
    return [{**_replace(name, "replace_new_secondary"), "iallocator": iallocator}]


def delay(seconds: float) -> Operation:
    """An operation that only waits, on the master."""
    return {
        "OP_ID": "OP_TEST_DELAY",
        "duration": seconds,
        "on_master": True,
        "on_nodes": [],
        "repeat": 0,
        "interruptible": False,
        "no_locks": False,
    }


def tag_jobs(name: str, add: str, remove: tuple[str, ...]) -> list[Job]:
    """The jobs that set a tag of an instance and then remove others."""
    jobs: list[Job] = [[set_tags("instance", name, [add])]]
    if remove:
        jobs.append([after(remove_tags("instance", name, remove), [-1])])
    return jobs


def _recreate(name: str, iallocator: str) -> Operation:
    return {
        "OP_ID": "OP_INSTANCE_RECREATE_DISKS",
        "instance_name": name,
        "disks": [],
        "nodes": [],
        "iallocator": iallocator,
    }


def _reinstall(name: str) -> Operation:
    return {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": name, "force_variant": False}


def _replace(name: str, mode: str) -> Operation:
    return {
        "OP_ID": REPLACE_DISKS,
        "instance_name": name,
        "mode": mode,
        "disks": [],
        "early_release": False,
        "ignore_ipolicy": False,
    }
