"""The people of the simulated cluster: hours later they attend to what is broken, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from ganeti_steward.core.model.finding import LIVE_REPAIR
from ganeti_steward.plugins.filters.queue import Schedule
from ganeti_steward.plugins.model.incident import DEAD, Incident
from ganeti_steward.plugins.model.task import Held
from ganeti_steward.plugins.simulation.assumptions import HOUR, SECOND, Assumptions
from ganeti_steward.plugins.simulation.cluster import SimulatedCluster
from ganeti_steward.plugins.simulation.hardware import Hardware
from ganeti_steward.plugins.simulation.jobs import SimulatedJobs
from ganeti_steward.plugins.simulation.results import STUCK

_MASTER: Final = "master"


class Operator:
    """Attends to dead nodes, to incidents that completed or failed, and to the master.

    A node that needs it is switched off, its DRBD instances failed over, and comes back empty of
    faults.  What the daemon only observes, or waits with, is left to it until it raises an alarm.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        jobs: SimulatedJobs,
        incidents: Mapping[str, Incident],
        hardware: Hardware,
        schedule: Schedule,
        assumed: Assumptions,
    ) -> None:
        """``incidents``: uuid -> incident as it is recorded at any time."""
        self._cluster, self._jobs = cluster, jobs
        self._incidents, self._hardware = incidents, hardware
        self._schedule, self._assumed = schedule, assumed
        self._random = Random(f"operator {assumed.seed}")
        self._known = set[str]()
        """what he attends to already: names of nodes, uuids of incidents, `_MASTER`"""

    def notice_silence(self, node: str) -> None:
        """Nothing of a node answers; if it is only cut off when he comes, he lets it run."""
        if self._cluster.nodes[node].master:
            self._notice(_MASTER)
        self._notice(node)

    def notice(self, incidents: Mapping[str, Incident], held: Iterable[Held]) -> None:
        """A round of the daemon is over."""
        for incident in incidents.values():
            if incident.tagged and not incident.acknowledged:
                self._notice(incident.uuid)
        for one in held:
            subject = incidents.get(one.subject)
            if subject and one.brake == STUCK:
                self._notice(one.subject)
            elif subject and one.brake == _MASTER and not self._comes_later(subject):
                self._notice(_MASTER)

    def _comes_later(self, incident: Incident) -> bool:
        """Whether the maintenance of the master waits for that of other nodes."""
        return bool(incident.maintenance) and any(
            one.maintenance and one.active and one.node != incident.node
            for one in self._incidents.values()
        )

    def _notice(self, what: str) -> None:
        if what not in self._known:
            self._known.add(what)
            hours = self._random.expovariate(1 / self._assumed.operator_hours)
            self._schedule.after(hours * HOUR, lambda: self._attend(what))

    def _attend(self, what: str) -> None:
        self._known.discard(what)
        if what == _MASTER:
            self._move_master()
        elif what in self._cluster.dead:
            self._take_out(what)
        elif incident := self._incidents.get(what):
            self._look_into(incident)

    def _move_master(self) -> None:
        """As ``gnt-cluster master-failover`` does, to a node that is not to be rebooted if any."""
        incidents = self._incidents.values()
        requested = {one.node for one in incidents if one.maintenance and one.active}
        nodes = sorted(
            self._cluster.nodes.values(),
            key=lambda one: (one.uuid in requested, not one.master_candidate, one.name),
        )
        ill = {one.node for one in incidents if not (one.state.succeeded or one.maintenance)}
        ill |= {one.node for one in incidents if one.maintenance and one.state.begun and one.active}
        good = [one for one in nodes if self._cluster.usable(one.name) and one.uuid not in ill]
        if good:
            for node in nodes:
                if node.master:
                    self._cluster.set_roles(node.name, master=False)
            self._cluster.set_roles(good[0].name, master=True, master_candidate=True)
            self._hardware.news()

    def _look_into(self, incident: Incident) -> None:
        """Look at the result of a repair."""
        node = next((n for n in self._cluster.nodes.values() if n.uuid == incident.node), None)
        if node is None or incident.state.withdrawn or not incident.state.begun:
            return
        repaired = incident.state.succeeded and incident.action == LIVE_REPAIR
        # It was cut off, and was not switched off.
        repaired |= incident.action == DEAD and self._cluster.usable(node.name)
        if incident.maintenance:
            self._end_maintenance(node.name, incident)
        elif node.name in self._cluster.out or repaired:
            self._remove_tags(node.name, incident.own_tags)
        elif node.master or self._is_busy(node.uuid):
            if node.master:
                self._move_master()
            self._notice(incident.uuid)
        else:
            self._take_out(node.name)

    def _end_maintenance(self, node: str, incident: Incident) -> None:
        """It has failed or is stuck, with everything running where it is."""
        if self._cluster.alive(node):
            self._cluster.set_roles(node, drained=False)
        if incident.active:
            self._cluster.set_tags(
                "node", node, {*self._cluster.nodes[node].tags, incident.cancel_tag}
            )
        else:
            self._remove_tags(node, incident.own_tags)
        self._hardware.news()

    def _is_busy(self, node: str) -> bool:
        return any(one.node == node and one.open for one in self._incidents.values())

    # A node in service

    def _take_out(self, node: str) -> None:
        """Switch a node off; its DRBD instances run on their secondaries."""
        cluster = self._cluster
        self._hardware.switch_off(node)
        if cluster.nodes[node].master:
            self._move_master()
        cluster.set_roles(node, offline=True, drained=False, master=False, master_candidate=False)
        cluster.promote()
        busy = self._jobs.moving()
        for one in [one for one in cluster.instances.values() if one.primary == node]:
            if one.secondaries and cluster.usable(one.secondaries[0]) and one.name not in busy:
                self._fail_over(one.name)
        self._schedule.after(
            self._random.expovariate(1 / self._assumed.repair_hours) * HOUR,
            lambda: self._bring_back(node),
        )

    def _fail_over(self, name: str) -> None:
        one = self._cluster.instances[name]
        self._cluster.place(name, (one.secondaries[0], one.primary))
        self._cluster.stop(name)
        seconds = self._assumed.failover_seconds
        self._schedule.after(seconds * SECOND, lambda: self._cluster.start(name))

    def _bring_back(self, node: str) -> None:
        """The node is as new: what is still open for it is canceled, what is over acknowledged."""
        cluster = self._cluster
        self._hardware.repair(node)
        own = [one for one in self._incidents.values() if one.node == cluster.nodes[node].uuid]
        cluster.set_roles(node, offline=False, drained=False)
        requests = {one.cancel_tag for one in own if one.state.under_repair}
        cluster.set_tags("node", node, requests.union(cluster.nodes[node].tags))
        for one in own:
            if not one.active:
                self._remove_tags(node, one.own_tags)
        cluster.promote()

    def _remove_tags(self, node: str, tags: Iterable[str]) -> None:
        self._cluster.set_tags("node", node, {*self._cluster.nodes[node].tags} - {*tags})
        self._hardware.news()
