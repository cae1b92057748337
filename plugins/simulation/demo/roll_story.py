"""All nodes of a demo are rebooted for a new kernel, and meanwhile the fans of one fail."""

from __future__ import annotations

import time
from functools import partial
from typing import Final
from uuid import uuid4

from ganeti_steward.allocators.rolling.roll import RollOptions, plan_roll
from ganeti_steward.allocators.rolling.rounds import RoundLimits
from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.luxi import Luxi
from ganeti_steward.core.model.cluster import Node
from ganeti_steward.core.model.opcodes import Operation
from ganeti_steward.plugins.maintenance.edges.store import Store
from ganeti_steward.plugins.model.incident import READY_TAG, Incident, Maintenance
from ganeti_steward.plugins.model.operations import SET_NODE_PARAMS, remove_tags, set_tags
from ganeti_steward.plugins.model.works import requested
from ganeti_steward.plugins.simulation.demo.files import BAD, GOOD
from ganeti_steward.plugins.simulation.demo.story import Story

_OPTIONS: Final = RollOptions(limits=RoundLimits(at_once=1))


class RollStory(Story):
    """A roll over all nodes, the master last."""

    def play(self) -> None:
        """From the request to the last node."""
        self._client = Luxi(str(self._files.socket))
        self._store = Store(self._client, lambda: self._files.key)
        left = self._request()
        first, ill, *_, master = left
        self._reboot(first, meanwhile=ill)
        while (left := [node for node in left if self._has_not_ended(node)]) != [master]:
            self._until(partial(self._is_next, left, ill), "no node is ready")
            if self._is_repairable(ill):
                self._repair(ill)
            else:
                self._reboot(next(node for node in left if self._is_ready(node)))
        self._say(
            f"{master.name} is the master; an admin makes {first.name} the master: "
            "gnt-cluster master-failover"
        )
        self._nodes.fail_over(first)
        self._reboot(master)
        self.rest(self._pause)
        self._conclude()

    def _request(self) -> list[Node]:
        """Request the maintenance of all nodes; in the order in which they are taken."""
        self._say("a new kernel: gnt-steward maintenance roll --all --with-master")
        cluster, now = self._luxid.cluster.cluster, time.time_ns()
        plan = plan_roll(cluster, [node.name for node in cluster.nodes], _OPTIONS)
        nodes = [cluster.node(name) for one in plan.rounds for name in one.nodes]
        if len(nodes) < len(cluster.nodes):
            raise StewardError("a node of the demo cannot be away")
        self._store.read_all()
        for number, node in enumerate(nodes):
            made = requested(node, Maintenance(_OPTIONS.choice), now + number, str(uuid4()), "")
            self._store.write(made)
        return nodes

    def _reboot(self, node: Node, meanwhile: Node | None = None) -> None:
        """Reboot a node once nothing runs on it; ``meanwhile``: whose fans fail."""
        self._until(lambda: self._is_ready(node), f"{node.name} is not ready")
        self._say(f"{node.name} is ready: nothing runs on it, and an admin reboots it")
        self._nodes.power_off(node)
        if meanwhile:
            self.rest(self._pause)
            self._say(f"{meanwhile.name}: two fans stand still; its agent will report evacuate")
            self._files.have_fans(meanwhile.name, BAD)
        self.rest(2 * self._pause)
        self._nodes.power_on(node)
        self._say(f"{node.name} is back: gnt-steward maintenance done {node.name}")
        incident = self._maintenance_of(node)
        if incident:
            self._submit(set_tags("node", node.name, [incident.done_tag]))
        self._until(lambda: not self._has_not_ended(node), f"{node.name} is not taken back")

    def _repair(self, node: Node) -> None:
        """Replace the fans of a node that is empty."""
        self._say(
            f"{node.name}: its fans are replaced: gnt-node modify --offline no {node.name}, "
            "gnt-steward incident ack"
        )
        self._files.have_fans(node.name, GOOD)
        self.rest(self._pause)
        back = {"OP_ID": SET_NODE_PARAMS, "node_name": node.name, "offline": False}
        self._submit(back, remove_tags("node", node.name, self._results(node)))
        self._until(lambda: not self._is_repairable(node), f"{node.name} is not taken back")

    def _is_next(self, nodes: list[Node], ill: Node) -> bool:
        return self._is_repairable(ill) or any(map(self._is_ready, nodes))

    def _is_repairable(self, node: Node) -> bool:
        """Whether it is empty and offline, and has the tag that says so."""
        return bool(self._results(node))

    def _results(self, node: Node) -> list[str]:
        tags = self._luxid.cluster.nodes[node.name].tags
        return [tag for tag in tags if tag.startswith(READY_TAG)]

    def _is_ready(self, node: Node) -> bool:
        incident = self._maintenance_of(node)
        request = incident and incident.maintenance
        return bool(request and request.ready and not request.worked)

    def _has_not_ended(self, node: Node) -> bool:
        incident = self._maintenance_of(node)
        return bool(incident and incident.active)

    def _maintenance_of(self, node: Node) -> Incident | None:
        known = self._store.read_all().incidents.values()
        return next((one for one in known if one.node == node.uuid and one.maintenance), None)

    def _submit(self, *operations: Operation) -> None:
        self._client.submit([list(operations)], "the demo")

    def _conclude(self) -> None:
        cluster = self._luxid.cluster
        if cluster.downtime or any(node.offline or node.drained for node in cluster.nodes.values()):
            raise StewardError("an instance was down, or a node is not in service")
        self._say(f"all {len(cluster.nodes)} nodes were rebooted, and no instance was down")
