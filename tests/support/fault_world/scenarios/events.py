"""What a scenario can have happen beside the faults that histories draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fault_world.causes import control
from fault_world.causes.others import submit
from fault_world.faults import Fault
from fault_world.kinds import KINDS
from fault_world.plugins import PLUGIN_FAULTS
from fault_world.storage import GROUP, MISSING

if TYPE_CHECKING:
    from fault_world.world import World

Row = dict[str, Any]

#: What an event is about.
NODE: Final = "node"
INSTANCE: Final = "instance"


class EventKind(NamedTuple):
    """One kind of event."""

    event: Callable[[World, Fault], None]
    about: str = ""
    """`NODE`, `INSTANCE`, or empty: the cluster"""
    detail: str = ""
    """what is written after the subject, in words; empty: nothing"""
    lasts: bool = False
    """whether ``for SECONDS`` may follow"""


#: What a filter rule of a person does, and to which jobs.
HELD: Final = tuple(one.replace(" ", "-") for one in control.FILTERS)

#: Kind of a drawn fault -> what its detail is.
_DETAILS: Final[Mapping[str, str]] = {
    "falls-ill": "a status (evacuate, evacuate-failover, live-repair) or changing",
    "clock-jumps": "seconds",
    "wrong-reports": "lost, old or forged",
    "slow-calls": "seconds",
    "lost-answers": "a share, 0 to 1",
    "late-storing": "seconds",
    "failing-operations": "a share, 0 to 1",
    "maintenance-requested": "stop, move or refuse: what is done with those that cannot migrate; "
    "after a comma each: power or command:reboot (what reboots the node), before:NAME and "
    "after:NAME (commands around that), the same with master- (of the master), by:SECONDS and "
    "takes:SECONDS (its deadline after the start, and how long it is expected to take), full "
    "(copies of disks leave as well), with-master (a candidate may be made the master for it), "
    "permitted (by all agents)",
    "plugin-fails": f"what it does wrong: {', '.join(PLUGIN_FAULTS)}",
    "master-left-behind": "cut-off, agents-only or reached: what the old master reaches",
    "tag-set": "a tag; one that ends with a colon gets the uuid of each incident of the node",
}


def _reports(world: World, fault: Fault) -> None:
    """A node reports a status without a command, until `recovers`; its words are the time."""
    world.ganeti.reports[fault.subject] = {
        "status": fault.detail,
        "details": f"reported at {fault.at:g}",
    }


def _recovers(world: World, fault: Fault) -> None:
    """A node reports that it is healthy."""
    world.ganeti.reports.pop(fault.subject, None)


def _tag_removed(world: World, fault: Fault) -> None:
    """A tag of a node is removed; one that ends with a colon: all that begin so."""
    tags = world.ganeti.node(fault.subject)["tags"]
    tags[:] = [tag for tag in tags if not _matches(tag, fault.detail)]
    world.ganeti.changed()


def _matches(tag: str, wanted: str) -> bool:
    return tag.startswith(wanted) if wanted.endswith(":") else tag == wanted


def _node_tagged(world: World, fault: Fault) -> None:
    """A node gets a tag, and nothing else happens; ``UUID`` in it: its own uuid."""
    node = world.ganeti.node(fault.subject)
    node["tags"].append(fault.detail.replace("UUID", node["uuid"]))
    world.ganeti.changed()


def _instance_tagged(world: World, fault: Fault) -> None:
    """An instance gets a tag."""
    world.ganeti.instance(fault.subject)["tags"].append(fault.detail)
    world.ganeti.changed()


def _group_tagged(world: World, fault: Fault) -> None:
    """The node group gets a tag."""
    world.ganeti.groups[0]["tags"].append(fault.detail)
    world.ganeti.changed()


def _crashes(world: World, fault: Fault) -> None:
    """An instance ends, though its owner wants it to run."""
    world.ganeti.stop(fault.subject)


def _left_running(world: World, fault: Fault) -> None:
    """An instance that is marked down runs all the same."""
    world.ganeti.start(fault.subject)


def _failed_over(world: World, fault: Fault) -> None:
    """The owner has an instance started on its secondary; it is stopped for a moment."""
    operation = {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": fault.subject}
    submit(world, [[operation | {"ignore_consistency": True}]])


def _copy_lost(world: World, fault: Fault) -> None:
    """The disk of one of an instance's nodes breaks; ``detail``: the node."""
    data = world.ganeti.data[fault.subject]
    if fault.detail in data.copies:
        data.copies[fault.detail] = 0
        data.broken.add(fault.detail)


def _permits_takeover(world: World, fault: Fault) -> None:
    """The agent of a node may make it the master: agent.master-failover = true."""
    world.ganeti.takes_over.add(fault.subject)


def _gets_power(world: World, fault: Fault) -> None:
    """A node that was off is switched on."""
    world.ganeti.power_on(fault.subject)


def _queue_drained(world: World, fault: Fault) -> None:
    """The job queue takes no jobs."""
    world.luxid.drained = True
    world.clock.after(fault.lasts, partial(setattr, world.luxid, "drained", False))


def _jobs_held(world: World, fault: Fault) -> None:
    """A person's filter rule holds or rejects jobs."""
    control.jobs_filtered(world, fault._replace(detail=fault.detail.replace("-", " ")))


def _rule_copied(world: World, fault: Fault) -> None:
    """The record of an incident is written again, as another rule."""
    for uuid, _ in world.records()[:1]:
        rule = world.luxid.filters[uuid]
        copied = "00000000-0000-4000-8000-000000000001"
        world.luxid.filters[copied] = rule | {"uuid": copied}
        world.ganeti.changed()


def _volume_fails(world: World, fault: Fault) -> None:
    """The report of a node names one more physical volume as failing."""
    details = world.ganeti.reports.get(fault.subject, {}).get("details", [])
    known = details if isinstance(details, list) else []
    words = "physical volume missing" if fault.detail == MISSING else "errors logged"
    more = {"faults": [words], "physical_volumes": [fault.detail]}
    source = f"lvm:{GROUP}" if fault.detail == MISSING else f"smart:{fault.detail}"
    found = sorted([*known, {"source": source, "details": more}], key=lambda one: one["source"])
    world.ganeti.reports[fault.subject] = {"status": "live-repair", "details": found}


def _volume_lost(world: World, fault: Fault) -> None:
    """LVM of a node does not find a physical volume any more."""
    world.ganeti.storage.lose(fault.subject, fault.detail)


def _volume_closed(world: World, fault: Fault) -> None:
    """A person forbids new logical volumes on a physical volume."""
    world.ganeti.storage.set_allocatable(fault.subject, fault.detail, False)


def _volume_replaced(world: World, fault: Fault) -> None:
    """A new, empty physical volume has the name of an old one."""
    world.ganeti.storage.replace(fault.subject, fault.detail)


_MORE: Final[Mapping[str, EventKind]] = {
    "reports": EventKind(_reports, NODE, "a status"),
    "recovers": EventKind(_recovers, NODE),
    "permits-takeover": EventKind(_permits_takeover, NODE),
    "gets-power": EventKind(_gets_power, NODE),
    "node-tagged": EventKind(_node_tagged, NODE, "a tag; UUID in it is that of the node"),
    "tag-removed": EventKind(_tag_removed, NODE, "a tag, or with a colon its beginning"),
    "instance-tagged": EventKind(_instance_tagged, INSTANCE, "a tag"),
    "instance-crashes": EventKind(_crashes, INSTANCE),
    "left-running": EventKind(_left_running, INSTANCE),
    "instance-failed-over": EventKind(_failed_over, INSTANCE),
    "copy-lost": EventKind(_copy_lost, INSTANCE, "one of its nodes"),
    "group-tagged": EventKind(_group_tagged, "", "a tag"),
    "volume-fails": EventKind(_volume_fails, NODE, f"a physical volume, or {MISSING}"),
    "volume-lost": EventKind(_volume_lost, NODE, "a physical volume"),
    "volume-closed": EventKind(_volume_closed, NODE, "a physical volume"),
    "volume-replaced": EventKind(_volume_replaced, NODE, "a physical volume"),
    "jobs-cut": EventKind(control.lasting, lasts=True),
    "gate-refuses": EventKind(control.lasting, lasts=True),
    "queue-drained": EventKind(_queue_drained, lasts=True),
    "rule-copied": EventKind(_rule_copied),
    "jobs-held": EventKind(_jobs_held, "", f"one of {', '.join(HELD)}", lasts=True),
    "commands-end": EventKind(control.lasting, "", "succeed, fail, hang or refuse", lasts=True),
}

#: What happens in histories only.
_ONLY_HISTORIES: Final = frozenset(
    ("surprise", "lost-submissions", "records-fail", "record-restored", "disk-fails",
     "late-agents", "harep-runs", "group-renamed", "group-excluded", "instance-excluded")
)  # fmt: skip

EVENTS: Final[Mapping[str, EventKind]] = {
    **{
        name: EventKind(kind.event, kind.about, _DETAILS.get(name, ""), kind.lasts != (0, 0))
        for name, kind in KINDS.items()
        if name not in _ONLY_HISTORIES
    },
    **_MORE,
}
"""Word -> what happens."""
