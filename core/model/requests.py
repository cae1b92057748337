"""The requests Ganeti makes of an allocator, as values (allocation 6 and 9)."""

from __future__ import annotations

from typing import Final

from ganeti_steward.core.model.cluster import Instance
from ganeti_steward.core.records import NamedTuple

#: What a node evacuation moves: primaries, secondaries, or both.
PRIMARY_ONLY: Final = "primary-only"
SECONDARY_ONLY: Final = "secondary-only"
EVAC_ALL: Final = "all"
EVAC_MODES: Final = (PRIMARY_ONLY, SECONDARY_ONLY, EVAC_ALL)


class Allocate(NamedTuple):
    """Place one new instance on ``required_nodes`` nodes."""

    instance: Instance
    required_nodes: int
    """number: 1, or 2 with a secondary"""
    group_name: str | None = None
    """name or uuid of the only group allowed; None: any"""
    restrict_to: tuple[str, ...] | None = None
    """names of the only nodes allowed; None: any"""


class MultiAllocate(NamedTuple):
    """Place a batch of new instances; ``group_name`` holds for those that name none."""

    items: tuple[Allocate, ...]
    group_name: str | None = None


class Relocate(NamedTuple):
    """Find one new node for an instance that leaves ``relocate_from``."""

    name: str
    required_nodes: int
    """number of nodes in the result"""
    relocate_from: tuple[str, ...]
    """names of nodes"""
    disk_space: int | None = None
    """MiB on the new node, metadata included; None: what the instance has"""


class AllocateSecondary(NamedTuple):
    """Find a secondary for an instance that becomes drbd."""

    name: str


class NodeEvacuate(NamedTuple):
    """Move instances off their primaries, their secondaries or both (allocation 9.2)."""

    instances: tuple[str, ...]
    """full names of existing instances, each once, in the order of the request"""
    mode: str
    """one of EVAC_MODES"""


class ChangeGroup(NamedTuple):
    """Move instances to other node groups (allocation 9.3)."""

    instances: tuple[str, ...]
    """full names of existing instances, each once, in the order of the request"""
    target_groups: tuple[str, ...]
    """uuids; empty: any group but those the instances are in"""


#: What copying must gain beyond the best single moves unless a request says otherwise, score per
#: GiB: an exchange that copies 100 GiB must lower the score by 0.05.
MIN_GAIN_PER_GIB: Final = 0.0005


class Balance(NamedTuple):
    """Plan moves that lower the score of each group (the 2.1 design's ``balance``).

    On the wire only ``max_moves`` can be given; the rest is hbal's options.
    """

    max_moves: int | None = None
    """no limit when None"""
    groups: tuple[str, ...] | None = None
    """uuids of the groups to balance, None for all"""
    evacuate: bool = False
    """only instances that have an unusable node (--evac-mode)"""
    only_repairs: bool = False
    """only moves that end what is wrong, not those that even out (--only-repairs)"""
    disk_moves: bool = True
    """whether disks may be copied to another node"""
    instance_moves: bool = True
    """whether a primary may change"""
    restricted_migration: bool = False
    """migrate only off drained nodes"""
    select: frozenset[str] | None = None
    """only these instances"""
    exclude: frozenset[str] = frozenset()
    """not these instances"""
    min_gain: float = 0.01
    """score: what a move must gain where the score is at or below ``min_gain_limit``, and always
    where it goes beyond the best single moves, which hbal makes (--min-gain)"""
    min_gain_limit: float = 0.1
    """score: above it a best single move may gain less than ``min_gain`` (--min-gain-limit)"""
    min_gain_per_gib: float | None = None
    """score per GiB copied; None: 0 for the best single moves, `MIN_GAIN_PER_GIB` beyond them"""
    max_copy: float | None = None
    """GiB to be copied by all moves together; None: no limit"""
    disk_factor: float = 1.0
    """factor: how many times more a move that copies disks must gain (--avoid-disk-moves)"""
    fix: bool = False
    """instances should leave nodes on which a site rule would not place them today; a plugin
    gives such nodes a cost (``gnt-steward aggregate fix``)"""


class Capacity(NamedTuple):
    """Count how many instances like this one still fit (the 2.1 design's ``capacity``)."""

    item: Allocate


Request = (
    Allocate
    | MultiAllocate
    | Relocate
    | AllocateSecondary
    | NodeEvacuate
    | ChangeGroup
    | Balance
    | Capacity
)


class Kind:
    """What identifies a request type; `core.iallocator.request_type` describes the rest."""

    def __init__(self, value: type, name: str) -> None:
        self.value: Final = value
        self.name: Final = name
        """on the wire and in the configuration"""
        self.hook: Final = f"steward_{name.replace('-', '_')}"
        """the hook that answers it"""


#: All request types.
KINDS: Final = (
    Kind(Allocate, "allocate"),
    Kind(MultiAllocate, "multi-allocate"),
    Kind(Relocate, "relocate"),
    Kind(AllocateSecondary, "allocate-secondary"),
    Kind(NodeEvacuate, "node-evacuate"),
    Kind(ChangeGroup, "change-group"),
    Kind(Balance, "balance"),
    Kind(Capacity, "capacity"),
)

TYPE_NAMES: Final[dict[type, str]] = {kind.value: kind.name for kind in KINDS}

#: Request type on the wire -> the hook that answers it.
HOOKS: Final = {kind.name: kind.hook for kind in KINDS}
