"""What a diagnose source reports about a node: findings, unknowns, what does not apply.

Statuses and their order are those of the diagnose object.  What is unknown
is neither healthy nor broken: it has a value of its own and never becomes a status.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final, NamedTuple

#: Nothing to do; nothing but to use others first; repair with instances running; evacuate; evacuate
#: without live migration.
OK: Final = "Ok"
SUSPECT: Final = "suspect"
LIVE_REPAIR: Final = "live-repair"
EVACUATE: Final = "evacuate"
EVACUATE_FAILOVER: Final = "evacuate-failover"

#: All statuses, the least severe first.
STATUSES: Final = (OK, SUSPECT, LIVE_REPAIR, EVACUATE, EVACUATE_FAILOVER)

#: Those by which all instances leave the node.
EVACUATIONS: Final = frozenset({EVACUATE, EVACUATE_FAILOVER})

#: The key of a finding's details that names failing physical volumes: a list of texts.
PHYSICAL_VOLUMES: Final = "physical_volumes"
#: What LVM and ``gnt-node list-storage`` call a physical volume that is missing.
MISSING: Final = "[unknown]"

#: The name of a command of a whitelist.
_COMMAND_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")

_OBJECT_ID: Final = re.compile(r"[0-9a-f]{64}")


class Finding(NamedTuple):
    """One thing that is known about the node.

    It has to be equal in every run while the hardware is the same: no times, counters or
    temperatures in ``details``.
    """

    source: str
    """the source and its object: the plugin's name, then ``:object`` (``smart:sda``)"""
    status: str
    """one of `STATUSES`; ``Ok``: it was checked and is fine"""
    command: str = ""
    """with ``live-repair``: the base name of a repair command"""
    details: Any = None
    """any JSON; None for nothing"""


class Unknown(NamedTuple):
    """What is not known: neither fine nor broken.  Earlier findings stay in effect."""

    source: str
    reason: str
    """one sentence"""


class NotApplicable(NamedTuple):
    """What this node does not have, and so is no part of its health."""

    source: str
    reason: str
    """one sentence"""


CheckResult = Finding | Unknown | NotApplicable


def severity(status: str) -> int:
    """The place of a status in `STATUSES`; raises ValueError for other words."""
    return STATUSES.index(status)


def is_name(text: str) -> bool:
    """Whether a text can be the name of a command."""
    return _COMMAND_NAME.fullmatch(text) is not None


def object_id(original: bytes) -> str:
    """What stands for a diagnose object in canonical form: equal for equal objects only."""
    return sha256(original).hexdigest()


def is_object_id(text: object) -> bool:
    """Whether this may be an object's `object_id`."""
    return isinstance(text, str) and _OBJECT_ID.fullmatch(text) is not None
