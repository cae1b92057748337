"""The truth before and after a daemon reads the cluster: what holds at both times it can see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fault_world.checks.candidates import Pool, pool
from ganeti_steward.plugins.maintenance.pause import pause_reason
from ganeti_steward.plugins.model.incident import CANCEL_TAG, FENCE_TAG, OPT_OUT_TAG, STOPPED_TAG

if TYPE_CHECKING:
    from fault_world.world import World

Row = Mapping[str, Any]


class Seen(NamedTuple):
    """What is true of the cluster."""

    at: int
    """ns since the epoch"""
    paused: bool
    masters: frozenset[str]
    out: frozenset[str]
    """names of nodes that are drained or offline"""
    repaired: frozenset[str]
    """names of nodes with an incident that has not ended well"""
    was_repaired: frozenset[str]
    """the same before or after, by records that people have changed as well"""
    ill: frozenset[str]
    """names of nodes that report a fault, or did so before or after"""
    excluded: frozenset[str]
    """names of nodes and instances that nothing may be done to"""
    was_excluded: frozenset[str]
    """names of those that were, before or after"""
    memory: Mapping[str, int]
    """node -> free MiB"""
    good: frozenset[str]
    """drbd instances both of whose copies are whole or being synchronized, on nodes that answer"""
    secondaries: Mapping[str, tuple[str, str]]
    """drbd instance -> its primary and its secondary"""
    was_out: frozenset[str]
    """names of nodes that are drained or offline, or were so before or after"""
    was_offline: frozenset[str]
    """those of them that are or were offline"""
    primaries: Mapping[str, str]
    """instance -> its primary"""
    runs: frozenset[tuple[str, str]]
    """instance and node on which it runs"""
    pool: Pool
    """those that have, or could have, a copy of the configuration before or after"""
    canceled: frozenset[str]
    """uuids of the incidents that a person cancels by a tag"""
    confirmed: frozenset[str]
    """uuids of the incidents whose node is off by a person's tag, or was before or after"""
    permitted: frozenset[str]
    """uuids of the incidents whose node a person permits to be switched off, likewise"""


def seen(world: World, records: Mapping[str, Row]) -> Seen:
    """The truth now; ``records``: those that a daemon wrote, by uuid."""
    ganeti = world.ganeti
    groups = {row["uuid"] for row in ganeti.groups if OPT_OUT_TAG in row["tags"]}
    excluded = {
        row["name"]
        for row in (*ganeti.nodes, *ganeti.instances)
        if OPT_OUT_TAG in row["tags"] or row.get("group.uuid") in groups
    }
    out = frozenset(row["name"] for row in ganeti.nodes if row["drained"] or row["offline"])
    tags = [tag for row in ganeti.nodes for tag in row["tags"]]
    drbd = {row["name"]: (row["pnode"], row["snodes"][0]) for row in _drbd(world)}
    return Seen(
        world.clock.now,
        pause_reason(frozenset(ganeti.info["tags"])) is not None,
        frozenset((ganeti.master,)),
        out,
        repaired(records),
        repaired(world.checks.records),
        frozenset(ganeti.reports),
        frozenset(excluded),
        frozenset(excluded),
        {row["name"]: ganeti.free_memory(row["name"]) for row in ganeti.nodes},
        frozenset(name for name, nodes in drbd.items() if _is_good(world, name, nodes)),
        drbd,
        out,
        frozenset(row["name"] for row in ganeti.nodes if row["offline"]),
        {row["name"]: row["pnode"] for row in ganeti.instances},
        frozenset((name, node) for name, on in ganeti.runs.items() for node in on),
        pool(ganeti),
        frozenset(tag.removeprefix(CANCEL_TAG) for tag in tags if tag.startswith(CANCEL_TAG)),
        _tagged(world, STOPPED_TAG),
        _tagged(world, FENCE_TAG),
    )


def _tagged(world: World, word: str) -> frozenset[str]:
    """The incidents for which their node has this tag."""
    tags = {row["uuid"]: row["tags"] for row in world.ganeti.nodes}
    return frozenset(
        uuid
        for uuid, record in world.checks.records.items()
        if f"{word}{uuid}" in tags.get(record["node"], ())
    )


def repaired(records: Mapping[str, Row]) -> frozenset[str]:
    """Names of the nodes with an incident that has not ended well."""
    return frozenset(
        one["node_name"]
        for one in records.values()
        if one["status"] in _OPEN and not (one.get("maintenance") and one["status"] == "noted")
    )


_OPEN = ("noted", "pending", "failed")


def _drbd(world: World) -> list[dict[str, Any]]:
    return [row for row in world.ganeti.instances if row["snodes"]]


def _is_good(world: World, name: str, nodes: tuple[str, str]) -> bool:
    """Whether both copies are good, or the one that is not gets there by itself."""
    data = world.ganeti.data[name]
    whole = {*nodes} == data.whole or (data.resyncing and data.broken.isdisjoint(nodes))
    return whole and all(map(world.ganeti.answers, nodes))


def both(before: Seen, after: Seen) -> Seen:
    """What held at both times."""
    return Seen(
        before.at,
        before.paused and after.paused,
        before.masters & after.masters,
        before.out & after.out,
        before.repaired & after.repaired,
        before.was_repaired | after.was_repaired,
        before.ill | after.ill,
        before.excluded & after.excluded,
        before.was_excluded | after.was_excluded,
        {
            name: max(free, after.memory[name])
            for name, free in before.memory.items()
            if name in after.memory
        },
        before.good & after.good,
        dict(before.secondaries.items() & after.secondaries.items()),
        before.was_out | after.was_out,
        before.was_offline | after.was_offline,
        dict(before.primaries.items() & after.primaries.items()),
        before.runs & after.runs,
        Pool(
            before.pool.candidates & after.pool.candidates,
            before.pool.capable | after.pool.capable,
            before.pool.nodes & after.pool.nodes,
        ),
        before.canceled & after.canceled,
        before.confirmed | after.confirmed,
        before.permitted | after.permitted,
    )
