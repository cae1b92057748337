"""Draws the cluster and the configuration of one history."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from fault_world.ganeti import Ganeti
from ganeti_steward.core.config.values import Config
from ganeti_steward.plugins.maintenance.config import ACT, Harep, Maintd, Rebalance
from ganeti_steward.plugins.model.incident import OPT_OUT_TAG

Row = dict[str, Any]

#: Moves begin early, so that histories have some.
_BALANCING: Final = Rebalance(threshold=0, min_gain=0.01, hold_time=60, search_interval=120)


def drawn_shape(random: Random, needed: Mapping[str, Any]) -> tuple[Ganeti, Config]:
    """A cluster and a configuration; ``needed``: settings of the daemon that are not drawn."""
    nodes, instances = random.randint(3, 6), random.randint(2, 10)
    settings = _settings(random, nodes)._replace(**needed)
    harep = Harep(disk_check_interval=random.choice((60, 300)))
    sections = {"maintd": settings, "rebalance": _BALANCING, "harep": harep}
    config = Config(sections=sections)
    pool = random.choice((1, 2, 3, 3, 5))
    ganeti = Ganeti([f"node{number}" for number in range(1, nodes + 1)], pool)
    for number in range(1, instances + 1):
        ganeti.draw_instance(f"inst{number}", random)
    for peculiarity in _PECULIARITIES:
        if random.random() < _PECULIAR:
            peculiarity(ganeti, random)
    ganeti.promote()
    return ganeti, config


#: The share of the clusters that has one of these.
_PECULIAR: Final = 0.15


def _node(ganeti: Ganeti, random: Random) -> Row:
    return random.choice(ganeti.nodes[1:])


def _excluded_node(ganeti: Ganeti, random: Random) -> None:
    """Nothing may be done to a node."""
    random.choice(ganeti.nodes)["tags"].append(OPT_OUT_TAG)


def _excluded_instances(ganeti: Ganeti, random: Random) -> None:
    """Nothing may be done to some instances."""
    for row in random.sample(ganeti.instances, min(2, len(ganeti.instances))):
        row["tags"].append(OPT_OUT_TAG)


def _out_of_sync(ganeti: Ganeti, random: Random) -> None:
    """Copies of disks have to be synchronized, and some of them are."""
    for row in ganeti.instances:
        data = ganeti.data[row["name"]]
        if row["snodes"] and random.random() < 0.5:
            data.copies[row["snodes"][0]] = 0
            data.resyncing = random.random() < 0.5


def _drained_node(ganeti: Ganeti, random: Random) -> None:
    """A node is drained."""
    _node(ganeti, random).update(drained=True, master_candidate=False)


def _incapable_nodes(ganeti: Ganeti, random: Random) -> None:
    """Some nodes can never be the master."""
    for row in ganeti.nodes[1:]:
        if random.random() < 0.6:
            row.update(master_capable=False, master_candidate=False)


_PECULIARITIES: Final = (
    _excluded_node,
    _excluded_instances,
    _out_of_sync,
    _drained_node,
    _incapable_nodes,
)


def _settings(random: Random, nodes: int) -> Maintd:
    return Maintd(
        mode=ACT,
        hold_time=random.choice((0, 0, 60, 300)),
        healthy_delay=random.choice((0, 60, 300)),
        most_nodes=random.randint(1, nodes),
        most_waiting=random.randint(1, nodes),
        most_incidents=random.choice((1, 2, 4)),
        storm_share=random.choice((0.2, 0.5, 1.0)),
        incident_pause=random.choice((0, 60)),
        fold_after=random.choice((60, 2592000)),
        moves_at_once=random.randint(1, 4),
        moves_in_cluster=random.choice((0, 0, 2)),
        move_attempts=random.choice((1, 3)),
        retry_delay=random.choice((20, 90)),
        poll_interval=random.choice((15, 60)),
        report_max_age=random.choice((150, 900)),
        round_interval=random.choice((30, 60)),
        command_time_limit=600,
        return_limit=random.choice((600, 1800)),
        dead_after=random.choice((0, 60, 300)),
        fence=random.choice(("off", "off", "confirm", "act", "act")),
        failover_unsynced=random.random() < 0.3,
        final_role=random.choice(("offline", "drained")),
        hold_creations=random.random() < 0.4,
        routine=random.choice(((), (), ("check-disks",), ("harep", "rebalance"))),
        blocked_limit=random.choice((60, 600)),
    )
