"""Jobs and operations as Ganeti takes them, and which operations move instances (allocation 10)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ganeti_steward.core.records import NamedTuple

#: One operation: ``OP_ID`` and its parameters.
Operation = dict[str, Any]
#: Operations of one job, run in order.
Job = list[Operation]

MIGRATE: Final = "OP_INSTANCE_MIGRATE"
FAILOVER: Final = "OP_INSTANCE_FAILOVER"
REPLACE_DISKS: Final = "OP_INSTANCE_REPLACE_DISKS"


class MoveOperation(NamedTuple):
    """An operation that moves an instance."""

    command: str
    """the command of gnt-instance, and the last part of RAPI's resource"""
    method: str
    """the HTTP method of RAPI's resource"""
    copies: bool
    """whether the disks are copied"""


#: The only operations Ganeti accepts from an allocator.
MOVES: Final[Mapping[str, MoveOperation]] = MappingProxyType(
    {
        MIGRATE: MoveOperation("migrate", "PUT", copies=False),
        FAILOVER: MoveOperation("failover", "PUT", copies=False),
        REPLACE_DISKS: MoveOperation("replace-disks", "POST", copies=True),
    }
)

SET_TAGS: Final = "OP_TAGS_SET"
REMOVE_TAGS: Final = "OP_TAGS_DEL"
