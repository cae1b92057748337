"""A cluster under planned maintenance: the engine with the built-in plugin, jobs that do something.

A person reboots a node when it is ready; until it is connected again, its copies are degraded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maintained import CONFIG, OK, Maintained
from worlds import changed, group, instance, node

from ganeti_steward.core.canonical_json import canonical
from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.model.context import Context
from ganeti_steward.plugins.maintenance.config import Maintd
from ganeti_steward.plugins.maintenance.engine.decision import PluginPlan
from ganeti_steward.plugins.maintenance.repairs.maintenance import PlannedMaintenance
from ganeti_steward.plugins.model.disks import DiskHealth
from ganeti_steward.plugins.model.incident import MAINTENANCE, Incident, Maintenance
from ganeti_steward.plugins.model.task import Wait
from ganeti_steward.plugins.model.world import Reported, World

INSTANCES = (
    instance("drbd1", "node2", "node3"),
    instance("drbd2", "node3", "node2"),
    instance("drbd3", "node4", "node5"),
    instance("shared", "node2", template="rbd"),
    instance("diskless", "node3"),
)


_ROLES = ("drained", "offline", "master_candidate")


class Upkept(Maintained):
    """Five nodes; node1 is the master and empty."""

    def __init__(self, *more: Instance, config: Maintd = CONFIG) -> None:
        super().__init__(5, 0, config)
        for uuid, one in self.nodes.items():
            self.nodes[uuid] = changed(
                node(one.name), uuid=uuid, group="group", master=one.name == "node1"
            )
        self.groups = {"group": group("group", "default")}
        self.instances = {one.name: one for one in (*INSTANCES, *more)}
        self.degraded: dict[str, str] = {}
        """instance -> node whose copy is not connected"""
        self.syncing: set[str] = set()
        self.copied: list[tuple[str, ...]] = []
        """instance, its nodes, and the new one of its copy"""
        self.cleaned_up: list[str] = []
        """instances after whose migration a job has cleaned up"""
        self.stopped_by_ganeti: list[str] = []
        """instances that a job has stopped"""
        self.planner = self._planned
        self._plugin = PlannedMaintenance()
        self._plugin.configure(config)
        for name in self.names:
            self.report(name, OK)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.nodes.values()]

    def _planned(self, incident: Incident, world: World) -> list[PluginPlan]:
        found = self._plugin.steward_plan(incident, world, Context())
        return [PluginPlan("maintenance", one) for one in found or [Wait("not handled")]]

    def request(
        self,
        name: str,
        choice: str = "refuse",
        *,
        returns: bool = True,
        work: str = "none",
        full: bool = False,
        tag: str = "",
        before: str = "",
        after: str = "",
        master_before: str = "",
        master_after: str = "",
    ) -> Incident:
        """What ``gnt-steward maintenance start`` writes."""
        self.now += 1
        uuid = f"uuid-{name}-{self.now}"
        request = Maintenance(
            choice, returns, work=work, full=full, tag=tag, before=before, after=after
        )
        request = request._replace(master_before=master_before, master_after=master_after)
        made = Incident(
            uuid,
            f"uuid-{name}",
            name,
            canonical({"status": MAINTENANCE}),
            MAINTENANCE,
            first_seen=self.now,
            observed_since=self.now,
            changed=self.now,
            progressed=self.now,
            maintenance=request,
        )
        self.records[uuid] = made._replace(tag=made.ready_tag)
        return made

    def world(self) -> World:
        found = super().world()
        disks = {
            one.name: DiskHealth(
                self.now,
                (f"disk/0 is not active on {self.degraded[one.name]}",)
                if one.name in self.degraded
                else (),
                one.name in self.syncing,
            )
            for one in self.instances.values()
            if one.template == "drbd"
        }
        return found._replace(disks=disks)

    def is_up(self, name: str) -> bool:
        return not self.nodes[f"uuid-{name}"].missing

    def reboot(self, name: str) -> None:
        """What runs there is lost; the copies there are disconnected."""
        self.change(name, missing=("total_memory", "free_memory"))
        for one in self.instances.values():
            if one.template == "drbd" and name in one.nodes:
                self.degraded[one.name] = name

    def come_back(self, name: str, boot: str = "") -> None:
        self.change(name, missing=())
        self.booted(name, boot)

    def booted(self, name: str, boot: str) -> None:
        """The agent reports this boot id from now on."""
        self.report(name, OK)
        found = self.observations[f"uuid-{name}"]
        assert isinstance(found, Reported)
        self.observations[f"uuid-{name}"] = found._replace(boot=boot)

    def running_on(self, name: str) -> list[str]:
        return [one.name for one in self.world().running_on(name)]

    def done(self, incident: Incident) -> None:
        self.tag(incident.node_name, incident.done_tag)

    def _operate(self, operation: Mapping[str, Any]) -> None:
        kind, name = operation["OP_ID"], operation.get("instance_name", "")
        if kind == "OP_OOB_COMMAND":
            for node in operation["node_names"]:
                assert self.running_on(node) == []
                self.reboot(node)
        elif name not in self.instances:
            if kind == "OP_NODE_SET_PARAMS":
                roles = {one: operation[one] for one in _ROLES if operation.get(one) is not None}
                self.change(operation["node_name"], **{"master_candidate": False, **roles})
            else:
                super()._operate(operation)
        else:
            self._operate_on(name, kind, operation)

    def _operate_on(self, name: str, kind: str, operation: Mapping[str, Any]) -> None:
        one = self.instances[name]
        if kind == "OP_INSTANCE_ACTIVATE_DISKS":
            self.degraded.pop(name, None)
            self.syncing.add(name)
        elif operation.get("cleanup"):
            # It runs on its secondary.
            self.cleaned_up.append(name)
            sent = one.sent.having(running=True, status="running")
            self.instances[name] = one._replace(nodes=one.nodes[::-1], sent=sent)
        elif kind == "OP_INSTANCE_SHUTDOWN":
            self.stopped_by_ganeti.append(name)
            self.instances[name] = one._replace(state="down")
        elif kind == "OP_INSTANCE_STARTUP":
            self.instances[name] = one._replace(state="up")
        elif kind == "OP_INSTANCE_REPLACE_DISKS":
            self.copied.append((name, *one.nodes, operation["remote_node"]))
            self.instances[name] = one._replace(nodes=(one.nodes[0], operation["remote_node"]))
        else:
            if kind != "OP_INSTANCE_MIGRATE" or operation.get("allow_failover"):
                self.stopped_by_ganeti.append(name)
            target = operation.get("target_node") or one.nodes[1]
            self.instances[name] = one._replace(
                nodes=(target, *one.nodes[:1][: len(one.nodes) - 1])
            )


def waits(cluster: Upkept, incident: Incident) -> str:
    """What holds it back, in words."""
    held = cluster.decisions[-1].held
    return "; ".join(one.sentence for one in held if one.subject == incident.uuid)
