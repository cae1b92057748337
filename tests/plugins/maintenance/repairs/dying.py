"""A cluster of which one node has just died, and what shows that it lives."""

from __future__ import annotations

from typing import Any, Final

from evacuated import Evacuated
from worlds import NOW, changed, instance, node, uuid_of, with_node, world

from ganeti_steward.core.model.opcodes import Job
from ganeti_steward.plugins.model.incident import DEAD
from ganeti_steward.plugins.model.operations import out_of_band
from ganeti_steward.plugins.model.world import Observation, Refused, Reported, Silent

LIMIT: Final = 300
GONE: Final = Silent(NOW, "the connection timed out", gone=True)
DOWN: Final = (
    instance("web", "n2", "n3", status="ERROR_nodedown"),
    instance("cache", "n2", template="diskless", status="ERROR_nodedown"),
    instance("shop", "n2", template="ext", status="ERROR_nodedown"),
)
OFF: Final = [out_of_band("n2", "power-off"), out_of_band("n2", "power-status")]
ADDRESS: Final = "198.51.100.2"
PRIMARY: Final = "192.0.2.102"
OTHER: Final = "192.0.2.104"


def healthy(*linked: str, unreached: tuple[str, ...] | None = (PRIMARY,)) -> Reported:
    return Reported(b'{"status":"Ok"}', "Ok", "", NOW, linked=linked, unreached=unreached)


def dying(*instances: Any, **settings: Any) -> Evacuated:
    """``n2`` has just died; the others are healthy, and DRBD of none is connected to it."""
    nodes = [node(f"n{at}", master=at == 1, master_candidate=True) for at in range(1, 6)]
    nodes[1] = changed(nodes[1], primary_ip=PRIMARY, secondary_ip=ADDRESS)
    nodes[3] = changed(nodes[3], primary_ip=OTHER)
    seen: dict[str, Observation] = {f"n{at}": healthy() for at in (1, 3, 4, 5)}
    start = world(nodes, instances or DOWN, observations={**seen, "n2": GONE})
    cluster = Evacuated(start, dead_after=LIMIT, most_nodes=5, most_waiting=5, **settings)
    cluster.dies("n2")
    cluster.outcome = switched_off
    for one in start.cluster.instances:
        if one.template == "drbd":
            cluster.disks(one.name)
    return cluster


def switched_off(job: Job) -> list[Any]:
    if job[0]["OP_ID"] != "OP_OOB_COMMAND":
        return [None] * len(job)
    return [[[[0, "n2"], [0, None]]], [[[0, "n2"], [0, {"powered": False}]]]][: len(job)]


def observe(cluster: Evacuated, name: str, found: Observation) -> None:
    seen = {**cluster.now.observations, uuid_of(name): found}
    cluster.now = cluster.now._replace(observations=seen)


def dead(cluster: Evacuated) -> list[str]:
    """The states of its incidents about dead nodes."""
    return [one.status for one in cluster.now.incidents.values() if one.action == DEAD]


#: What shows that the machine runs: the agent, the machine, the node daemon.
LIFE: Final = {
    "report": healthy(),
    "refused": Refused(NOW, "the signature is wrong"),
    "machine": Silent(NOW, "connection refused"),
    "node daemon": None,
}


def lives(cluster: Evacuated, sign: str) -> None:
    found = LIFE[sign]
    if found is None:
        cluster.now = with_node(cluster.now, "n2", missing=())
    else:
        observe(cluster, "n2", found)
