"""The repair of physical volumes that a node reports as failing.

Close them for new logical volumes, replace the disks of one instance after the other away from
them, take missing ones out of the volume group, rebuild what instances have lost there; after the
operator's word open them again.  Each step is chosen by what LVM and Ganeti show now.
"""

from __future__ import annotations

from typing import Final

from ganeti_steward.core import hookimpl
from ganeti_steward.core.maintenance.incident import Incident
from ganeti_steward.core.maintenance.storage import failing_volumes
from ganeti_steward.core.maintenance.task import (
    CLOSE,
    OPEN,
    REPAIR_STORAGE,
    Done,
    Plan,
    Task,
    Wait,
)
from ganeti_steward.core.maintenance.world import World
from ganeti_steward.core.model.context import Context
from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.core.model.opcodes import (
    Job,
    remove_tags,
    repair_storage,
    set_allocatable,
    set_tags,
)
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.repairs.storage.case import StorageCase, counted, listed
from ganeti_steward.plugins.maintenance.repairs.storage.conditions import (
    opening_fault,
    repair_fault,
)
from ganeti_steward.plugins.maintenance.repairs.storage.disks import replace_away


class RepairStorage:
    """The plugin; it handles only reports that name physical volumes and no command."""

    CONFIG: Final = Maintd

    def __init__(self) -> None:
        self._settings = Maintd()

    def configure(self, settings: Maintd) -> None:
        """``settings``: the section ``[maintd]``."""
        self._settings = settings

    @hookimpl
    def steward_plan(self, incident: Incident, world: World, context: Context) -> list[Plan] | None:
        """The next step of the repair, or the opening once it was acknowledged."""
        if not self._settings.repair_storage or incident.action != LIVE_REPAIR:
            return None
        volumes = failing_volumes(incident.original)
        node = world.nodes.get(incident.node)
        if not volumes or node is None:
            return None
        storage = world.storage.get(node.name)
        if storage is None or storage.fault:
            why = storage.fault if storage else "it was not queried yet"
            return [Wait(f"the storage of node {node.name} is not known: {why}")]
        case = StorageCase(incident, node, world, volumes, storage, self._settings)
        return [_open(case) if incident.state.reopens else _next(case, context)]


def _next(case: StorageCase, context: Context) -> Plan:
    if fault := case.unknown_volumes():
        return Wait(fault)
    if case.to_close() or (case.named and not case.is_closed):
        return _close(case)
    if case.parts() or case.affected():
        found = replace_away(case, context)
        is_next = isinstance(found, Wait) and case.is_group_next()
        return _repair_group(case, f"{found.reason}; ") if is_next else found
    if not case.has_missing:
        return Done(f"no disk is left on {listed(case.volumes)} of node {case.node.name}")
    return _repair_group(case)


def _repair_group(case: StorageCase, waiting: str = "") -> Plan:
    """``waiting``: what waits for it, before why it cannot be done; empty: nothing is left."""
    if fault := repair_fault(case):
        return Wait(f"{waiting}{fault}")
    name = case.node.name
    left = "" if waiting else "no disk is left there, and "
    return Task(
        REPAIR_STORAGE,
        frozenset({name}),
        frozenset(one.name for one in case.world.instances_on(name)),
        f"take {counted(case.missing, 'missing physical volume')} out of volume group "
        f"{case.storage.group} of node {name}: {left}every instance has a good copy elsewhere",
        [[repair_storage(name, case.storage.group)]],
    )


def _close(case: StorageCase) -> Task:
    node, volumes = case.node.name, case.to_close()
    job: Job = [set_allocatable(node, one, False) for one in volumes]
    job.append(set_tags("node", node, [case.incident.closed_tag]))
    if old := case.taken_over():
        job.append(remove_tags("node", node, old))
    named = listed(case.named)
    what = f"close {listed(volumes)}" if volumes else f"note that {named} is closed or missing"
    reason = f"{what} on node {node}: it is reported as failing"
    return Task(CLOSE, frozenset({node}), frozenset(), reason, [job])


def _open(case: StorageCase) -> Plan:
    if fault := opening_fault(case):
        return Wait(fault)
    node = case.node.name
    closed = [one.name for one in case.present() if not one.allocatable]
    job: Job = [set_allocatable(node, one, True) for one in closed]
    job.append(remove_tags("node", node, [case.incident.closed_tag]))
    reason = f"open {listed(case.named)} on node {node}: the incident was acknowledged"
    return Task(OPEN, frozenset({node}), frozenset(), reason, [job])
