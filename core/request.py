"""What Ganeti may ask an allocator, as values (allocation 6 and 9)."""

from __future__ import annotations

from typing import NamedTuple

from ganeti_steward.core.model import Instance


class Allocate(NamedTuple):
    """Place one new instance on ``required_nodes`` nodes."""

    instance: Instance
    required_nodes: int
    group_name: str | None = None
    restrict_to: tuple[str, ...] | None = None


class MultiAllocate(NamedTuple):
    """Place a batch of new instances; ``group_name`` holds for those that name none."""

    items: tuple[Allocate, ...]
    group_name: str | None = None


class Relocate(NamedTuple):
    """Find one new node for an instance that leaves ``relocate_from``."""

    name: str
    required_nodes: int
    relocate_from: tuple[str, ...]


class AllocateSecondary(NamedTuple):
    """Find a secondary for an instance that becomes drbd."""

    name: str


Request = Allocate | MultiAllocate | Relocate | AllocateSecondary

#: Request type on the wire -> the hook that answers it.
HOOKS = {
    "allocate": "steward_allocate",
    "multi-allocate": "steward_multi_allocate",
    "relocate": "steward_relocate",
    "allocate-secondary": "steward_allocate_secondary",
}

TYPE_NAMES: dict[type, str] = {
    Allocate: "allocate",
    MultiAllocate: "multi-allocate",
    Relocate: "relocate",
    AllocateSecondary: "allocate-secondary",
}

#: What else Ganeti 3 sends; refused with a clear answer.
UNANSWERED = ("node-evacuate", "change-group")
