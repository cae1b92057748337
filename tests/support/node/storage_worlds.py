"""What a node with a failing physical volume shows of itself, and what the repair plans then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from worlds import NOW, incident, instance, node, world

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.cluster import Instance, Node
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import MISSING
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.repairs.repair_storage import RepairStorage
from ganeti_steward.plugins.model.incident import COMPLETED, PENDING, Incident
from ganeti_steward.plugins.model.storage import (
    DEGRADED,
    FAULTY,
    GOOD,
    LogicalVolume,
    NodeStorage,
    PhysicalVolume,
)
from ganeti_steward.plugins.model.task import Plan, Task, Wait
from ganeti_steward.plugins.model.world import Observation, Reported, World

A, B = "/dev/sda", "/dev/sdb"
OK: Final = Reported(canonical({"status": "Ok"}), "Ok", "", NOW)


def report(*volumes: str, **more: Any) -> bytes:
    """The diagnose object of a node whose disks with these physical volumes are failing."""
    finding = {"source": "smart:X", "status": "live-repair", "details": {"faults": ["failing"]}}
    finding["details"]["physical_volumes"] = list(volumes)  # type: ignore[index]
    return canonical({"status": "live-repair", "details": [finding], **more})


def ailing(*volumes: str, **fields: Any) -> Incident:
    """The incident of such a report of node n1."""
    action = fields.pop("action", "live-repair")
    given = {"status": PENDING, "original": report(*volumes or [A]), **fields}
    return incident("n1", action, **given)


ILL = ailing()
ACKNOWLEDGED = ailing(status=COMPLETED, acknowledged=True)


def lvm(
    logical: Mapping[str, str] | None = None,
    *,
    free: float = 50000,
    closed: Iterable[str] = (A,),
    volumes: Iterable[str] = (A, B),
    sides: Mapping[str, Mapping[str, str]] | None = None,
    **more: Any,
) -> NodeStorage:
    """What LVM shows of a node; ``logical``: instance -> physical volume its disk is on."""
    return NodeStorage(
        "xenvg",
        tuple(PhysicalVolume(name, free, name not in closed) for name in volumes),
        tuple(LogicalVolume(f"xenvg/{of}", on, of) for of, on in (logical or {}).items()),
        sides or {},
        **more,
    )


def now(
    storage: NodeStorage | None,
    instances: Iterable[Instance] = (),
    *,
    closed_for: Incident | None = ILL,
    nodes: Iterable[Node] = (),
    silent: Mapping[str, Observation] | None = None,
    **fields: Any,
) -> World:
    """Nodes n1 to n4; ``closed_for``: whose tag n1 has; all nodes report but ``silent`` ones."""
    tags = [closed_for.closed_tag] if closed_for else []
    made = [node("n1", tags=tags), *(node(f"n{i}") for i in (2, 3, 4)), *nodes]
    seen = {one.name: OK for one in made} | {"n1": Reported(report(A), "live-repair", "", 0)}
    given = {} if storage is None else {"n1": storage}
    return world(made, instances, observations=seen | dict(silent or {}), storage=given, **fields)


def plan(about: Incident, seen: World, **settings: Any) -> Plan:
    """What the repair wants next, the only plan it may return."""
    plugin = RepairStorage()
    plugin.configure(Maintd(**{"repair_storage": True, **settings}))
    found = plugin.steward_plan(about, seen, Context())
    assert found is not None
    (one,) = found
    return one


def task(about: Incident, seen: World) -> Task:
    """The same where a task is expected."""
    found = plan(about, seen)
    assert isinstance(found, Task), found
    return found


def waiting(about: Incident, seen: World) -> str:
    """Why it waits, where it is expected to wait."""
    found = plan(about, seen)
    assert isinstance(found, Wait), found
    return found.reason


DRBD = instance("web", "n1", "n2")
SECONDARY = instance("db", "n3", "n1")
GOOD_BOTH = {"web": {"n1": GOOD, "n2": GOOD}, "db": {"n1": GOOD, "n3": GOOD}}
LOST_HERE = {"web": {"n1": FAULTY, "n2": DEGRADED}, "db": {"n1": FAULTY, "n3": DEGRADED}}
MISSING_ONE = (B, MISSING)
