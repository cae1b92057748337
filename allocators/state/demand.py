"""One instance in the figures the engine counts with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ganeti_steward.core.model.cluster import Instance

#: The CPU load 1 in the engine's whole numbers, which stay exact however often they are
#: added and taken off again.
LOAD_UNIT: Final = 10**9


class Demand(NamedTuple):
    """What an instance takes of its nodes (allocation 3.1, 3.5)."""

    instance: Instance
    memory: int
    """MiB of memory when running"""
    use: int
    """MiB of memory it takes now; 0 when stopped or forthcoming"""
    reserve: int
    """MiB its secondary keeps free for it; 0 when administratively offline"""
    vcpus: int
    """number of CPUs that count; 0 when administratively offline"""
    load: int
    """CPU load in nano-loads; 1 load unless it is measured (allocation 3.4)"""
    disk: int
    """MiB of disk on each node; 0 unless storage is local"""
    spindles: int
    """number of dedicated spindles on each node; -1 when unknown"""
    spindle_use: int
    """share of the common spindles; 0 unless storage is local"""
    exclusion: tuple[str, ...]
    """its exclusion tags"""
    desired_locations: frozenset[str]
    """location tags its primary should carry"""

    @property
    def drbd(self) -> bool:
        """Whether it is mirrored to a secondary."""
        return self.instance.template == "drbd"


class TagRules(NamedTuple):
    """The cluster tags that give instance and node tags a meaning (allocation 3.5)."""

    exclusion: tuple[str, ...]
    """prefixes of exclusion tags of instances"""
    location: tuple[str, ...]
    """prefixes of location tags of nodes"""
    desired: tuple[str, ...]
    """prefixes of desired location tags of instances"""
    migration: tuple[str, ...]
    """prefixes of migration tags of nodes"""
    accepts: tuple[tuple[str, str], ...]
    """(a, b): a node carrying migration tag b also takes instances from nodes with a"""

    @classmethod
    def of(cls, tags: tuple[str, ...]) -> TagRules:
        """Read the ``htools:`` tags of a cluster; malformed ones mean nothing."""
        pairs = [tuple(rest.split("::")) for rest in _suffixes(tags, "htools:allowmigration:")]
        return cls(
            exclusion=tuple(p for p in _suffixes(tags, "htools:iextags:") if p),
            location=tuple(p + ":" for p in _suffixes(tags, "htools:nlocation:")),
            desired=tuple(p for p in _suffixes(tags, "htools:desiredlocation:") if p),
            migration=tuple(p + ":" for p in _suffixes(tags, "htools:migration:")),
            accepts=tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2),
        )

    def demand(self, instance: Instance) -> Demand:
        """The instance in the engine's figures."""
        local, spindles, tags = instance.local, instance.spindles, instance.tags
        load = instance.cpu_load
        return Demand(
            instance,
            instance.memory,
            instance.memory if instance.uses_memory else 0,
            instance.reserved,
            instance.vcpus if instance.counts_vcpus else 0,
            LOAD_UNIT if load == 1.0 else round(load * LOAD_UNIT),
            instance.disk_space if local else 0,
            -1 if spindles is None else spindles,
            instance.spindle_use if local else 0,
            tuple(dict.fromkeys(t for t in tags if t.startswith(self.exclusion))) if tags else (),
            frozenset(t for t in tags if t.startswith(self.desired)) if tags else frozenset(),
        )


def _suffixes(tags: tuple[str, ...], prefix: str) -> list[str]:
    return [tag[len(prefix) :] for tag in tags if tag.startswith(prefix)]
