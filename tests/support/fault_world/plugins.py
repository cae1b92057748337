"""A plugin of the site that fails, hangs or plans what it may not, in the process of the daemon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.core.errors import PluginError
from ganeti_steward.plugins.maintenance.repairs.planner import PluginPlanner
from ganeti_steward.plugins.model.task import Done, Plan, Task

if TYPE_CHECKING:
    from fault_world.daemon import Daemon
    from ganeti_steward.plugins.model.incident import Incident
    from ganeti_steward.plugins.model.world import World

_NAME: Final = "site"
#: What a plugin does wrong.
PLUGIN_FAULTS: Final = (
    "raises", "hangs", "no-plan", "two-plans", "unknown-names", "drains-master", "unnamed",
    "ignores-disks", "whole-cluster", "starts-twice",
)  # fmt: skip


class SitePlanner(PluginPlanner):
    """The planner of the daemon, with that plugin in front of the others."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon.config)
        self._plugins: Any = _InFront(daemon, self._plugins)


class _InFront:
    def __init__(self, daemon: Daemon, others: Any) -> None:
        self._daemon, self._others = daemon, others

    def ask(self, method: Callable[..., Any], incident: Incident, world: World) -> Any:
        """What the plugin plans; raises PluginError."""
        fault = self._daemon.world.faults.of_plugin()
        if not fault:
            return self._others.ask(method, incident, world)
        if fault == "raises":
            raise PluginError(_NAME, "steward_plan raised ZeroDivisionError: division by zero")
        if fault == "hangs":
            self._daemon.sleep(60)
            raise PluginError(_NAME, "steward_plan took longer than 60 s")
        return _NAME, _plans(fault, incident, world)


def _plans(fault: str, incident: Incident, world: World) -> Sequence[Plan]:
    """Plans that have to be refused or held back, each for a reason of its own."""
    if fault in ("no-plan", "two-plans"):
        return [] if fault == "no-plan" else [Done("done"), Done("done")]
    own, names = incident.node_name, sorted(world.instances)
    name = names[0] if names else "none"
    master = next(one.name for one in world.cluster.nodes if one.master)
    drain = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": master, "drained": True}
    move = {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": name}
    found: dict[str, tuple[dict[str, Any], set[str], set[str]]] = {
        "unknown-names": (move, {own, "nowhere"}, {"nothing"}),
        "drains-master": (drain, {own, master}, set[str]()),
        "unnamed": (move, {own}, set[str]()),
        "ignores-disks": (move | {"ignore_consistency": True}, _all(world), {name}),
        "whole-cluster": ({"OP_ID": "OP_CLUSTER_DESTROY"}, {own}, set[str]()),
        "starts-twice": ({**drain, "node_name": own, "offline": True}, {own}, set[str]()),
    }
    operation, nodes, instances = found[fault]
    jobs = [[operation, move]] if fault == "starts-twice" else [[operation]]
    return [Task("site", frozenset(nodes), frozenset(instances), "the site wants it", jobs)]


def _all(world: World) -> set[str]:
    return {one.name for one in world.cluster.nodes}
