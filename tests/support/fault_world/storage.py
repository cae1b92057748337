"""Physical volumes of nodes in the simulated world, as LVM and Ganeti show them.

What LVM refuses and what it removes is from section 8 of ``contrib/lab/facts.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ganeti_steward.plugins.simulation.jobs import JobFailed

if TYPE_CHECKING:
    from fault_world.ganeti import Ganeti

Row = dict[str, Any]

GROUP: Final = "xenvg"
#: LVM's name of a volume that it misses.
MISSING: Final = "[unknown]"


class Volume:
    """One physical volume."""

    def __init__(self, name: str, size: int) -> None:
        """``size``: MiB."""
        self.name, self.size = name, size
        self.allocatable, self.missing = True, False


class Storage:
    """The physical volumes of all nodes; a node that was given none has one without a limit."""

    def __init__(self, ganeti: Ganeti) -> None:
        self._ganeti = ganeti
        self.volumes: dict[str, list[Volume]] = {}
        """name of a node -> its physical volumes, in the order in which they are filled"""
        self._places: dict[tuple[str, str], Volume | None] = {}
        """node and instance -> where its disks lie; None: they were removed"""

    def add(self, node: str, name: str, size: int) -> None:
        """A volume joins the group; ``size``: MiB."""
        self.volumes.setdefault(node, []).append(Volume(name, size))
        self._resized(node)

    def volume(self, node: str, name: str) -> Volume | None:
        """A volume that is there."""
        return next(
            (one for one in self.volumes.get(node, ()) if one.name == name and not one.missing),
            None,
        )

    def lose(self, node: str, name: str) -> None:
        """LVM does not find a volume any more; DRBD drops the disks that lay on it."""
        found = self.volume(node, name)
        if found is None:
            return
        for row in self._with_disks(node):
            if self._places[node, row["name"]] is found:
                data = self._ganeti.data[row["name"]]
                data.copies[node] = 0
                data.broken.add(node)
        found.missing = True

    def replace(self, node: str, name: str) -> None:
        """A new, empty volume has the place of one that is gone, or that is taken out now."""
        known = self.volumes.get(node, [])
        size = next((one.size for one in known if one.name == name), 0) or max(
            (one.size for one in known), default=0
        )
        self.volumes[node] = [one for one in known if one.name != name]
        self.add(node, name, size)

    def lacks(self, node: str, instance: str) -> bool:
        """Whether the volumes of an instance were removed."""
        return (node, instance) in self._places and self._places[node, instance] is None

    # What operations do

    def physical(self, node: str) -> list[list[Any]]:
        """Name, free MiB and whether it is allocatable, of each."""
        used = self._used(node)
        return [
            [MISSING if one.missing else one.name, one.size - used.get(one, 0), one.allocatable]
            for one in self.volumes.get(node, ())
        ]

    def logical(self, node: str) -> list[list[str]]:
        """Group, volume, physical volume and instance of each."""
        return [
            [GROUP, f"{row['uuid']}.disk{at}_{kind}", MISSING if on.missing else on.name, name]
            for row in self._with_disks(node)
            for name in [row["name"]]
            for on in [self._places[node, name]]
            if on is not None
            for at in range(len(row["disk.sizes"]))
            for kind in (("data", "meta") if row["disk_template"] == "drbd" else ("data",))
        ]

    def set_allocatable(self, node: str, name: str, allocatable: bool) -> None:
        """Permit or forbid new volumes on one."""
        self._changeable(node)
        found = self.volume(node, name)
        if found is None:
            raise JobFailed(f'Failed to find physical volume "{name}".', kind="OpExecError")
        found.allocatable = allocatable

    def repair(self, node: str) -> None:
        """Take missing volumes out of the group, and what lay on them."""
        for row in self._with_disks(node):
            on, name = self._places[node, row["name"]], row["name"]
            others = self._ganeti.data[name].broken - {node}
            if others and self._ganeti.runs[name]:
                text = f"Instance {name} has faulty disks on node {min(others)}"
                raise JobFailed(text, "wrong_state")
            if on is not None and on.missing:
                self._places[node, name] = None
        self.volumes[node] = [one for one in self.volumes.get(node, []) if not one.missing]
        self._resized(node)

    def _resized(self, node: str) -> None:
        """Volumes that are closed or missing still count."""
        self._ganeti.node(node)["dtotal"] = sum(one.size for one in self.volumes[node])

    def replace_in_place(self, node: str, row: Row) -> None:
        """The disks of an instance get new volumes on the same node."""
        if node not in self.volumes:
            return
        self._changeable(node)
        rows = {one["name"] for one in self._with_disks(node)}
        assert row["name"] in rows
        self._places[node, row["name"]] = self._with_room(node, space(row))

    def _changeable(self, node: str) -> None:
        if any(one.missing for one in self.volumes.get(node, ())):
            text = f"Cannot change VG {GROUP} while PVs are missing."
            raise JobFailed(text, kind="OpExecError")

    # Where disks lie

    def _with_disks(self, node: str) -> list[Row]:
        """The instances with volumes on a node; new ones are put on the first volume with room."""
        if node not in self.volumes:
            return []
        rows = [row for row in self._ganeti.on(node) if row["disk_template"] in ("drbd", "plain")]
        there = {(node, row["name"]) for row in rows}
        for key in [key for key in self._places if key[0] == node and key not in there]:
            del self._places[key]
        for row in rows:
            if (node, row["name"]) not in self._places:
                self._places[node, row["name"]] = self._with_room(node, space(row))
        return rows

    def _with_room(self, node: str, needed: int) -> Volume:
        used = self._used(node)
        for one in self.volumes[node]:
            free = one.size - used.get(one, 0)
            if one.allocatable and not one.missing and free >= needed:
                return one
        text = f'Volume group "{GROUP}" has insufficient free space: {needed} MiB required.'
        raise JobFailed(text, kind="OpExecError")

    def _used(self, node: str) -> Mapping[Volume, int]:
        found: dict[Volume, int] = {}
        for row in self._ganeti.on(node):
            on = self._places.get((node, row["name"]))
            if on is not None:
                found[on] = found.get(on, 0) + space(row)
        return found


def space(row: Row) -> int:
    """MiB that the disks of an instance take on one node."""
    metadata = 128 * len(row["disk.sizes"]) if row["disk_template"] == "drbd" else 0
    return sum(row["disk.sizes"]) + metadata
